"""The README's generated tables: `python -m tests.readme --write` renews them, a test holds them to the code and the records."""

import re
import sys
from collections.abc import Callable
from pathlib import Path

from tests.bench.tables import core_table, paper_table, worker_table
from tests.harness.record import faults_table
from worker.cli import commands_table
from worker.metrics import limits_table, metrics_table
from worker.settings import settings_table

README = Path(__file__).resolve().parent.parent / "README.md"
TABLES: dict[str, Callable[[], str]] = {
    "commands": commands_table,
    "settings": settings_table,
    "limits": limits_table,
    "metrics": metrics_table,
    "core": core_table,
    "worker": worker_table,
    "paper": paper_table,
    "faults": faults_table,
}


def render(text: str) -> str:
    """The README's text with every generated table as the code has it now."""
    for name, table in TABLES.items():
        block = f"<!-- {name} -->\n{table().rstrip()}\n<!-- /{name} -->"
        text, found = re.subn(
            rf"<!-- {name} -->\n.*?<!-- /{name} -->", lambda _, block=block: block, text, flags=re.S
        )
        assert found == 1, f"README.md has {found} places for the {name} table"
    return text


def main() -> None:
    """Write the README anew with `--write`; otherwise exit 1 when it is out of date."""
    current = README.read_text()
    wanted = render(current)
    if "--write" in sys.argv:
        README.write_text(wanted)
    elif wanted != current:
        sys.exit("README.md is out of date: run `make docs`")


if __name__ == "__main__":
    main()
