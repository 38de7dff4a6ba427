"""Files of variables: what a line may be, what wins, and that nothing of them stays behind."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from worker.errors import SetupError
from worker.settings import Settings, origins, unknown_settings
from worker.settings.environment import environment_file, read_env_file


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("A=1", "1"),
        ("  A=1  ", "1"),
        ("export A=1", "1"),
        ("export\tA=1", "1"),
        ("A=", ""),
        ("A=''", ""),
        ("A=x=y", "x=y"),
        ("A=a b", "a b"),
        ("A=a#b", "a#b"),
        ("A=#b", "#b"),
        ("A='a # b'", "a # b"),
        ("A='a' # comment", "a"),
        ('A="a # b" # comment', "a # b"),
        (r'A="say \"hi\" \\ \$x \n"', r'say "hi" \ $x \n'),
        (r"A='\"'", r"\""),
        ("A=$HOME/x", "$HOME/x"),
        ("A=it's", "it's"),
        ("A=\u2028x\u2028", "x"),
    ],
)
def test_lines(tmp_path: Path, line: str, value: str) -> None:
    path = tmp_path / "some.env"
    path.write_text(f"\ufeff# a comment\r\n\r\n; another\r\n{line}\r\n", newline="")
    assert read_env_file(str(path)) == [("A", value, f"{path}:4")]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("MARKER", "NAME=VALUE"),
        ("A B=MARKER", "NAME=VALUE"),
        ("1A=MARKER", "NAME=VALUE"),
        ("A = MARKER", "NAME=VALUE"),
        ("=MARKER", "NAME=VALUE"),
        ("A=MARKER\0", "NAME=VALUE"),
        ("A='MARKER", "quote"),
        ("A='MARKER' more", "quote"),
        ('A="MARKER\\"', "quote"),
        ("A=MARKER # is it a comment?", "quotes"),
    ],
)
def test_a_bad_line_is_named_and_not_shown(tmp_path: Path, line: str, words: str) -> None:
    path = tmp_path / "some.env"
    path.write_text(f"# one\nB=2\n{line}\n")
    with pytest.raises(SetupError) as caught:
        read_env_file(str(path))
    assert str(caught.value).startswith(f"{path}:3: ")
    assert words in str(caught.value)
    assert "MARKER" not in str(caught.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match=r"--env-file .*none\.env cannot be read: No such file"):
        read_env_file(str(tmp_path / "none.env"))
    (tmp_path / "latin").write_bytes(b"A=\xe9\n")
    with pytest.raises(SetupError, match="not UTF-8"):
        read_env_file(str(tmp_path / "latin"))


def test_the_environment_wins_and_is_left_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("COVERSUMM_EPOCH", "COVERSUMM_BATCH_SIZE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COVERSUMM_K", "7")
    monkeypatch.setenv("COVERSUMM_EMIT", "")
    path = tmp_path / "prod.env"
    path.write_text(
        "COVERSUMM_K=8\nCOVERSUMM_EPOCH=2\nCOVERSUMM_EMIT=coalesced\nCOVERSUMM_BATCH_SIZE=5\nCOVERSUMM_BATCH_SIZE=6\n"
    )
    before = dict(os.environ)
    with environment_file(str(path)):
        settings = Settings.from_environment()
        assert (settings.k, settings.epoch, settings.emit, settings.batch_size) == (
            7,
            2,
            "coalesced",
            6,
        )
        found = origins()
        assert (found["k"], found["epoch"], found["emit"]) == (
            "environment",
            f"{path}:2",
            f"{path}:3",
        )
        assert (found["batch_size"], found["distinct"]) == (f"{path}:5", "default")
        assert (found["instance_id"], found["dlq_topic"]) == ("computed",) * 2
    assert dict(os.environ) == before
    assert origins()["epoch"] == "default"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("COVERSUMM_K=many", "COVERSUMM_K: 'many' is not accepted"),
        ("COVERSUMM_EMITT=every", "COVERSUMM_EMITT: there is no such setting"),
        ("COVERSUMM_SCHEMA_REGISTRY_URL=x", "COVERSUMM_SCHEMA_REGISTRY_URL: 'x' is not accepted"),
    ],
)
def test_what_is_not_accepted_names_file_and_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, words: str
) -> None:
    monkeypatch.delenv("COVERSUMM_K", raising=False)
    path = tmp_path / "prod.env"
    path.write_text(f"\n{line}\n")
    with environment_file(str(path)), pytest.raises(SetupError) as caught:
        Settings.from_environment()
    assert str(caught.value).startswith(f"{path}:2: {words}")


def test_an_option_is_not_blamed_on_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COVERSUMM_K", raising=False)
    path = tmp_path / "prod.env"
    path.write_text("COVERSUMM_K=3\n")
    with environment_file(str(path)), pytest.raises(SetupError, match=r"^COVERSUMM_K: 'nine'"):
        Settings.from_environment(k="nine")


def test_an_unknown_variable_names_file_and_line(tmp_path: Path) -> None:
    path = tmp_path / "prod.env"
    path.write_text("COVERSUMM_TOP_K=3\n")
    with environment_file(str(path)):
        assert f"{path}:1: COVERSUMM_TOP_K (is it COVERSUMM_K?)" in (unknown_settings() or "")
