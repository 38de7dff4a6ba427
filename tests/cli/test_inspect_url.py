"""`inspect` of a running worker: what its web server answers."""

import json

import pytest

from tests.cli.web_worker import FACETS, OVERVIEW, SHORT, VIEW


def test_found(run, port):
    ended = run("inspect", "a/b é", "--url", f"http://127.0.0.1:{port}/")
    assert (ended.code, json.loads(ended.out), ended.err) == (0, VIEW, "")


def test_the_settings_name_the_worker(run, port, monkeypatch):
    monkeypatch.setenv("COVERSUMM_WEB_PORT", str(port))
    monkeypatch.setenv("COVERSUMM_WEB_BIND", "0.0.0.0")
    assert run("inspect", "a/b é").code == 0
    assert run("entities", "misplaced", "--limit", "1").code == 0


@pytest.mark.parametrize("command", ["inspect", "entities"])
def test_a_worker_of_another_group_is_shown_by_its_url_alone(run, port, monkeypatch, command):
    monkeypatch.setenv("COVERSUMM_WEB_PORT", str(port))
    monkeypatch.setenv("COVERSUMM_APP_ID", "other")
    given = ["a/b é"] if command == "inspect" else ["misplaced", "--limit", "1"]
    ended = run(command, *given)
    assert (ended.code, ended.out) == (2, "")
    assert "is of the group coversumm-worker, not of COVERSUMM_APP_ID=other" in ended.err
    assert run(command, *given, "--url", f"http://127.0.0.1:{port}").code == 0


@pytest.mark.parametrize(
    ("entity", "code", "message"),
    [
        ("nobody", 1, "there is no entity 'nobody'"),
        ("misplaced", 1, "'misplaced' is in partition 4, where queries do not look"),
        ("later", 2, "answers 503: rebalancing"),
        ("soon", 2, "not yet: 4,000 records behind; ask again in 1 s"),
        ("odd", 2, 'answers 500: "oh"'),
    ],
)
def test_refused(run, port, entity, code, message):
    ended = run("inspect", entity, "--url", f"http://127.0.0.1:{port}")
    assert (ended.code, ended.out) == (code, "")
    assert message in ended.err
    assert ended.err.count("\n") == 1


def test_an_address_without_the_page_says_nothing_of_the_entity(run, port):
    ended = run("inspect", "misplaced", "--view", "facets", "--url", f"http://127.0.0.1:{port}")
    assert (ended.code, ended.out) == (2, "")
    assert "answers 404" in ended.err
    assert "partitioner" not in ended.err


def test_nobody_there(run):
    ended = run("inspect", "e", "--url", "http://127.0.0.1:9")
    assert ended.code == 2
    assert "no worker answers at http://127.0.0.1:9" in ended.err


def test_on_a_terminal_it_is_a_table_that_no_text_can_spoil(run, port, terminal):
    terminal()
    ended = run("inspect", "a/b é", "--url", f"http://127.0.0.1:{port}")
    assert ended.code == 0
    (row,) = [line for line in ended.out.splitlines() if "r#0" in line]
    assert "[bold]Good\N{REPLACEMENT CHARACTER}[2J" in row
    assert "0.100000" in row
    assert "\x1b[2J" not in ended.out
    assert run("inspect", "a/b é", "--url", f"http://127.0.0.1:{port}", "--json").out.startswith(
        "{"
    )


def test_an_overview_has_no_technical_fields_unless_they_are_wanted(run, port, terminal):
    terminal()
    given = (
        "inspect",
        "x",
        "--url",
        f"http://127.0.0.1:{port}",
        "--view",
        "overview",
        "--language",
        "fr",
    )
    shown = run(*given)
    assert shown.code == 0
    assert "a/b é 2 reviews, 3 sentences" in shown.out
    verbose = run(*given, "--verbose").out
    for name in ("sequence", "threshold"):
        assert name in verbose
        assert name not in shown.out


def test_a_short_view(run, port):
    ended = run(
        "inspect", "x", "--url", f"http://127.0.0.1:{port}", "--view", "short", "--words", "9"
    )
    assert (ended.code, json.loads(ended.out)) == (0, SHORT)


def test_a_language_of_facets(run, port):
    def ask(view, language):
        url = f"http://127.0.0.1:{port}"
        return run("inspect", "x", "--url", url, "--view", view, "--language", language)

    assert json.loads(ask("facets", "fr").out) == FACETS
    assert json.loads(ask("overview", "fr").out) == OVERVIEW
    refused = ask("facets", "nl")
    assert (refused.code, refused.out) == (2, "")
    assert "answers 400: the facets are in fr, en" in refused.err
    assert ask("short", "fr").code == 2
