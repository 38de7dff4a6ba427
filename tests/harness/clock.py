"""The wall clock of a running process, stepped from outside by libfaketime.

The process is started with the `environment` of a `Clock`; each `step` writes a file that the
library reads every second. CLOCK_MONOTONIC goes on as it is, as it does when an operator or NTP
steps the clock of a machine. The library turns the end of a wait on the wall clock into real time
when the wait begins, so a step shortens and lengthens no wait under way.
"""

from __future__ import annotations

from pathlib import Path

INSTALL = "apt-get install faketime"
READ_SECONDS = 1.0
"""How often the library reads the file."""
_NAME = "faketime/libfaketimeMT.so.1"


def library() -> Path | None:
    """The library of Debian's package, None where it is not installed."""
    return next(Path("/usr/lib").glob(f"*/{_NAME}"), None)


class Clock:
    """The clock of one process, at the true time until it is stepped.

    Args:
        path: of the file that has the step.
    """

    def __init__(self, path: Path) -> None:
        found = library()
        assert found is not None, f"libfaketime is missing: {INSTALL}"
        self._path = path
        self.environment = {
            "LD_PRELOAD": str(found),
            "FAKETIME_TIMESTAMP_FILE": str(path),
            "FAKETIME_CACHE_DURATION": f"{READ_SECONDS:g}",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            # Else every wait on the monotonic clock ends at once, and the threads of a Java spin.
            "FAKETIME_FORCE_MONOTONIC_FIX": "0",
        }
        self.step(0)

    def step(self, seconds: int) -> None:
        """Set the clock so many seconds before or past the true time."""
        written = self._path.with_suffix(".new")
        written.write_text(f"{seconds:+d}\n")
        written.rename(self._path)


def clean_up() -> None:
    """Remove the shared memory that the library leaves behind of killed processes."""
    for path in Path("/dev/shm").glob("*faketime_*"):
        number = path.name.rpartition("_")[2]
        if number.isdigit() and not Path("/proc", number).exists():
            path.unlink(missing_ok=True)
