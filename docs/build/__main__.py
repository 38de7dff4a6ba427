"""`python -m docs.build [--write]`: compare the generated files with the code and the records, or
renew them.
"""

import sys
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path

from docs.build.chart import chart_files
from docs.build.render import ROOT, avro_files, dashboard_files, pages, schema_files


def main(arguments: Sequence[str], generated: Iterable[tuple[Path, str]] | None = None) -> int:
    """Return 1 and name each file that differs; with `--write`, write those and return 0.

    `generated`: paths and wanted texts; by default all.
    """
    if list(arguments) not in ([], ["--write"]):
        print("usage: python -m docs.build [--write]", file=sys.stderr)
        return 2
    files = (
        chain(pages(), schema_files(), avro_files(), dashboard_files(), chart_files())
        if generated is None
        else generated
    )
    differ = False
    for path, text in files:  # written at once: the chart has copies of files before it
        if path.exists() and path.read_text("utf-8") == text:
            continue
        differ = True
        if arguments:
            path.write_text(text, "utf-8")
        else:
            name = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
            print(f"{name} differs from the code and the records: run `make docs`", file=sys.stderr)
    return 1 if differ and not arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
