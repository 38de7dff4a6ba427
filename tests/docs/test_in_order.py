"""README, connect.md, facets.md, replay.md and tutorial.md, typed one after the other on one
machine with one Kafka. Each test needs those before it.
"""

import gzip
import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from docs.build.render import ROOT
from tests.docs.shell import Shell, blocks, run
from tests.docs.test_connect import EXAMPLES, Example
from tests.harness.broker import KafkaBroker
from tests.harness.eventually import eventually
from tests.harness.load import SAMPLE
from tests.harness.patience import TEST_SECONDS
from tests.real_kafka.test_connect import PARTITIONS, as_json, run_example, send_samples
from worker.mapping import load_mapping

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(TEST_SECONDS)]

STAY, REVIEWS = "abnb:25549565", 120
TUTORIAL = ROOT / "docs" / "tutorial"


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """Of these tests alone: the pages name the topics."""
    with KafkaBroker(tmp_path_factory.mktemp("kafka")) as broker:
        yield broker


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The parts of a clone that the pages use, with fewer reviews."""
    directory = tmp_path_factory.mktemp("clone")
    (directory / "docs").symlink_to(ROOT / "docs")
    data = directory / "worker" / "demo" / "data"
    data.mkdir(parents=True)
    with gzip.open(SAMPLE) as file:
        reviews = file.readlines()
    some = reviews[:: len(reviews) // REVIEWS]
    (data / "airbnb_albany.jsonl.gz").write_bytes(gzip.compress(b"".join(some)))
    return directory


@pytest.fixture
def shell(kafka: KafkaBroker, clone: Path) -> Iterator[Shell]:
    """A terminal in the clone."""
    with Shell(kafka, clone) as made:
        yield made


def overview(printed: str) -> dict[str, dict[str, object]]:
    """The facets of an overview in JSON, by name."""
    return {facet["name"]: facet for facet in json.loads(printed)["facets"]}


@pytest.mark.long
def test_readme(shell: Shell) -> None:
    for kind, text in blocks("README.md", "A file, without Kafka"):
        assert kind == "sh"
        printed = shell.run(text)
    (summarized,) = [out for line, out in printed.items() if "summarize" in line]
    assert re.search(r"^location +\d+ mentions? +\S", summarized, re.M)
    shell.stop()  # as Ctrl-C does
    (text, *_) = [text for kind, text in blocks("README.md", "Your own Kafka") if kind == "sh"]
    printed = shell.run(text)
    asked = [out for line, out in printed.items() if line.split()[0] == "curl" or STAY in line]
    assert len(asked) == 2
    for out in asked:
        assert "location" in overview(out)
    (log,) = [out for line, out in printed.items() if line.startswith("python")]
    eventually(lambda: f"{STAY} {{'location': [" in Path(log).read_text(), shell.logs)


@pytest.mark.long
@pytest.mark.parametrize(
    "example",
    [example for example in EXAMPLES if example.commands and "framed" not in example.mapping],
    ids=lambda example: example.name,
)
def test_connect(shell: Shell, kafka: KafkaBroker, example: Example) -> None:
    file = shell.directory / "mapping.toml"
    file.write_text(example.mapping)
    (source,) = load_mapping(file)
    kafka.create_topic(source, PARTITIONS)
    send_samples(kafka, source, example.records, as_json, as_json)
    run_example(shell, example)


@pytest.mark.long
def test_facets(shell: Shell) -> None:
    (on, replay) = [text for kind, text in blocks("docs/facets.md", "Turn them on") if kind == "sh"]
    printed = shell.run(on)
    (shown,) = [out for line, out in printed.items() if " inspect " in line]
    assert "location" in overview(shown)
    kind, definitions = blocks("docs/facets.md", "Define them")[0]
    assert kind == "toml"
    (shell.directory / "facets.toml").write_text(definitions)
    (report,) = shell.run(replay).values()
    assert json.loads(report.splitlines()[-1])["applied"] > REVIEWS / 2


@pytest.mark.long
def test_replay(shell: Shell) -> None:
    printed: dict[str, str] = {}
    for kind, text in blocks("docs/replay.md"):
        assert kind == "sh"
        printed |= shell.run(text)
    said = {
        line.partition("coversumm-worker ")[2]: [json.loads(line) for line in out.splitlines()]
        for line, out in printed.items()
        if not line.endswith(" run")
    }
    estimated, replayed = said["replay --dry-run"][-1], said["replay"][-1]
    assert replayed["read"] == replayed["applied"] > REVIEWS / 2
    assert 0 < estimated["sampled"] <= replayed["read"]  # all of it, unless the machine is busy
    (line,) = [line for line in printed if "PORT=8082" in line]
    of_test = re.compile("KAFKA_BOOTSTRAP_SERVERS|COVERSUMM_WEB_PORT")  # not what the page has
    words = [word for word in shlex.split(replayed["go_on_with"]) if not of_test.match(word)]
    here = line.replace("=data/", f"={shell.directory}/data/")
    assert sorted(word.replace("=data/", f"={shell.directory}/data/") for word in words) == sorted(
        word for word in shlex.split(here) if not of_test.match(word)
    )
    (promoted,) = [lines for words, lines in said.items() if words.startswith("promote")]
    assert promoted[-1]["ok"]
    for name in ("own-time", "some", "from-file"):
        assert (shell.directory / f"{name}.jsonl").read_text()
    # by then none of the records had been written
    assert (shell.directory / "then.jsonl").read_text() == ""


@pytest.mark.long
def test_tutorial(shell: Shell) -> None:
    """From the first line to the last, and what the page says that happens."""
    sections = [
        line.removeprefix("## ")
        for line in (ROOT / "docs/tutorial.md").read_text().splitlines()
        if line.startswith("## ") and line[3].isdigit()
    ]
    assert [section.partition(".")[0] for section in sections] == list("123456")
    start, *_ = [text for kind, text in blocks("docs/tutorial.md") if kind == "sh"]
    shell.run(start)
    printed = [
        [shell.run(text) for kind, text in blocks("docs/tutorial.md", section) if kind == "sh"]
        for section in sections
    ]
    (subjects,), (topic,), (worker,), (query, read), (update,), (replay, look) = printed
    (card,) = subjects.values()
    (expected,) = [text for kind, text in blocks("docs/tutorial.md", sections[0]) if kind == "text"]
    lines = [line.rstrip() for line in card.splitlines()]
    assert lines[: lines.index("")] == expected.splitlines()
    checked = next(out for line, out in topic.items() if "mapping check" in line)
    assert len(checked.splitlines()) == 30
    before = overview(next(iter(query.values())))
    assert before["noise"]["mentions"]["review_count"] == 4  # type: ignore[index]
    assert before["noise"]["cons"]
    assert set(before) == {"quality", "noise", "price", "delivery"}
    assert "noise" in overview(next(out for line, out in worker.items() if "inspect" in line))

    def now(line: str) -> dict[str, dict[str, object]]:
        return overview(shell.output(line))

    def is_updated() -> bool:
        facets = now("coversumm-worker inspect kettle --view overview")
        counts = {name: facet["mentions"]["review_count"] for name, facet in facets.items()}  # type: ignore[index]
        return (counts["noise"], counts["delivery"], facets["noise"]["cons"]) == (3, 4, [])

    eventually(is_updated, shell.logs)
    first, second = Path(next(iter(read.values()))), Path(list(look.values())[-1])
    loud = "It is terribly noisy and wakes the whole house every morning."

    def last(log: Path) -> str:
        return [line for line in log.read_text().splitlines() if line.startswith("kettle ")][-1]

    eventually(lambda: loud in first.read_text() and loud not in last(first), shell.logs)
    assert update
    report = json.loads(replay[next(iter(replay))].splitlines()[-1])
    page = " ".join(list(replay)[-1].split())
    reported = {word for word in shlex.split(report["go_on_with"]) if word.startswith("COVERSUMM_")}
    given = dict(word.split("=", 1) for word in page.split() if "=" in word)
    for word in reported:
        name, value = word.split("=", 1)
        if name in given and name not in ("COVERSUMM_WEB_PORT", "COVERSUMM_DATA_DIR"):
            assert given[name] == value.replace(f"{shell.directory}/", ""), word
    critics = overview(look[next(iter(look))])
    assert set(critics) - set(before) == {"critics"}
    promoted = json.loads(list(look.values())[1].splitlines()[-1])
    assert promoted["ok"]
    eventually(lambda: "'critics': [" in second.read_text(), shell.logs)
    assert {line.split()[0] for line in second.read_text().splitlines()} == {"kettle", "lamp"}


def test_the_files_of_the_tutorial_are_on_its_page() -> None:
    shown = {text for _, text in blocks("docs/tutorial.md")}
    files = (
        *("facets.toml", "produce.py", "mapping.toml", "shop.env", "consumer.py"),
        "product.html",
    )
    for name in files:
        assert (TUTORIAL / name).read_text() in shown, name
    more = (
        (TUTORIAL / "facets-2.toml")
        .read_text()
        .removeprefix((TUTORIAL / "facets.toml").read_text())
    )
    assert more.lstrip() in shown


@pytest.mark.long
def test_the_first_output_is_what_summarize_prints(tmp_path: Path) -> None:
    with gzip.open(SAMPLE, "rt") as file:
        (tmp_path / "stay.jsonl").write_text("".join(line for line in file if f'"{STAY}"' in line))
    options = ["--facets", "preset:stays", "--view", "overview", "--pretty"]
    printed = run(["summarize", "stay.jsonl", *options], tmp_path, {"PYTHONPATH": str(ROOT)})
    lines = [line.rstrip() for line in printed.strip().splitlines()]
    kind, shown = blocks("README.md")[0]
    given = [line for line in shown.splitlines() if line != "..."]  # some subjects are left out
    assert (kind, given) == ("text", [line for line in lines if line in given])
