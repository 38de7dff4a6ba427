"""The watchdog ends a worker that makes no progress; `ContactWatch` checks its clients.

The watchdog has a thread of its own, which a blocked event loop cannot stop. It ends the process
when the event loop does not answer, or when a hindrance (`WorkerStatus.stall`) lasts for longer
than the limit without progress. Slow work is progress: each embedded part of a micro-batch, each
ranked entity and each commit. An open transaction upstream is no hindrance: it holds the last
stable offset, and so the lag.
"""

import asyncio
import logging
import math
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from worker.clock import Clock
from worker.errors import Crash, SetupError
from worker.kafka.contact import CONSUMER, Announcer, Contact
from worker.stream.surroundings import die

log = logging.getLogger(__name__)

CHECK_SECONDS = 1.0  # seconds between two checks
BUSY = "a micro-batch is being processed"  # the hindrance of a worker that is processing
ADVICE = {
    BUSY: ", and no part of it was finished: the embedder or the disk hangs, or this worker gets "
    "next to no processor time: give it more, lower COVERSUMM_EMBEDDER_THREADS to the cores it "
    "has, or raise COVERSUMM_STALL_TIMEOUT_MS"
}
"""By hindrance, advice for the message that ends the process."""


@dataclass(eq=False, repr=False)
class Watchdog(threading.Thread):
    """Ends the process after `limit_seconds` without progress."""

    stall: Callable[[], str | None]  # names what hinders progress now, None if nothing does
    progressed_at: Callable[[], float]  # `time.monotonic()` of the last progress
    limit_seconds: float
    end: Callable[[BaseException], None] = die

    def __post_init__(self) -> None:
        super().__init__(name="watchdog", daemon=True)
        self._beat = time.monotonic()
        self._done = threading.Event()

    async def beat(self) -> None:
        """Show that the event loop lives, until cancelled."""
        while True:
            self._beat = time.monotonic()
            await asyncio.sleep(CHECK_SECONDS)

    def stop(self) -> None:
        """Stop watching."""
        self._done.set()

    def run(self) -> None:
        """Watch until `stop`."""
        hindered_since: float | None = None
        while not self._done.wait(CHECK_SECONDS):
            now = time.monotonic()
            stall = self.stall()
            if stall is None:
                hindered_since = None
            elif hindered_since is None:
                hindered_since = now
            if now - self._beat > self.limit_seconds:
                self.end(Crash(f"the event loop has not answered for {self.limit_seconds:g} s"))
            elif (
                hindered_since is not None
                and now - max(hindered_since, self.progressed_at()) > self.limit_seconds
            ):
                advice = ADVICE.get(stall or "", "")
                self.end(Crash(f"no progress for {self.limit_seconds:g} s: {stall}{advice}"))


def refused_login(reason: str, seconds: float) -> SetupError:
    """The error of a login that brokers have refused for so long: a restart reads it again."""
    return SetupError(
        f"brokers refuse this login for {seconds:g} s: {reason}; start again with a valid one"
    )


LOOKS = 5  # number of looks within the time after which contact counts as lost
LONGEST_PAUSE_SECONDS = 5.0  # longest pause between two looks


class IdleClient(NamedTuple):
    """A client that is idle for most of the time."""

    ask: Callable[[float], None]
    """Sends a request to any broker, with a timeout in seconds; raises without an answer."""
    suspect: Callable[[], None]  # lets the client use new connections from its next use on


@dataclass(eq=False, repr=False)
class ContactWatch(threading.Thread):
    """Notes when clients hear from a broker, and logs a lost contact, until `stop`."""

    contact: Contact
    consumer_heard_at: Callable[[], float | None]  # None before its first answer
    idle: Mapping[str, IdleClient]  # clients that send requests only for this
    clock: Clock = time
    login: Callable[[], object] = lambda: None  # the present credentials: another object if changed
    log_in: Callable[[float], None] = lambda seconds: None  # raises if no broker accepts them
    refused_seconds: float = math.inf  # after which a client whose login is refused is the end
    end: Callable[[BaseException], None] = die

    def __post_init__(self) -> None:
        super().__init__(name="contact", daemon=True)
        self._announcer = Announcer(self.contact, self.clock)
        self._done = threading.Event()
        self._login = self.login()
        self._pause_seconds = min(self.contact.timeout_seconds / LOOKS, LONGEST_PAUSE_SECONDS)

    def run(self) -> None:
        """Look until `stop`."""
        self._look_again()
        while not self._done.wait(self._pause_seconds):
            self._look_again()

    def _look_again(self) -> None:
        """Look; an error is only logged."""
        try:
            self.look()
        except Exception:
            log.exception("could not check the contact with the brokers")

    def stop(self) -> None:
        """Stop looking: an orderly stop logs nothing about brokers."""
        self._done.set()

    def look(self) -> None:
        """Ask the idle clients, and log a change of the contact."""
        for name, client in self.idle.items():
            try:
                client.ask(self.contact.timeout_seconds / LOOKS)
            except Exception as cause:  # an error callback has the reason
                log.debug("the %s got no answer: %r", name, cause)
            else:
                self.contact.heard(name)
        with suppress(Exception):  # an error callback has the reason
            self._renew()
        self.listen()
        self._suspect()
        if self._done.is_set():
            return
        if refusal := self.contact.refusal(self.refused_seconds):
            self.end(refused_login(refusal, self.refused_seconds))
        if line := self._announcer.lost():
            log.warning("%s", line)
        elif line := self._announcer.back():
            log.info("%s", line)
        elif line := self._announcer.trouble():
            log.warning("%s", line)

    def _renew(self) -> None:
        """Let clients use changed credentials, once a broker accepts those: the old connections
        are good until then.
        """
        if (login := self.login()) is not self._login:
            self.log_in(self.contact.timeout_seconds / LOOKS)
            self._login = login
            for client in self.idle.values():
                client.suspect()

    def _suspect(self) -> None:
        """Let clients that are about to lose contact open new connections.

        Old connections may never recover from an outage, or may lead to a frozen broker.
        """
        silence = self.contact.silence(self.contact.timeout_seconds / 2)
        for name in silence.clients if silence else ():
            if name in self.idle:
                self.idle[name].suspect()

    def listen(self) -> None:
        """Note when the consumer last heard from a broker."""
        heard_at = self.consumer_heard_at()
        if heard_at is not None:
            self.contact.heard(CONSUMER, heard_at)
