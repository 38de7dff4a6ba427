"""Bytes, rows, help, exit codes and settings are those on record. They change only on purpose."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.frozen.adapter import Part, unframed
from tests.frozen.commands import exits, helps, settings
from tests.frozen.streams import STREAMS, Stream, hashes_of
from tests.native.definitions import in_any_order

FOLDER = Path(__file__).parent
HASHES = FOLDER / "hashes.json"
FACETS_ROWS = "rows E S"
ON_PURPOSE = (
    "A contract changes only on purpose, by the promise of docs/upgrade.md, with a line in "
    "CHANGELOG.md; then run `python -m tests.frozen --write`."
)


@pytest.fixture(scope="module")
def recorded() -> Any:
    """The hashes by stream and kind."""
    return json.loads(HASHES.read_text())


@pytest.mark.parametrize("stream", STREAMS, ids=lambda stream: stream.name)
def test_a_stream_publishes_and_stores_the_same(stream: Stream, recorded: Any) -> None:
    now, before = stream.hashes(), recorded[stream.name]
    other = sorted(kind for kind in now | before if now.get(kind) != before.get(kind))
    assert not other, (
        f"other {', '.join(other)}. `python -m tests.frozen --show '{stream.name}'` here and in "
        f"the tree before shows them. {ON_PURPOSE}"
    )


@pytest.mark.native
@pytest.mark.parametrize(
    "stream", [stream for stream in STREAMS if stream.is_usual], ids=lambda stream: stream.name
)
def test_native_code_publishes_and_stores_the_same(stream: Stream, recorded: Any) -> None:
    """Rows of a transaction may be in another order, and sentences of a facet in its row."""
    parts = list(stream.parts_of("require"))
    now, before = hashes_of(parts), recorded[stream.name]
    other = {kind for kind in now | before if now.get(kind) != before.get(kind)}
    assert other <= {"changelog"} | {FACETS_ROWS} & before.keys()
    if FACETS_ROWS in other:
        assert facets_rows(parts) == facets_rows(stream.parts)


def facets_rows(parts: Iterable[Part]) -> dict[bytes, Any]:
    """The rows with sets of facets in the end."""
    found = [raw for kind, _, raw in parts if kind == FACETS_ROWS]
    return in_any_order(dict(map(unframed, found)))


def test_every_stream_is_on_record(recorded: Any) -> None:
    assert list(recorded) == [stream.name for stream in STREAMS]


def test_help_is_the_same() -> None:
    assert helps().splitlines() == (FOLDER / "help.txt").read_text().splitlines(), ON_PURPOSE


def test_commands_end_as_before() -> None:
    assert exits().splitlines() == (FOLDER / "exits.txt").read_text().splitlines(), ON_PURPOSE


def test_settings_are_the_same() -> None:
    assert settings().splitlines() == (FOLDER / "settings.txt").read_text().splitlines(), ON_PURPOSE
