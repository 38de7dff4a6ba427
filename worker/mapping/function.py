"""A mapping in Python: a file with `def events(record)`, the one rule of any topic.

The function is pure by contract: its result depends on the record alone, since a record may be read
again. What it raises or returns wrongly rejects the record, and its line is named.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path as FilePath
from threading import current_thread, main_thread
from traceback import format_exception_only, walk_tb
from types import ModuleType
from typing import Any, Final

import msgspec

from worker.errors import FileErrors
from worker.events.inputs import Body
from worker.events.json_codec import unknown_type
from worker.events.reasons import BadEvent, Reason
from worker.facets.toml_lines import near
from worker.mapping.numbers import short
from worker.mapping.paths import HEADERS, VALUE, Path, Roots
from worker.mapping.rules import BODIES, Rule, RuleEvent
from worker.mapping.topic import ANY, TopicMapping, text_or_bytes
from worker.mapping.values import of_path, taker

NAME: Final = "events"
MAX_MESSAGE: Final = 200
"""Most characters of an exception in a detail."""
_MODULE: Final = "coversumm_mapping"
_HEADERS: Final = re.compile(r"\bheaders\b")
_END: Final = object()


@dataclass(frozen=True, slots=True)
class SourceRecord:
    """A record as the function takes it.

    Attributes:
        key: None, a text, the content of JSON or of a frame, or bytes that are none of these.
        value: the content of JSON or of a frame; None: a tombstone.
        headers: by name, texts, or bytes that are not UTF-8; of equal names the last one. Empty if
            the file does not have the word `headers`, or in files that lack them.
        timestamp: milliseconds since 1970; None if the record has none.
    """

    topic: str
    key: Any
    value: Any
    headers: dict[str, str | bytes | None]
    timestamp: int | None
    offset: int


def _fields(kind: type[Body]) -> dict[str, Any]:
    names = [field.encode_name for field in msgspec.structs.fields(kind)]
    return {name: of_path(Path(name, VALUE, (name,)), taker(name)) for name in names}


_EVENTS: Final = {emit: RuleEvent(emit, _fields(kind)) for emit, kind in BODIES.items()}
"""By type: the event whose fields are those of a returned one, read as those of a record are."""


@dataclass(frozen=True, slots=True)
class FunctionRule(Rule):
    """The rule that calls a function for each record."""

    function: Callable[[SourceRecord], Any] = print
    file: str = ""
    reads_headers: bool = False

    def __post_init__(self) -> None:
        """Let it have the key of each record."""
        object.__setattr__(self, "reads_key", True)

    @property
    def paths(self) -> list[Path]:
        """The headers, if the file names them."""
        return [Path("headers", HEADERS, ("",))] if self.reads_headers else []

    def bodies(self, roots: Roots) -> Iterator[Body]:
        """The bodies of the events that the function returns or yields. Raises BadEvent."""
        record, raw = roots.record, roots.headers
        headers = {
            name: None if data is None else text_or_bytes(data) for name, data in raw.items()
        }
        timestamp = record.timestamp_ms if record.timestamp_ms >= 0 else None
        given = SourceRecord(
            record.topic, roots.key, roots.value, headers, timestamp, record.offset
        )
        found = self._call(self.function, given)
        if not isinstance(found, list | tuple | Iterator):
            yield from () if found is None else (_body(found, roots),)
            return
        number, events = 0, _all(found)
        while (event := self._call(next, events, _END)) is not _END:
            number += 1
            try:
                yield _body(event, roots)
            except BadEvent as bad:
                raise bad.under(f"event {number}: ") from None

    def _call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """The result. Raises BadEvent if the function raises; MemoryError and Ctrl-C go on."""
        try:
            return function(*arguments)
        except MemoryError:
            raise
        except BaseException as error:  # SystemExit too: a record must not end the process
            if isinstance(error, KeyboardInterrupt) and current_thread() is main_thread():
                raise
            line = _line_of(error, self.file)
            where = f"line {line}: " if line else ""
            raise BadEvent(Reason.BAD_FIELD, f"{where}{_last_line(error)}") from None


def load_function(file: FilePath, text: str, topic: str) -> TopicMapping:
    """The mapping of a topic by the function of a file. Raises FileErrors."""
    module = ModuleType(_MODULE)
    module.__file__ = str(file)
    sys.modules[_MODULE] = module  # dataclasses look there
    try:
        tree = ast.parse(text, str(file))
        exec(compile(tree, str(file), "exec"), vars(module))  # noqa: S102 - the operator's own
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # SystemExit too
        line, what = _line_of(error, str(file)) or 1, _last_line(error)
        if isinstance(error, SyntaxError) and error.filename == str(file):
            line, what = error.lineno or 1, f"not Python: {error.msg}"
        raise FileErrors([f"{file}:{line}: {what}"]) from None
    function: Any = vars(module).get(NAME)
    if problem := _problem(function):
        code = getattr(function, "__code__", None)
        raise FileErrors([f"{file}:{getattr(code, 'co_firstlineno', 1)}: {problem}"])
    digest = sha256(ast.unparse(tree).encode(errors="surrogatepass")).hexdigest()[:12]
    rule = FunctionRule(
        file.name,
        (),
        function=function,
        file=str(file),
        reads_headers=_HEADERS.search(text) is not None,
    )
    return TopicMapping(topic, (rule,), rule, ANY, "framed", digest=digest)


def _problem(function: object) -> str | None:
    """Why this cannot be the function of a mapping; None if it can."""
    if function is None:
        return f"there is no `def {NAME}(record): ...`"
    if not callable(function):
        return f"{NAME} is a {type(function).__name__}, not a function: def {NAME}(record): ..."
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        return f"{NAME} is async: write it without async"
    try:
        inspect.signature(function).bind(None)
    except (TypeError, ValueError) as error:
        return f"{NAME} takes one argument, the record ({error})"
    return None


def _line_of(error: BaseException, file: str) -> int | None:
    """The last line of the file that the exception went through."""
    traceback = walk_tb(error.__traceback__)
    lines = [line for frame, line in traceback if frame.f_code.co_filename == file]
    return lines[-1] if lines else None


def _last_line(error: BaseException) -> str:
    """Type and message of an exception, printable and not too long."""
    line = format_exception_only(error)[-1].strip()
    shown = "".join(char if char.isprintable() else " " for char in line)
    return shown if len(shown) <= MAX_MESSAGE else f"{shown[:MAX_MESSAGE]}..."


def _all(found: Any) -> Iterator[Any]:
    """The events of a list or a generator. Raises TypeError for one that a generator returns."""
    if (returned := (yield from found)) is not None:
        raise TypeError(f"{NAME} yields events and returns a {type(returned).__name__}: yield it")


def _body(given: Any, roots: Roots) -> Body:
    """The body of an event that a function gave. Raises BadEvent."""
    kind = type(given).__name__
    try:
        builtin = msgspec.to_builtins(given, builtin_types=(bytes,))
        members = msgspec.msgpack.decode(msgspec.msgpack.encode(builtin))  # tuples become lists
    except Exception as error:  # of a value of another type, or in circles
        raise _wrong(f"a {kind} that is no event: {_last_line(error)}") from None
    if type(members) is not dict:
        wanted = "an event is a dict or a dataclass"
        raise _wrong(f"{NAME} gave a {kind}, {short(given)}: {wanted}")
    emit = members.pop("type", None)
    if type(emit) is not str or emit not in _EVENTS:
        raise unknown_type(b"" if emit is None else str(emit).encode())
    event = _EVENTS[emit]
    for name in members:
        if name not in event.fields:
            meant = near(name, event.fields, "; is it")
            raise _wrong(f"{short(name)} is not a field of {emit}{meant}")
    return event.body(roots._replace(value=members))


def _wrong(detail: str) -> BadEvent:
    return BadEvent(Reason.BAD_FIELD, detail)
