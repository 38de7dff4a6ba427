"""docs/deploy.md, scale.md, backup.md, upgrade.md: all of their commands, in this order, in one
played cluster on a real Kafka.

What cannot be played is held against what there is: targets of make, and the image's name against
the chart's.
"""

import gzip
import json
import re
import shlex
from collections.abc import Iterator

import pytest

from docs.build.render import ROOT
from tests.docs.played import PlayedCluster
from tests.harness.broker import KafkaBroker
from tests.harness.load import SAMPLE
from tests.harness.patience import TEST_SECONDS
from tests.harness.replays import archived
from tests.harness.topics import read_topic
from worker.view.output import PROGRAM

pytestmark = [pytest.mark.helm, pytest.mark.kafka, pytest.mark.timeout(TEST_SECONDS)]

STAY, REVIEWS = "abnb:25549565", 60
OUTPUT = "marketplace.review-summaries.v1"
NAMES = [f"shop-coversumm-worker-{ordinal}" for ordinal in range(3)]


def page(name: str) -> str:
    """Its text."""
    return (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")


def lines(name: str) -> list[str]:
    """Its lines for a shell, without the section of test_scale.py and the one of two versions."""
    other = "The first build|A new version with a new epoch"
    text = re.sub(rf"^## ({other})$.*?(?=^## )", "", page(name), flags=re.M | re.S)
    return [
        line
        for block in re.findall(r"^```sh\n(.*?)^```", text, re.M | re.S)
        for line in block.splitlines()
    ]


def play(cluster: PlayedCluster, name: str) -> dict[str, str]:
    """Every line of a page; what those printed that are commands of the worker, by their words."""
    printed, exported = {}, {}
    for line in lines(name):
        match shlex.split(line):
            case ["export", *settings]:
                exported = dict(setting.split("=", 1) for setting in settings)
                exported["KAFKA_BOOTSTRAP_SERVERS"] = cluster.kafka.bootstrap_servers
            case ["helm", verb, release, *options]:
                cluster.helm(verb, release, *options)
            case ["kubectl", *words]:
                stdin = cluster.directory / words[words.index("<") + 1] if "<" in words else None
                words = words[: words.index("<")] if stdin else words
                printed[" ".join(words).partition(f"{PROGRAM} ")[2]] = cluster.kubectl(words, stdin)
            case [program, *arguments] if program == PROGRAM:
                printed[" ".join(arguments)] = cluster.command(arguments, exported)
            case words:
                assert words[0] == "docker" or words[:2] == ["make", "image"], line
    return printed


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PlayedCluster]:
    """With what deploy.md makes of it, and sends."""
    directory = tmp_path_factory.mktemp("cluster")
    with gzip.open(SAMPLE) as file:
        reviews = file.readlines()
    some = reviews[:: len(reviews) // REVIEWS][:REVIEWS]  # of many stays: every worker has some
    assert any(json.loads(review)["entity_id"] == STAY for review in some)
    (directory / "reviews.jsonl").write_bytes(b"".join(some))
    values, _rotation = re.findall(r"^```yaml\n(.*?)^```", page("deploy"), re.M | re.S)
    (directory / "values.yaml").write_text(values)
    with KafkaBroker(directory / "kafka") as kafka:
        played = PlayedCluster(kafka, directory)
        try:
            played.printed = play(played, "deploy")
            yield played
        finally:
            played.discard()


def test_deploy(cluster: PlayedCluster) -> None:
    pushed = next(line for line in lines("deploy") if line.startswith("docker push"))
    image = cluster.releases["shop"].objects
    assert pushed.split()[-1] in json.dumps(image)
    assert f"IMAGE={pushed.split()[-1]}" in lines("deploy")[0]
    assert sorted(cluster.releases["shop"].pods) == NAMES[:2]
    status = json.loads(cluster.printed["status"])
    assert (len(status["workers"]), status["problems"]) == (2, [])
    assert json.loads(cluster.printed[f"inspect {STAY}"])["review_count"] > 0
    # metrics and alerts start nothing anew
    assert cluster.steps == [f"{name} started" for name in NAMES[:2]]


@pytest.mark.long
def test_scale(cluster: PlayedCluster) -> None:
    printed = play(cluster, "scale")
    assert sorted(cluster.releases["shop"].pods) == NAMES
    assert len(json.loads(printed["status"])["workers"]) == 3
    cluster.helm(
        "upgrade", "shop", "deploy/chart", "--namespace", "reviews", "--values", "values.yaml"
    )
    assert sorted(cluster.releases["shop"].pods) == NAMES[:2]


@pytest.mark.long
def test_backup(cluster: PlayedCluster) -> None:
    (cluster.directory / "archive").mkdir()
    records = read_topic(cluster.kafka.bootstrap_servers, "marketplace.reviews.v1")
    assert len(records) == REVIEWS
    rows = "".join(archived(record) for record in records)
    (cluster.directory / "archive" / "reviews.jsonl").write_text(rows)
    before = len(read_topic(cluster.kafka.bootstrap_servers, OUTPUT))
    printed = play(cluster, "backup")
    compared = json.loads(printed[f"compare {OUTPUT} drill.jsonl --max-changed 0"])
    assert compared["differing"] == {"0": len({record.key for record in records})}
    assert len(read_topic(cluster.kafka.bootstrap_servers, OUTPUT)) == before
    restored = json.loads(printed["compare drill.jsonl restored.jsonl --max-changed 0"])
    assert restored["differing"] == compared["differing"]
    assert json.loads(printed["send archive/"])["sent"] == REVIEWS
    assert cluster.releases["shop"].pods[NAMES[1]].process.restored_rows()[-1] > 0


@pytest.mark.long
def test_upgrade(cluster: PlayedCluster) -> None:
    already = len(cluster.steps)
    printed = play(cluster, "upgrade")
    once = [f"{name} {what}" for name in reversed(NAMES[:2]) for what in ("stopped", "started")]
    gone = [f"{name} stopped" for name in NAMES[:2]]
    others = ("shop-2-coversumm-worker-0 started", "shop-2-coversumm-worker-1 started")
    assert cluster.steps[already:] == [
        *once,
        *once,
        *others,
        *gone,
    ]  # the replay starts no worker anew
    promoted = [
        json.loads(out.splitlines()[-1])
        for words, out in printed.items()
        if words.startswith("promote")
    ]
    assert [line["ok"] for line in promoted] == [True, True]
    assert list(cluster.releases) == ["shop-2"]
    assert {path.name for path in (cluster.directory / "volumes").glob("data-shop-c*")} == set()
