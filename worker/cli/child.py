"""The worker of `demo` and `serve`: `coversumm-worker run`, which ends with them.

Its standard input is a pipe of theirs. When they end in any way, the pipe closes; then this process
removes their directory and ends.

    python -m worker.cli.child DIRECTORY
"""

import os
import shutil
import sys
import threading


def main() -> None:
    """Run the worker."""
    directory = sys.argv[1]
    threading.Thread(target=_end_with_the_pipe, args=(directory,), daemon=True).start()
    sys.argv[1:] = ["run"]
    from worker.cli import main as command_line

    command_line()


def _end_with_the_pipe(directory: str) -> None:
    while os.read(0, 4096):
        pass
    for _ in range(3):  # RocksDB may still write files into it
        shutil.rmtree(directory, ignore_errors=True)
    os._exit(0)


if __name__ == "__main__":
    main()
