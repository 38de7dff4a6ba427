"""The module of native code, where it is built."""

from functools import cache
from importlib import import_module
from typing import Any

from worker import native_sources


@cache
def native_module() -> Any:
    """The module `worker._native`; None where it was not built, or from other sources."""
    try:
        module = import_module("worker._native")
    except ImportError:
        return None
    sources = native_sources()  # none beside an installed package
    return module if sources in ("", module.SOURCES) else None
