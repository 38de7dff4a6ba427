"""The command that installs the libraries of an extra next to an installed worker.

The worker itself is on no package index, so its own name with an extra would not be found there.
"""

import shlex
import sys
from importlib.metadata import PackageNotFoundError, requires
from typing import Final

PACKAGE: Final = "coversumm-worker"


def install_command(extra: str) -> str:
    """The command, for this Python; in a checkout that is not installed, that of the extra."""
    return f"{shlex.quote(sys.executable)} -m pip install {' '.join(_wanted(extra))}"


def _wanted(extra: str) -> list[str]:
    try:
        lines = requires(PACKAGE) or []
    except PackageNotFoundError:
        return [shlex.quote(f".[{extra}]")]
    parts = [line.partition(";") for line in lines]
    marker = f'extra == "{extra}"'
    return [shlex.quote(name.strip()) for name, _, condition in parts if marker in condition]
