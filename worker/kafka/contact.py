"""Contact with the brokers: which of the worker's clients last heard of one when, and why one hears
nothing.

Whoever hears or fails says so here; whether that is an outage is decided by time alone, so a frozen
broker counts like a stopped one. With several brokers one that answers is enough: a client tells of
whichever it hears.
"""

import time
from typing import Final, NamedTuple

from worker.clock import Clock

ADMIN: Final = "admin"
CONSUMER: Final = "consumer"
PRODUCER: Final = "producer"
"""The clients of a worker; `admin` looks after topics."""
REPEAT_SECONDS = 60.0
"""How often an outage that lasts is told."""
STREAK_SECONDS = 30.0
"""Failures that are no further apart are one trouble."""


class Silence(NamedTuple):
    """Clients that have heard nothing of any broker for too long.

    Attributes:
        clients: their names, in order.
        seconds: since the first of them heard of one.
        everywhere: whether no client at all hears of one.
        reason: what a client said when it failed; empty where nothing answers and nothing fails, as
            with a frozen broker.
    """

    clients: tuple[str, ...]
    seconds: float
    everywhere: bool
    reason: str

    def __str__(self) -> str:
        whose = "" if self.everywhere else f" for the {' and the '.join(self.clients)}"
        return f"no broker for {self.seconds:.0f} s{whose}"


class _Failures(NamedTuple):
    """Of a client, one after another: when the first and the last one were, and what the last one
    said.
    """

    since: float
    at: float
    reason: str


class Contact:
    """When each client last heard of a broker. Safe to use from any thread.

    Args:
        timeout_seconds: a client that has heard nothing for so long has lost contact.
        clock: measures it.
    """

    def __init__(self, timeout_seconds: float, clock: Clock = time) -> None:
        self.timeout_seconds = timeout_seconds
        self._clock = clock
        self._heard: dict[str, float] = {}
        self._failed: dict[str, _Failures] = {}

    def heard(self, client: str, at: float | None = None) -> None:
        """A broker answered this client, now or at `at` (`Clock.monotonic()`); its first answer
        makes it known here.
        """
        self._heard[client] = max(
            self._heard.get(client, float("-inf")), self._clock.monotonic() if at is None else at
        )

    def failed(self, client: str, reason: str) -> None:
        """This client could not reach a broker."""
        now, before = self._clock.monotonic(), self._failed.get(client)
        lasts = before is not None and now - before.at <= STREAK_SECONDS
        self._failed[client] = _Failures(
            before.since if before is not None and lasts else now, now, reason
        )

    def trouble(self) -> str | None:
        """Why a client has not reached some broker for a minute and more, whatever others answer;
        None where none fails.
        """
        now = self._clock.monotonic()
        for failures in list(self._failed.values()):
            if (
                failures.at - failures.since >= REPEAT_SECONDS
                and now - failures.at <= STREAK_SECONDS
            ):
                return failures.reason
        return None

    def begin_again(self) -> None:
        """What failed until now is over."""
        self._failed.clear()

    def silent_seconds(self) -> dict[str, float]:
        """By client, how long ago it last heard of a broker."""
        now = self._clock.monotonic()
        return {client: max(0.0, now - at) for client, at in sorted(self._heard.items())}

    def silence(self, for_seconds: float | None = None) -> Silence | None:
        """The clients that have lost contact, by default for `timeout_seconds`; None where none
        has.
        """
        limit = self.timeout_seconds if for_seconds is None else for_seconds
        silent = self.silent_seconds()
        lost = {client: seconds for client, seconds in silent.items() if seconds >= limit}
        if not lost:
            return None
        return Silence(
            tuple(lost), max(lost.values()), len(lost) == len(silent), self._reason(lost)
        )

    def _reason(self, clients: dict[str, float]) -> str:
        """What the first of them said that failed since it last heard of a broker."""
        told = ((client, self._failed[client]) for client in clients if client in self._failed)
        return next((one.reason for client, one in told if one.at > self._heard[client]), "")


class Announcer:
    """What is to be told of the contact, and when: once that it is lost, once a minute while it is,
    once that it is back.

    And once a minute that one of several brokers is not reached: nothing else says so, for clients
    are quiet about connections.
    """

    def __init__(self, contact: Contact, clock: Clock = time) -> None:
        self._contact = contact
        self._clock = clock
        self._told_at: float | None = None
        self._longest = 0.0
        self._troubled_at = float("-inf")

    def lost(self) -> str | None:
        """The line about a lost contact, where it is time for one."""
        silence, now = self._contact.silence(), self._clock.monotonic()
        if silence is None or (self._told_at is not None and now - self._told_at < REPEAT_SECONDS):
            self._longest = max(self._longest, silence.seconds if silence else 0.0)
            return None
        first, self._told_at, self._longest = self._told_at is None, now, silence.seconds
        return f"{silence} ({silence.reason or 'no answer'})" + (
            ": not ready until one answers, nothing is lost meanwhile" if first else ""
        )

    def back(self) -> str | None:
        """The line about a contact that is back, once."""
        if self._told_at is None or self._contact.silence() is not None:
            return None
        seconds, self._told_at, self._longest = self._longest, None, 0.0
        self._contact.begin_again()
        return f"a broker answers again, after {seconds:.0f} s"

    def trouble(self) -> str | None:
        """The line about a broker that is not reached while contact is kept, where it is time for
        one.
        """
        now = self._clock.monotonic()
        if (
            now - self._troubled_at < REPEAT_SECONDS
            or self._told_at is not None
            or self._contact.silence()
        ):
            return None
        reason = self._contact.trouble()
        if reason is None:
            return None
        self._troubled_at = now
        return f"a broker has not been reached for a minute, while others answer ({reason})"
