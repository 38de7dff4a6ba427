"""The longest time without a commit of each partition, from what the brokers wrote down.

A partition pauses from the moment when it had something to commit and nothing was committed: since
its last commit, or since the first record behind that commit was appended, whichever is later;
until the next commit that goes further. So neither a load that a broker did not take nor an idle
partition counts, and whoever measures is not in the way: nobody is asked while brokers are away.
Both times are the brokers': the input topic has to have `APPENDED`, and an entry of the offsets
topic is dated by the coordinator that wrote it.

An entry is written just before its transaction is decided. Where the decision takes long, the next
entry comes after it: the pause is as long, one commit later. Entries of aborted transactions are
not read. It needs no knowledge of what the members of the group are: whoever commits offsets in
transactions is measured alike.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from tests.harness.recovered import OFFSETS_TOPIC, Commit, commits
from tests.harness.topics import Message, read_topic

APPENDED = {"message.timestamp.type": "LogAppendTime"}
"""Of the input topic: records are dated by the broker that appends them."""


class Pause(NamedTuple):
    """A time without a commit of a partition that had something to commit; milliseconds
    since 1970.
    """

    partition: int
    since_ms: int
    until_ms: int

    @property
    def seconds(self) -> float:
        """How long it was."""
        return max(0, self.until_ms - self.since_ms) / 1000


def pauses(records: Iterable[Message], committed: Iterable[Commit]) -> list[Pause]:
    """The pauses between commits, short ones too. What is not committed at the end has none: commit
    everything first.
    """
    appended: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for record in records:
        appended[record.partition].append((record.offset, record.timestamp_ms))
    last: dict[int, Commit] = {}
    found = []
    for commit in committed:
        before = last.get(commit.partition, Commit(commit.partition, 0, False))
        waiting = bisect_left(appended[commit.partition], (before.offset, 0))
        if commit.offset <= before.offset or waiting == len(appended[commit.partition]):
            continue
        since_ms = max(before.at_ms, appended[commit.partition][waiting][1])
        found.append(Pause(commit.partition, since_ms, commit.at_ms))
        last[commit.partition] = commit
    return found


def read_pauses(bootstrap_servers: str, group: str, topic: str) -> list[Pause]:
    """The pauses of a group on its input topic, from a Kafka that is whole again."""
    entries = read_topic(bootstrap_servers, OFFSETS_TOPIC)
    return pauses(read_topic(bootstrap_servers, topic), commits(entries, group, topic))


def longest(
    found: Iterable[Pause], since_ms: int = 0, until_ms: int | None = None
) -> dict[int, float]:
    """Partition -> seconds of the longest pause that has a part in the given time; whole, though it
    may reach out of it.
    """
    seconds: dict[int, float] = {}
    for pause in found:
        if pause.until_ms >= since_ms and (until_ms is None or pause.since_ms <= until_ms):
            seconds[pause.partition] = max(pause.seconds, seconds.get(pause.partition, 0.0))
    return dict(sorted(seconds.items()))
