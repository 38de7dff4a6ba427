"""The examples of docs/connect.md: each file makes these events of these records (their commands on
a real Kafka: tests/real_kafka/test_connect.py).
"""

import json
import re
from pathlib import Path

import pytest

from docs.build.render import ROOT
from worker.cli.group import execute

PAGE = (ROOT / "docs" / "connect.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(
    r"^## (.+?)$.*?^```toml\n(.*?)^```.*?^```jsonl\n(.*?)^```.*?^```json\n(.*?)^```"
    r".*?^```sh\n(.*?)^```.*?^```json\n(.*?)^```",
    PAGE,
    flags=re.M | re.S,
)


def test_there_are_examples_of_each_kind() -> None:
    assert [name for name, *_ in EXAMPLES] == [
        "Flat JSON",
        "CloudEvents",
        "Debezium",
        "Avro and JSON Schema",
    ]


@pytest.mark.parametrize(
    ("name", "mapping", "records", "events"), [example[:4] for example in EXAMPLES]
)
def test_an_example(
    name: str, mapping: str, records: str, events: str, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    file, sample = tmp_path / "mapping.toml", tmp_path / "records.jsonl"
    file.write_text(mapping)
    sample.write_text(records)
    assert execute(["mapping", "check", str(file), "--sample", str(sample), "--json"]) == 0
    captured = capsys.readouterr()
    found = [json.loads(line)["event"] for line in captured.out.splitlines()]
    assert found == [json.loads(line) for line in events.splitlines()]
    assert [json.dumps(one, separators=(",", ":")) for one in found] == events.splitlines()
    assert ("warning" in captured.err) == (name == "Debezium")  # it shows no draft


def test_every_option_of_the_file_is_on_the_page() -> None:
    from worker.mapping.file import KEYS, OF_RULE, OF_TOPIC, VALUES

    for word in {*OF_TOPIC, *OF_RULE, *KEYS, *VALUES}:
        assert f"`{word}`" in PAGE, word
