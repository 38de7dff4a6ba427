"""Time as a parameter, so that a simulation can pass its own clock."""

from typing import Protocol


class Clock(Protocol):
    """A part of the standard module `time`, which is the default everywhere."""

    def time(self) -> float:
        """Seconds since 1970."""

    def monotonic(self) -> float:
        """Seconds since an arbitrary moment; never decreases."""

    def sleep(self, seconds: float, /) -> None:
        """Wait."""
