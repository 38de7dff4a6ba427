"""Parameters of which `make test` takes the first, and `make test-long` the others."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def one_of(values: Iterable[Any], short: int = 1) -> list[Any]:
    """These parameters; all but the first `short` marked as long.

    For cases of which each runs the same code. A tuple stands for several arguments.
    """

    def marked(value: Any) -> Any:
        several = value if isinstance(value, tuple) else (value,)
        return pytest.param(*several, marks=pytest.mark.long)

    return [value if at < short else marked(value) for at, value in enumerate(values)]
