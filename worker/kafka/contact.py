"""Contact with the brokers: when each client last heard from one, and why a client hears nothing.

Time alone decides whether it is an outage, so that a frozen broker counts like a stopped one. One
of several brokers is enough: a client reports any answer.
"""

import time
from dataclasses import dataclass
from typing import Final, NamedTuple

from worker.clock import Clock

ADMIN: Final = "admin"
CONSUMER: Final = "consumer"
PRODUCER: Final = "producer"
"""The clients of a worker; `admin` looks after topics."""
REPEAT_SECONDS = 60.0  # seconds between two lines about one outage
STREAK_SECONDS = 40.0
"""Failures no further apart belong together; librdkafka repeats an error every 30 s."""


class Silence(NamedTuple):
    """Clients that have not heard from any broker for too long."""

    clients: tuple[str, ...]  # their names, in order
    seconds: float  # since the first of them heard from a broker
    everywhere: bool  # whether this is every client
    reason: str  # a client's error; empty if nothing answers or fails, as with a frozen broker

    def __str__(self) -> str:
        whose = "" if self.everywhere else f" for the {' and the '.join(self.clients)}"
        return f"no broker for {self.seconds:.0f} s{whose}"


class _Failures(NamedTuple):
    """A client's consecutive failures: the times of the first and the last, and its reason."""

    since: float
    at: float
    reason: str


@dataclass(eq=False)
class Contact:
    """When each client last heard from a broker. Safe to use from any thread."""

    timeout_seconds: float  # after which a client that heard nothing has lost contact
    clock: Clock = time

    def __post_init__(self) -> None:
        self._heard: dict[str, float] = {}
        self._failed: dict[str, _Failures] = {}
        self._refused: dict[str, _Failures] = {}

    def heard(self, client: str, at: float | None = None) -> None:
        """A broker answered this client, now or at `at`. It counts from its first answer on."""
        self._heard[client] = max(
            self._heard.get(client, float("-inf")), self.clock.monotonic() if at is None else at
        )

    def failed(self, client: str, reason: str, *, is_refusal: bool = False) -> None:
        """This client could not reach a broker, or one refused its login."""
        now = self.clock.monotonic()
        for failures in (self._failed, self._refused)[: 1 + is_refusal]:
            before = failures.get(client)
            lasts = before is not None and now - before.at <= STREAK_SECONDS
            failures[client] = _Failures(
                before.since if before is not None and lasts else now, now, reason
            )

    def refusal(self, for_seconds: float = 0.0) -> str | None:
        """Why brokers refuse a client's login; None if they do not, or for less than this since the
        client's last answer.
        """
        now = self.clock.monotonic()
        for client, refused in list(self._refused.items()):
            since = max(refused.since, self._heard.get(client, refused.since))
            if now - refused.at <= STREAK_SECONDS and now - since >= for_seconds:
                return refused.reason
        return None

    def trouble(self) -> str | None:
        """Why a client has failed to reach some broker for a minute, even if others answer."""
        now = self.clock.monotonic()
        for failures in list(self._failed.values()):
            if (
                failures.at - failures.since >= REPEAT_SECONDS
                and now - failures.at <= STREAK_SECONDS
            ):
                return failures.reason
        return None

    def begin_again(self) -> None:
        """Forget the failures until now."""
        self._failed.clear()
        self._refused.clear()

    def silent_seconds(self) -> dict[str, float]:
        """Seconds by client since it last heard from a broker."""
        now = self.clock.monotonic()
        return {client: max(0.0, now - at) for client, at in sorted(self._heard.items())}

    def silence(self, for_seconds: float | None = None) -> Silence | None:
        """The clients without contact for this long, by default `timeout_seconds`; None if none."""
        limit = self.timeout_seconds if for_seconds is None else for_seconds
        silent = self.silent_seconds()
        lost = {client: seconds for client, seconds in silent.items() if seconds >= limit}
        if not lost:
            return None
        return Silence(
            tuple(lost), max(lost.values()), len(lost) == len(silent), self._reason(lost)
        )

    def _reason(self, clients: dict[str, float]) -> str:
        """The first reason of a failure after a client's last answer."""
        failures = ((client, self._failed[client]) for client in clients if client in self._failed)
        return next(
            (failure.reason for client, failure in failures if failure.at > self._heard[client]), ""
        )


@dataclass(eq=False)
class Announcer:
    """Chooses the log lines about contact: when it is lost or refused, each minute, and when back.

    Also once a minute that one of several brokers is unreachable: clients do not log connections.
    """

    contact: Contact
    clock: Clock = time

    def __post_init__(self) -> None:
        self._announced_at: float | None = None
        self._longest, self._is_refused = 0.0, False
        self._troubled_at = float("-inf")

    def lost(self) -> str | None:
        """The line about a lost contact, if one is due."""
        silence, now = self.contact.silence(), self.clock.monotonic()
        at, refusal = self._announced_at, self.contact.refusal()
        is_new, self._is_refused = bool(refusal) > self._is_refused, bool(refusal)
        if silence is None or (at is not None and now - at < REPEAT_SECONDS and not is_new):
            self._longest = max(self._longest, silence.seconds if silence else 0.0)
            return None
        first, self._announced_at, self._longest = at is None, now, silence.seconds
        return f"{silence} ({refusal or silence.reason or 'no answer'})" + (
            ": not ready until one answers, nothing is lost until then" if first else ""
        )

    def back(self) -> str | None:
        """The line about a contact that is back, once."""
        if self._announced_at is None or self.contact.silence() is not None:
            return None
        seconds, self._announced_at, self._longest = self._longest, None, 0.0
        self.contact.begin_again()
        return f"a broker answers again, after {seconds:.0f} s"

    def trouble(self) -> str | None:
        """The line about an unreachable broker while others answer, if one is due."""
        now = self.clock.monotonic()
        if (
            now - self._troubled_at < REPEAT_SECONDS
            or self._announced_at is not None
            or self.contact.silence()
        ):
            return None
        reason = self.contact.trouble()
        if reason is None:
            return None
        self._troubled_at = now
        return f"a broker has not been reached for a minute, while others answer ({reason})"
