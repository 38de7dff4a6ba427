"""The package's sources, its folders, and which of them may import which."""

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCES = {str(p.relative_to(ROOT)): p.read_text() for p in sorted((ROOT / "worker").rglob("*.py"))}


@cache
def tree_of(path: str) -> ast.AST:
    """The syntax tree of a source; parsing them all takes seconds, which collection must not."""
    return ast.parse(SOURCES[path])


# The house from its roof down: a room may use those below it, never one beside or above it.
FLOORS = (
    ("worker.__main__",),
    ("worker.cli",),
    ("worker.demo",),
    ("worker.operations",),
    ("worker.app",),
    ("worker.replay",),
    ("worker.web",),
    ("worker.bridge",),
    ("worker.view",),
    ("worker.published",),
    ("worker.telemetry",),
    ("worker.stream",),
    ("worker.summarizer",),
    ("worker.sources",),
    ("worker.parts",),
    ("worker.processing",),
    ("worker.kafka",),
    ("worker.storage",),
    ("worker.registry",),
    ("worker.credentials",),
    ("worker.settings",),
    ("worker.mapping", "worker.state"),
    ("worker.facets",),
    ("worker.events", "worker.text"),
    ("worker.coversumm",),
    ("worker.clock", "worker.errors", "worker.extras", "worker.limits"),
    ("worker",),
)
FLOOR = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}
