"""What the options of `replay` ask for."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from worker.cli.options import check_utf8
from worker.cli.times import TimeType
from worker.errors import SurroundingsError
from worker.settings import Settings

if TYPE_CHECKING:
    from worker.replay.history import Archived, Lines
    from worker.replay.request import Names

LATEST = "latest"


class EndType(TimeType):
    """A time, or `latest`."""

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """See `click.ParamType`."""
        return value if value == LATEST else super().convert(value, param, ctx)


def names_of(
    live: Settings,
    *,
    name: str | None,
    sources: Sequence[str],
    fields: Mapping[str, str],
    target: str | None,
    emit: str | None,
    since: int | None,
    until: int | str,
    by: str,
    entities: Sequence[str],
    partitions: str | None,
) -> "Names":
    """The replay that is asked for, beside the live worker. Raises SurroundingsError."""
    from worker.operations.places import names_file
    from worker.replay.request import Names, Request, default_topic

    name = name or f"epoch-{live.epoch}"
    history = _history(sources, fields)
    to_file = Path(target) if target is not None and names_file(target) else None
    is_nowhere = target == "none" or emit == "none"
    return Names(
        live,
        Request(
            name=name,
            topic=_topic(sources, history, live),
            history=history,
            to_topic=None if to_file or is_nowhere else target or default_topic(live, name),
            to_file=to_file,
            emit="none" if is_nowhere else emit or live.emit,  # type: ignore[arg-type]
            since_ms=since,
            until_ms=None if until == LATEST else int(until),
            by=by,  # type: ignore[arg-type]
            entities=frozenset(_entities(entities)) if entities else None,
            partitions=None if partitions is None else _numbers(partitions),
        ),
    )


def _history(sources: Sequence[str], fields: Mapping[str, str]) -> "Lines | Archived | None":
    """What of the sources is in files."""
    from worker.operations.places import names_file

    named = [source for source in sources if names_file(source)]
    if not named:
        if fields:
            raise SurroundingsError("--fields is for files: name some with --from")
        return None
    from worker.cli.options import found_files
    from worker.replay.history import open_history

    return open_history(found_files(named), fields)


def _topic(sources: Sequence[str], history: "Lines | Archived | None", live: Settings) -> str:
    """The topic that is read, after its archive where there is one; empty where only plain files are."""
    from worker.operations.places import names_file

    topics = [source for source in sources if not names_file(source)]
    archived = getattr(history, "topic", None)
    if len(topics) > 1:
        raise SurroundingsError(f"--from {topics[1]}: one topic is replayed at a time")
    if history is None:
        return topics[0] if topics else live.input_topic
    if topics and topics[0] != archived:
        raise SurroundingsError(
            f"--from {topics[0]}: the files are {f'an archive of {archived}' if archived else 'no archive of a topic'}"
        )
    return archived or ""


def _entities(given: Sequence[str]) -> Iterator[str]:
    for text in given:
        check_utf8("--entities", text)
        if not text.startswith("@"):
            yield from (one for one in text.split(",") if one)
            continue
        try:
            lines = Path(text[1:]).read_text().splitlines()
        except (OSError, UnicodeDecodeError) as cause:
            raise SurroundingsError(f"--entities {text}: the file cannot be read ({cause})") from cause
        yield from (line for line in map(str.strip, lines) if line)


def _numbers(text: str) -> frozenset[int]:
    numbers: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch("([0-9]{1,6})(?:-([0-9]{1,6}))?", part.strip())
        if match is None:
            raise SurroundingsError(f"--partitions {text!r} is not accepted: write numbers like 0,3 or 0-3")
        numbers |= set(range(int(match[1]), int(match[2] or match[1]) + 1))
    return frozenset(numbers)
