"""Helps, exit codes of invocations that need no broker, and settings."""

from __future__ import annotations

import io
import json
import os
import shlex
from collections.abc import Iterator
from contextlib import chdir, redirect_stderr, redirect_stdout
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import Any
from unittest.mock import patch

from tests.frozen.events import DIMENSION, MAPPING, Events, as_json, of_a_shop
from worker.cli.group import cli, execute
from worker.settings import settings_by_field
from worker.view.output import PROGRAM

ENVIRONMENT = {
    "COLUMNS": "100",
    "COVERSUMM_DIMENSION": str(DIMENSION),
    "COVERSUMM_EMBEDDER": "none",
    "KAFKA_BOOTSTRAP_SERVERS": "127.0.0.1:1",
}
FACETS = '[[facet]]\nname = "cost"\nlabels = ["price"]\n'
INVOCATIONS = """
--version
--verson
sumarize
help
help run
help nothing
summarize
summarize missing.jsonl
summarize good.jsonl
summarize good.jsonl --k 2 --distinct -o first.jsonl
summarize good.jsonl --k 3 -o second.jsonl
summarize good.jsonl --emit coalesced
summarize good.jsonl --emit never
summarize good.jsonl --final --k 3
summarize good.jsonl --facets facets.toml
summarize good.jsonl --facets facets.toml --view facets
summarize good.jsonl --facets facets.toml --view overview --sentences 2
summarize good.jsonl --view short --words 12
summarize good.jsonl --view facets
summarize good.jsonl --view short --threshold 1
summarize good.jsonl --pretty
summarize good.jsonl --k 0
summarize good.jsonl -o good.jsonl
summarize good.jsonl --facets missing.toml
summarize good.jsonl --facets broken.toml
summarize good.jsonl --facets preset:none
summarize good.jsonl --fields nothing=x
summarize bad.jsonl
summarize rows.csv --final
summarize rows.csv --fields entity_id=hotel
summarize 'go*.jsonl' --k 1
summarize 'no*.jsonl'
COVERSUMM_K=many summarize good.jsonl
COVERSUMM_KK=3 summarize good.jsonl --k 1
COVERSUMM_INDEX=sgtree summarize good.jsonl --k 2
COVERSUMM_INDEX=graphgrove summarize good.jsonl
COVERSUMM_INDEX=other summarize good.jsonl
COVERSUMM_DIMENSION=3 summarize good.jsonl --k 1
COVERSUMM_EMBEDDER=nothing summarize good.jsonl
compare first.jsonl first.jsonl
compare first.jsonl second.jsonl
compare first.jsonl second.jsonl --max-changed 0
compare first.jsonl missing.jsonl
compare first.jsonl
compare first.jsonl second.jsonl --max-changed x
history grown --from ./first.jsonl
history nobody --from ./first.jsonl
history grown --from ./missing.jsonl
history grown --from ./first.jsonl --since yesterday
mapping
mapping check mapping.toml
mapping check broken.toml
mapping check missing.toml
mapping check mapping.toml --sample records.jsonl --json
mapping check mapping.toml --topic other
config
COVERSUMM_K=many config
COVERSUMM_K=many run
COVERSUMM_EMIT_MIN_CHANGES=30 run
COVERSUMM_WEB_PORT=0 run
COVERSUMM_MAPPING=missing.toml run
COVERSUMM_FACETS=missing.toml run
run --fast
--env-file missing.env config
--env-file broken.env config
--env-file good.env config
schemas
schemas register
COVERSUMM_OUTPUT_FORMAT=avro run
COVERSUMM_SECURITY_PROTOCOL=SSL COVERSUMM_SSL_CA_LOCATION=missing.pem run
send
send missing.jsonl
send good.jsonl --rate 0
topics --partitions 0
replay --since yesterday --dry-run
replay --since 2026-11-20 --until 2026-11-19 --yes
replay --emit sometimes
replay --entities @missing.txt --yes
replay --partitions 3-1 --yes
promote
promote other
dlq
dlq find
dlq list --since yesterday
dlq show 7
dlq send 1:x
entities --limit 0
inspect
inspect grown --view all
inspect grown --url nonsense
verify --data-dir missing
verify missing
reset --fast
status --url nonsense
vectors
vectors info
bridge
bridge --from reviews
watch --fast
demo --k 0
demo --reviews none
serve missing.csv
COVERSUMM_FACETS=missing.toml serve good.jsonl
"""
HASHED = ("summarize", "compare", "history", "mapping")
"""Commands whose JSON lines are hashed."""


