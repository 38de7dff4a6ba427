"""The demo's worker process: `coversumm-worker run`, and it never outlives the demo.

Its standard input is a pipe that the demo holds and never writes to. When the demo is gone, however
it went, the pipe ends; then this process removes the demo's directory and ends too.

    python -m worker.cli.child DIRECTORY
"""

import os
import shutil
import sys
import threading


def main() -> None:
    """Run the worker."""
    directory = sys.argv[1]
    threading.Thread(target=_end_with_the_demo, args=(directory,), daemon=True).start()
    sys.argv[1:] = ["run"]
    from worker.cli import main as command_line

    command_line()


def _end_with_the_demo(directory: str) -> None:
    while os.read(0, 4096):
        pass
    for _ in range(3):  # RocksDB may still be writing files into it
        shutil.rmtree(directory, ignore_errors=True)
    os._exit(0)


if __name__ == "__main__":
    main()
