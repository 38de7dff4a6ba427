"""The examples of docs/connect.md: each file makes these events of these records (their commands on
a real Kafka: tests/real_kafka/test_connect.py).
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from docs.build.render import ROOT
from worker.cli.group import execute

PAGE = (ROOT / "docs" / "connect.md").read_text(encoding="utf-8")


class Example(NamedTuple):
    """A section's file, records, events and commands, and what the last command prints."""

    name: str
    mapping: str
    records: str
    events: str
    commands: str = ""
    printed: str = ""


def _examples() -> Iterator[Example]:
    for section in PAGE.split("\n## ")[1:]:
        blocks = re.findall(r"^```(\w+)\n(.*?)^```", section, flags=re.M | re.S)
        kinds = [kind for kind, _ in blocks]
        if "jsonl" in kinds:
            texts = [text for _, text in blocks[kinds.index("toml") :]]
            yield Example(section.partition("\n")[0], *texts[: len(Example._fields) - 1])


EXAMPLES = list(_examples())


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_an_example(example: Example, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, sample = tmp_path / "mapping.toml", tmp_path / "records.jsonl"
    file.write_text(example.mapping)
    sample.write_text(example.records)
    assert execute(["mapping", "check", str(file), "--sample", str(sample), "--json"]) == 0
    captured = capsys.readouterr()
    found = [json.loads(line)["event"] for line in captured.out.splitlines()]
    lines = example.events.splitlines()
    assert found == [json.loads(line) for line in lines]
    assert [json.dumps(event, separators=(",", ":")) for event in found] == lines
    warnings = [line for line in captured.err.splitlines() if line.startswith("warning")]
    # one shows no draft, the other no upsert in the product that a review leaves
    assert len(warnings) == (example.name in ("Debezium", "Several events of a record"))


def test_the_function_does_what_the_rules_of_flat_json_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (text,) = re.findall(r"^```python\n(.*?)^```", PAGE, flags=re.M | re.S)
    flat = next(example for example in EXAMPLES if example.name == "Flat JSON")
    file, sample = tmp_path / "shop.py", tmp_path / "records.jsonl"
    file.write_text(text)
    sample.write_text(flat.records)
    assert execute(["mapping", "check", str(file), "--sample", str(sample), "--json"]) == 0
    found = [json.loads(line)["event"] for line in capsys.readouterr().out.splitlines()]
    assert [json.dumps(event, separators=(",", ":")) for event in found] == flat.events.splitlines()


def test_every_option_of_the_file_is_on_the_page() -> None:
    from worker.mapping.expressions import OPTIONS
    from worker.mapping.file import KEYS, OF_RULE, OF_TOPIC, VALUES

    for word in {*OF_TOPIC, *OF_RULE, *KEYS, *VALUES}:
        assert f"`{word}`" in PAGE, word
    for word in OPTIONS:
        assert f"{word} = " in PAGE, word