def helps() -> str:
    """The help of every command, in the order of the reference."""
    with TemporaryDirectory() as folder:
        parts = [
            f"$ {' '.join([PROGRAM, *names, '--help'])}\n{_call([*names, '--help'], folder)[1]}"
            for names in _names((), cli)
        ]
    return "\n".join(parts)


def _names(names: tuple[str, ...], command: object) -> Iterator[tuple[str, ...]]:
    yield names
    for name, inner in getattr(command, "commands", {}).items():
        yield from _names((*names, name), inner)


def settings() -> str:
    """A line for each setting: its variable and default."""
    return "".join(f"{item.variable} {item.default}\n" for item in settings_by_field().values())


def exits() -> str:
    """A line for each invocation: its exit code, and for JSON lines their hash."""
    with TemporaryDirectory() as folder:
        _write_files(Path(folder))
        return "".join(
            f"{_ending(shlex.split(line), folder)} {line}\n"
            for line in INVOCATIONS.strip().splitlines()
        )


def _ending(words: list[str], folder: str) -> str:
    given = dict(word.split("=", 1) for word in words if word.startswith("COVERSUMM_"))
    words = words[len(given) :]
    code, out = _call(words, folder, given)
    lines = out.splitlines()
    if words[0] not in HASHED or not lines or not all(line.startswith("{") for line in lines):
        return str(code)
    values = [json.loads(line) for line in lines]
    raw = out if words[0] == "summarize" else json.dumps(values)
    return f"{code} {sha256(raw.encode()).hexdigest()[:16]}"


def _call(words: list[str], folder: str, given: dict[str, str] | None = None) -> tuple[int, str]:
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("COVERSUMM_", "KAFKA_", "OTEL_"))
    }
    data = {"COVERSUMM_DATA_DIR": f"{folder}/data"}
    environment = kept | ENVIRONMENT | data | (given or {})
    with (
        TemporaryFile("w+", encoding="utf-8") as out,
        chdir(folder),
        patch.dict(os.environ, environment, clear=True),
        redirect_stdout(out),
        redirect_stderr(io.StringIO()),
    ):
        code = execute(words)
        out.seek(0)
        return code, out.read()


def _is_good(body: dict[str, Any]) -> bool:
    texts = [sentence["text"] for sentence in body.get("sentences", [])]
    return body["type"] != "review.upserted" or (
        "rating" in body and all(text.startswith("The") for text in texts)
    )


def _write_files(folder: Path) -> None:
    events = Events("commands", vectors=True, versions="mixed", grows=True)
    drawn = [event.body for event in events.draw(120) if isinstance(event.body, dict)]
    bodies = [body for body in drawn if _is_good(body)]
    lines = [as_json(body, is_base64=False) for body in bodies]
    rows = "entity_id,review_id,text\nh,1,\nh,2,\n"
    texts = {
        "bad.jsonl": "{\n" + lines[0].decode() + "\n",
        "rows.csv": rows,
        "facets.toml": FACETS,
        "mapping.toml": MAPPING,
        "broken.toml": "[[facet]]\nname = 1\n",
        "broken.env": "no assignment\n",
        "good.env": "COVERSUMM_K=4\n",
        "records.jsonl": "".join(
            json.dumps({"key": "grown", "value": json.loads(of_a_shop(body))}) + "\n"
            for body in bodies[:40]
        ),
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
    (folder / "good.jsonl").write_bytes(b"\n".join(lines) + b"\n")
