"""docs/changes.md: its commands run, from the first to the last, on the bundled sample and on
topics of a real Kafka.
"""

import gzip
import json
import re
from itertools import islice
from pathlib import Path

import pytest

from docs.build.render import ROOT
from tests.harness.broker import KafkaBroker
from tests.harness.patience import PATIENCE_SECONDS
from tests.harness.topics import producer
from tests.harness.workers import run_command
from tests.view.changes import body, facets_body
from worker.view.output import PROGRAM

PAGE = (ROOT / "docs" / "changes.md").read_text(encoding="utf-8")
LINES = [
    line
    for block in re.findall(r"^```sh\n(.*?)^```", PAGE, re.M | re.S)
    for line in block.splitlines()
]
OF_TOPICS = [line for line in LINES if ".v1" in line]
SAMPLE = ROOT / "worker" / "demo" / "data" / "airbnb_albany.jsonl.gz"
REVIEWS = 150


def run(line: str, directory: Path, **settings: str) -> str:
    """What a line for a shell prints."""
    program, *arguments = line.split()
    assert program == PROGRAM
    done = run_command(*arguments, environment={"PYTHONPATH": str(ROOT), **settings}, cwd=directory)
    assert done.returncode == 0, f"{line}\n{done.stderr}"
    return done.stdout


@pytest.mark.long
def test_the_commands_on_files(tmp_path: Path) -> None:
    with gzip.open(SAMPLE) as lines:
        stay = (line for line in lines if b'"abnb:25549565"' in line)
        reviews = sorted(islice(stay, REVIEWS), key=lambda line: json.loads(line)["created_at"])
    (tmp_path / "reviews.jsonl.gz").write_bytes(gzip.compress(b"".join(reviews)))
    # Embedding is nearly all of the time: the second summary takes the vectors of the first.
    kept = {"COVERSUMM_VECTOR_STORE_DIR": str(tmp_path / "vectors")}
    printed = [run(line, tmp_path, **kept) for line in LINES if line not in OF_TOPICS]
    assert len(printed) == 5
    compared = json.loads(printed[2])
    assert (compared["contained"], compared["changed"], compared["k_a"], compared["k_b"]) == (
        1,
        0,
        [20],
        [10],
    )
    assert len(printed[3].splitlines()) == 3
    assert {json.loads(row)["occurred_at"][:7] for row in printed[4].splitlines()} == {"2018-07"}


@pytest.mark.kafka
@pytest.mark.long
def test_the_commands_on_topics(kafka: KafkaBroker, tmp_path: Path) -> None:
    writer = producer(kafka.bootstrap_servers)
    value = body("B00X", 1, {"r#0": "Good."}, ["r#0"], previous=None)
    for topic in ("summaries.v1", "summaries.v2"):
        kafka.create_topic(topic, 2)
        writer.produce(topic, value, b"B00X")
    facets = facets_body("B00X", 1, {"parking": {"r#0": "Good."}}, ["parking"], previous=None)
    for topic in ("facets.v1", "facets.v2"):
        kafka.create_topic(topic, 2)
        writer.produce(topic, facets, b"B00X")
    assert writer.flush(PATIENCE_SECONDS) == 0
    (tmp_path / "k10.jsonl.gz").write_bytes(gzip.compress(value + b"\n"))
    printed = [
        run(line, tmp_path, KAFKA_BOOTSTRAP_SERVERS=kafka.bootstrap_servers) for line in OF_TOPICS
    ]
    assert len(printed) == 7
    assert [json.loads(line)["identical"] for line in printed[:3]] == [1, 1, 1]
    assert json.loads(printed[3])["added_texts"] == {"r#0": "Good."}
    assert printed[4] == printed[3]  # it is all since that date
    assert (json.loads(printed[5])["facet"], json.loads(printed[6])["identical"]) == ("parking", 1)
