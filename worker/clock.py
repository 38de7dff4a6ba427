"""Time as a parameter: whoever waits or measures takes a clock, so that a simulation can pass its
own.
"""

from typing import Protocol


class Clock(Protocol):
    """What the standard `time` module has of it; `time` itself is the default everywhere."""

    def time(self) -> float:
        """Seconds since 1970."""

    def monotonic(self) -> float:
        """Seconds since some moment, never going back."""

    def sleep(self, seconds: float, /) -> None:
        """Return after so many seconds."""
