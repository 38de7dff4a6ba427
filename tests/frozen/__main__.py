"""`python -m tests.frozen --write` renews the records of a contract that changes on purpose.

`--show STREAM` prints what a stream publishes and stores, to compare two versions with `diff`.
"""

from __future__ import annotations

import argparse

from tests.frozen.commands import exits, helps, settings
from tests.frozen.streams import STREAMS, all_hashes
from tests.frozen.test_frozen import FOLDER, HASHES


def main() -> None:
    """Write the records, or show a stream."""
    parser = argparse.ArgumentParser(prog="python -m tests.frozen", description=__doc__)
    task = parser.add_mutually_exclusive_group(required=True)
    task.add_argument("--write", action="store_true", help="write all records")
    task.add_argument("--show", metavar="STREAM", help="a name in hashes.json, or a part of one")
    given = parser.parse_args()
    if given.write:
        HASHES.write_text(all_hashes())
        (FOLDER / "help.txt").write_text(helps())
        (FOLDER / "exits.txt").write_text(exits())
        (FOLDER / "settings.txt").write_text(settings())
        return
    for stream in STREAMS:
        if given.show in stream.name:
            for kind, place, raw in stream.parts:
                print(f"{stream.name}: {kind}: {place}: {raw!r}")


if __name__ == "__main__":
    main()
