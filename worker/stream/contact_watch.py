"""Keeps the contact with the brokers known while nothing happens, and says in the log when it is lost and when it is back.

The consumer asks for news all the time and tells when it last got an answer. The producer and the client for topics are idle
between micro-batches, and a connection that froze meanwhile would only be noticed by the next commit: they are asked for a
topic now and then, each over its own connections. A thread of its own, because such a question waits for its answer.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

from worker.clock import Clock
from worker.kafka.contact import CONSUMER, Announcer, Contact

log = logging.getLogger(__name__)

LOOKS = 5
"""Within the time after which contact counts as lost."""
LONGEST_PAUSE_SECONDS = 5.0


class IdleClient(NamedTuple):
    """How to look after a client that is idle for most of the time.

    Attributes:
        ask: asks any broker something, and waits at most so many seconds; raises where none answers.
        suspect: lets the client begin again with new connections when it is next used.
    """

    ask: Callable[[float], None]
    suspect: Callable[[], None]


class ContactWatch(threading.Thread):
    """Looks after the contact until `stop`.

    Args:
        contact: is told who heard of a broker.
        consumer_heard_at: `time.monotonic()` of the last answer the consumer got; None before the first.
        idle: the clients that are asked over their own connections, by name.
        clock: says when it is time for a line.
    """

    def __init__(
        self,
        contact: Contact,
        consumer_heard_at: Callable[[], float | None],
        idle: Mapping[str, IdleClient],
        clock: Clock = time,
    ) -> None:
        super().__init__(name="contact", daemon=True)
        self._contact = contact
        self._consumer_heard_at = consumer_heard_at
        self._idle = idle
        self._announcer = Announcer(contact, clock)
        self._done = threading.Event()
        self._pause_seconds = min(contact.timeout_seconds / LOOKS, LONGEST_PAUSE_SECONDS)

    def run(self) -> None:
        """Look, and look again."""
        self._look_again()
        while not self._done.wait(self._pause_seconds):
            self._look_again()

    def _look_again(self) -> None:
        """Look; what fails in that is told and tried again: a watch that ended would be an outage without an end."""
        try:
            self.look()
        except Exception:
            log.exception("looking after the contact with the brokers failed")

    def stop(self) -> None:
        """Look no more: an orderly stop is not the time to tell of brokers."""
        self._done.set()

    def look(self) -> None:
        """Ask whoever may be idle, and log what there is to tell."""
        for name, client in self._idle.items():
            try:
                client.ask(self._contact.timeout_seconds / LOOKS)
            except (
                Exception
            ) as cause:  # of whatever kind: nothing was heard; an error callback has the reason
                log.debug("the %s got no answer: %r", name, cause)
            else:
                self._contact.heard(name)
        self.listen()
        self._suspect()
        if self._done.is_set():
            return
        if line := self._announcer.lost():
            log.warning("%s", line)
        elif line := self._announcer.back():
            log.info("%s", line)
        elif line := self._announcer.trouble():
            log.warning("%s", line)

    def _suspect(self) -> None:
        """Whoever is about to lose contact begins again.

        One that a broker's absence has confused would never find back, and one that asks a frozen broker among several would go
        on asking that one: over new connections it may find one that answers, before it counts as lost.
        """
        silence = self._contact.silence(self._contact.timeout_seconds / 2)
        for name in silence.clients if silence else ():
            if name in self._idle:
                self._idle[name].suspect()

    def listen(self) -> None:
        """Note when the consumer last heard of a broker."""
        heard_at = self._consumer_heard_at()
        if heard_at is not None:
            self._contact.heard(CONSUMER, heard_at)
