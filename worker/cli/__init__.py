"""The command line: `coversumm-worker`, one module for each command.

Nothing heavy is imported before a command runs, so that `--help` answers at once.
"""

from typing import NoReturn

__all__ = ["main"]


def main() -> NoReturn:
    """Run the command that the process was started with, and end the process with its exit code."""
    from worker.settings import limit_native_threads

    limit_native_threads()
    from worker.cli.group import execute

    raise SystemExit(execute())
