"""Stands in for the worker's command: it is the command, and writes down twice a second what
processor time its threads used.

Into the file that `BENCH_THREADS` names, as seconds by thread. Those of libraries have the names
that the libraries gave them. Calls with a deadline run in threads of their own, which end: what is
missing from the sum of the others is theirs.
"""

import json
import os
import threading
import time
from pathlib import Path

from worker.settings.environment import limit_native_threads

FILE = "BENCH_THREADS"
ENDED = "threads that ended"
EVERY_SECONDS = 0.5


def used() -> dict[str, float]:
    """Seconds by the name of the thread, numbers at its end left out."""
    names = {thread.native_id: thread.name for thread in threading.enumerate()}
    ticks = os.sysconf("SC_CLK_TCK")
    found: dict[str, float] = {}
    total = time.process_time()
    for task in Path("/proc/self/task").iterdir():
        try:
            comm, fields = (task / "stat").read_text().split("(", 1)[1].rsplit(")", 1)
        except OSError:  # it ended just now
            continue
        name = names.get(int(task.name), comm).rstrip("-_0123456789: ")
        found[name] = found.get(name, 0.0) + sum(map(int, fields.split()[11:13])) / ticks
    return found | {ENDED: max(0.0, total - sum(found.values()))}


def watch(file: Path) -> None:
    """Until the process ends."""
    partial = file.with_suffix(".partial")
    while True:
        partial.write_text(json.dumps(used()))
        partial.replace(file)
        time.sleep(EVERY_SECONDS)


if __name__ == "__main__":
    limit_native_threads()  # before NumPy is loaded, as the command itself does
    from worker.cli import main

    threading.Thread(target=watch, args=[Path(os.environ[FILE])], name="watch", daemon=True).start()
    main()
