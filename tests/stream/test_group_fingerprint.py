"""One group, one fingerprint: what is asked, and what an answer is worth."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests.harness.drive import config
from worker.errors import Unanswered
from worker.kafka.changelog import FirstRow
from worker.state import FingerprintMismatch
from worker.state.keys import FINGERPRINT
from worker.state.partition import put_fingerprint
from worker.stream.group_fingerprint import GroupFingerprint

MINE = config().fingerprint
OTHERS = replace(MINE, k=MINE.k + 1)


def row(partition: int, fingerprint: Any, *, is_committed: bool = True) -> FirstRow:
    pending: dict[bytes, bytes | None] = {}
    put_fingerprint(pending, fingerprint)
    return FirstRow(partition, FINGERPRINT, pending[FINGERPRINT], is_committed)


class Changelog:
    """Has these first rows, and counts how many of them are looked at."""

    topic = "changelog"

    def __init__(self, *rows: FirstRow | Exception) -> None:
        self.rows = rows
        self.seen = 0

    def first_rows(self, partitions: Any) -> Iterator[FirstRow]:
        for found in self.rows:
            self.seen += 1
            if isinstance(found, Exception):
                raise found
            yield found


def group(changelog: Any) -> GroupFingerprint:
    return GroupFingerprint(changelog, MINE)


def test_one_committed_row_that_agrees_is_enough() -> None:
    """Of a thousand partitions the others need not even be read, nor any of them a second time."""
    changelog = Changelog(*(row(partition, MINE) for partition in range(1000)))
    asked = group(changelog)
    asked.check()
    asked.check()
    assert changelog.seen == 1


def test_rows_that_are_not_committed_yet_do_not_agree() -> None:
    changelog = Changelog(row(0, MINE, is_committed=False), row(1, OTHERS, is_committed=False))
    with pytest.raises(FingerprintMismatch):
        group(changelog).check()


def test_another_fingerprint_is_refused_before_joining() -> None:
    with pytest.raises(FingerprintMismatch, match="COVERSUMM_K"):
        group(Changelog(row(3, OTHERS))).check_before_joining()


def test_brokers_that_do_not_answer_before_joining_are_asked_again_at_the_takeover() -> None:
    changelog = Changelog(Unanswered("not read"))
    asked = group(changelog)
    asked.check_before_joining()
    with pytest.raises(Unanswered):
        asked.check()


def test_what_does_not_pass_ends_it_before_joining() -> None:
    with pytest.raises(RuntimeError):
        group(Changelog(RuntimeError("a defect"))).check_before_joining()
