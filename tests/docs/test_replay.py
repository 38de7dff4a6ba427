"""docs/replay.md: its commands run, from the first to the last, on the bundled sample and a real
Kafka of their own.
"""

import json
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from docs.build.render import ROOT
from tests.harness.broker import KafkaBroker
from tests.harness.load import SAMPLE
from tests.harness.node import free_port
from tests.harness.patience import TEST_SECONDS
from tests.harness.workers import WorkerProcess, run_command
from worker.cli.output import PROGRAM

PAGE = (ROOT / "docs" / "replay.md").read_text(encoding="utf-8")
LINES = [
    line
    for block in re.findall(r"^```sh\n(.*?)^```", PAGE, re.M | re.S)
    for line in block.splitlines()
]
REVIEWS = 120


@pytest.mark.kafka
@pytest.mark.timeout(TEST_SECONDS)
def test_the_commands(tmp_path: Path) -> None:
    reviews = subprocess.run(
        ["gunzip", "-c", SAMPLE], capture_output=True, check=True
    ).stdout.splitlines(True)
    (tmp_path / "reviews.jsonl").write_bytes(b"".join(reviews[:: len(reviews) // REVIEWS]))
    workers: list[WorkerProcess] = []
    with KafkaBroker(tmp_path / "kafka") as kafka:
        try:
            printed = dict(commands(kafka, tmp_path, workers))
        finally:
            for worker in workers:
                worker.discard()
    said = {
        words: [json.loads(line) for line in out.splitlines()] for words, out in printed.items()
    }
    estimated, replayed = said["replay --dry-run"][-1], said["replay"][-1]
    assert replayed["read"] == replayed["applied"] > REVIEWS / 2
    assert 0 < estimated["sampled"] <= replayed["read"]  # all of it, unless the machine is busy
    (going_on,) = [line for line in LINES if "PORT=8081" in line]
    of_test = re.compile("KAFKA_BOOTSTRAP_SERVERS|COVERSUMM_WEB_PORT")  # not what the page has
    told = [word for word in shlex.split(replayed["go_on_with"]) if not of_test.match(word)]
    page = going_on.replace("=data/", f"={tmp_path}/data/")
    assert told == [word for word in shlex.split(page) if not of_test.match(word)]
    (promoted,) = [lines for words, lines in said.items() if words.startswith("promote")]
    assert promoted[-1]["ok"]
    for name in ("own-time", "some", "from-file"):
        assert (tmp_path / f"{name}.jsonl").read_text()
    # by then none of the records had been written
    assert (tmp_path / "then.jsonl").read_text() == ""


def commands(
    kafka: KafkaBroker, directory: Path, workers: list[WorkerProcess]
) -> Iterator[tuple[str, str]]:
    """Each command's words, and what it printed; a worker goes on beside those that follow."""
    general = {
        "KAFKA_BOOTSTRAP_SERVERS": kafka.bootstrap_servers,
        "COVERSUMM_DATA_DIR": str(directory / "data"),
        "PYTHONPATH": str(ROOT),
    }
    for line in LINES:
        words = shlex.split(line.replace("reviews.jsonl.gz", "reviews.jsonl"))
        if words[0] == "export":
            continue
        own = dict(word.split("=", 1) for word in words[: words.index(PROGRAM)])
        own.pop("COVERSUMM_WEB_PORT", None)
        if "COVERSUMM_DATA_DIR" in own:
            own["COVERSUMM_DATA_DIR"] = str(directory / own["COVERSUMM_DATA_DIR"])
        arguments = words[words.index(PROGRAM) + 1 :]
        if arguments == ["run"]:
            port = {"COVERSUMM_WEB_PORT": str(free_port()), "COVERSUMM_WEB_BIND": "127.0.0.1"}
            worker = WorkerProcess(directory / f"worker-{len(workers)}", general | own | port)
            worker.web_port = int(port["COVERSUMM_WEB_PORT"])
            workers.append(worker.start())
            worker.wait_ready()
            continue
        yield " ".join(arguments), run(arguments, directory, general | own)


def run(arguments: list[str], directory: Path, settings: dict[str, str]) -> str:
    """What a command prints."""
    done = run_command(*arguments, environment=settings, cwd=directory)
    assert done.returncode == 0, f"{arguments}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    return done.stdout
