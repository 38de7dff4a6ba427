"""docs/scale.md: the commands of the first build, on real reviews and a real Kafka. The replay
embeds nothing.
"""

import json
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from docs.build.render import ROOT
from tests.docs.shell import run
from tests.harness.broker import KafkaBroker
from tests.harness.load import SAMPLE
from tests.harness.patience import TEST_SECONDS

PAGE = (ROOT / "docs" / "scale.md").read_text(encoding="utf-8")
(BLOCK,) = re.findall(
    r"^```sh\n(.*?)^```", PAGE.split("## The first build")[1].split("\n## ")[0], re.M | re.S
)
LINES = [line for line in BLOCK.splitlines() if not line.startswith("export")]
REVIEWS = 60


@pytest.mark.long
@pytest.mark.kafka
@pytest.mark.timeout(TEST_SECONDS)
def test_the_first_build(tmp_path: Path) -> None:
    reviews = subprocess.run(["gunzip", "-c", SAMPLE], capture_output=True, check=True).stdout
    lines = reviews.splitlines(True)
    (tmp_path / "reviews.jsonl.gz").write_bytes(b"".join(lines[:: len(lines) // REVIEWS]))
    with KafkaBroker(tmp_path / "kafka") as kafka:
        settings = {
            "KAFKA_BOOTSTRAP_SERVERS": kafka.bootstrap_servers,
            "COVERSUMM_DATA_DIR": str(tmp_path / "data"),
            "COVERSUMM_VECTOR_STORE_DIR": str(tmp_path / "vectors"),
            "PYTHONPATH": str(ROOT),
        }

        def said(line: str) -> dict[str, object]:
            """The last line of JSON that a command writes."""
            printed = run(shlex.split(line), tmp_path, settings)
            found: dict[str, object] = json.loads(printed.splitlines()[-1])
            return found

        run(["topics", "--partitions", "2"], tmp_path, settings)
        assert said("send reviews.jsonl.gz")["sent"] == REVIEWS + 1
        first, known = said(LINES[0].partition(" ")[2]), said("vectors info")["vectors"]
        estimated, again = (said(line.partition(" ")[2]) for line in LINES[1:])
        # what a replay embeds would be in the store too
        assert said("vectors info")["vectors"] == known
    assert estimated["sampled_embedded"] == 0 < estimated["sampled_known"]
    assert first["applied"] == again["applied"] == REVIEWS + 1
