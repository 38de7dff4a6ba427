"""`python -m docs.build [--write]`: compare the generated files with the code and the records, or renew them."""

import sys
from collections.abc import Sequence

from docs.build.render import ROOT, pages


def main(arguments: Sequence[str]) -> int:
    """Exit code 1 where a file differs, each named; with `--write` all are written."""
    if list(arguments) not in ([], ["--write"]):
        print("usage: python -m docs.build [--write]", file=sys.stderr)
        return 2
    differing = [(path, text) for path, text in pages() if path.read_text(encoding="utf-8") != text]
    for path, text in differing:
        if arguments:
            path.write_text(text, encoding="utf-8")
        else:
            print(f"{path.relative_to(ROOT)} is out of date: run `make docs`", file=sys.stderr)
    return 1 if differing and not arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
