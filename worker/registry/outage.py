"""A registry that does not answer: commands ask a few times, a worker waits until it does."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from itertools import count
from typing import Final, TypeVar

from worker.clock import Clock
from worker.errors import SetupError
from worker.registry.client import RegistryMisconfigured, RegistryRefused, RegistryUnreachable

log = logging.getLogger(__name__)

ATTEMPTS: Final = 3
"""How often a command asks before it gives up."""
PAUSE_SECONDS: Final = 1.0
REPEAT_SECONDS: Final = 60.0
"""Seconds between two lines about one outage."""


class Outage:
    """The time without an answer of a registry, and its lines in the log.

    Attributes:
        waiting: how long and why, in words; None while it answers.
    """

    def __init__(self, clock: Clock = time) -> None:
        self._clock = clock
        self._since: float | None = None
        self._logged_at = 0.0
        self.waiting: str | None = None

    def lasts(self, why: str) -> None:
        """Another request was not answered."""
        now = self._clock.monotonic()
        if self._since is None:
            self._since, self._logged_at = now, now - REPEAT_SECONDS
        seconds = now - self._since
        self.waiting = f"no answer of the schema registry for {seconds:.0f} s ({why})"
        if now - self._logged_at >= REPEAT_SECONDS:
            self._logged_at = now
            log.warning("%s: not ready until it answers, nothing is lost until then", self.waiting)

    def ends(self) -> None:
        """A request was answered."""
        if self._since is not None:
            seconds, self._since, self.waiting = self._clock.monotonic() - self._since, None, None
            log.info("the schema registry answers again, after %.0f s", seconds)


T = TypeVar("T")


def patiently(ask: Callable[[], T], outage: Outage | None = None) -> T:
    """The answer to a request. Raises SetupError after `ATTEMPTS` without one, or if the registry
    refuses it. With an `outage` it waits for a registry that is away.
    """
    for attempt in count(1):
        try:
            answer = ask()
        except RegistryRefused as refused:
            raise SetupError(f"the schema registry refuses the request: {refused}") from refused
        except RegistryUnreachable as cause:
            waits = outage is not None and not isinstance(cause, RegistryMisconfigured)
            if attempt >= ATTEMPTS and not waits:
                raise SetupError(
                    f"no answer of the schema registry ({cause}): check "
                    "COVERSUMM_SCHEMA_REGISTRY_URL"
                ) from cause
            if outage is not None:
                outage.lasts(str(cause))
        else:
            if outage is not None:
                outage.ends()
            return answer
        time.sleep(PAUSE_SECONDS)
    raise AssertionError
