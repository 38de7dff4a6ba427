"""A record whose reading raises what nobody expects: a dead letter in its place, or the end of the
process if there are many in a row, or if it happens once state is touched.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tests.events.examples import LIMITS, given, record, vector
from tests.harness.debezium import deletions, mapping
from tests.harness.drive import Driver, config
from tests.harness.drive import upsert as driven
from worker.errors import Crash
from worker.events import Reason, Record, Rejected, decode
from worker.events.internal_errors import MOST_IN_A_ROW
from worker.mapping.contract import ContractWriter
from worker.operations.mapping_check import MappingCheck

ODD = "odd"
"""The review of which reading raises."""


def fail_for_odd(patch: pytest.MonkeyPatch, module: str, name: str, error: Exception) -> None:
    """Let a function of a module raise, given the body of the odd review, or a draft of it."""
    kept: Callable[..., Any] = getattr(import_module(module), name)

    def failing(first: Any, *rest: Any) -> Any:
        if getattr(getattr(first, "body", first), "review_id", None) == ODD:
            raise error
        return kept(first, *rest)

    patch.setattr(import_module(module), name, failing)


def review(review_id: str) -> Record:
    """Of one given sentence with a vector."""
    return record(given(vector([1, 2]), review_id=review_id))


@pytest.mark.parametrize("step", ["check", "upserted"])
def test_others_are_read_as_without_it(step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also after its vector is among theirs."""
    around = [review("a"), record(b"{"), review("b")]
    without = decode(around, LIMITS)
    fail_for_odd(monkeypatch, "worker.events.decode", step, LookupError("two\nlines"))
    found = decode([*around[:2], review(ODD), around[2]], LIMITS)
    assert repr([*found[:2], found[3]]) == repr(without)
    assert isinstance(found[2], Rejected)
    assert found[2].reason is Reason.INTERNAL_ERROR
    assert found[2].detail.startswith("LookupError at worker/events/decode.py:")
    assert found[2].detail.endswith(r": 'two\nlines'")


@pytest.mark.parametrize("error", [MemoryError(), OSError(28, "no space"), Crash("no answer")])
def test_what_is_not_of_the_record_is_raised(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_for_odd(monkeypatch, "worker.events.decode", "check", error)
    with pytest.raises(type(error)):
        decode([review("a"), review(ODD)], LIMITS)


def test_a_mapped_record_is_one_for_a_worker_a_bridge_and_the_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rules = mapping(tmp_path, deletions("t"), "t")
    values = [
        json.dumps({"product": "E", "id": identifier}).encode() for identifier in ("a", ODD, "b")
    ]
    records = [Record("t", 0, at, 0, None, value) for at, value in enumerate(values)]
    fail_for_odd(monkeypatch, "worker.mapping.topic", "check_ids", KeyError("x"))
    found = decode(records, LIMITS, mapping=rules)[1]
    assert isinstance(found, Rejected)
    assert found.detail.startswith("KeyError at worker/mapping/topic.py:")
    writer = ContractWriter(rules, "events", lambda _: 0, "dlq", 10**6, LIMITS)
    messages, outcomes, in_a_row = writer.write(records)
    assert [message.topic for message in messages] == ["events", "dlq", "events"]
    assert dict(messages[1].headers)["dlq.detail"] == found.detail.encode()
    assert (outcomes["unreadable", "dead_letter:internal_error"], in_a_row) == (1, 0)
    check = MappingCheck({"t": rules}, LIMITS)
    judged = [judged for at, each in enumerate(records) for judged in check.judge(str(at), each)]
    assert [message.becomes for message in judged] == [
        "review.deleted",
        "dead letter",
        "review.deleted",
    ]
    assert judged[1].detail == f"internal_error: {found.detail}"
    odd = records[1:2] * (MOST_IN_A_ROW - 1)
    assert writer.write([*odd, records[0], *odd], 0).in_a_row == MOST_IN_A_ROW - 1
    with pytest.raises(Crash, match=r"^100 records in a row are .* a KeyError at worker/mapping"):
        writer.write(odd[:2], MOST_IN_A_ROW - 2)


@pytest.mark.parametrize("native", ["off", "auto"])
def test_many_in_a_row_end_the_process_before_they_are_committed(
    native: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Across micro-batches; any other record begins the row again."""
    driver = Driver(config(native=native))
    fail_for_odd(monkeypatch, "worker.events.decode", "check", KeyError("x"))
    odd = [driven(offset, ODD, "of no vector") for offset in range(10 * MOST_IN_A_ROW)]
    good = driven(60, "r", ("Good.", [1, 2, 3]))
    for part in (odd[:60], [good], odd[61:120], odd[120 : 60 + MOST_IN_A_ROW]):
        batch = driver.run_whole(*part)
        assert [message.topic for message in batch.messages] == [
            "summaries" if part == [good] else "dlq"
        ] * len(part)
    applied = dict(driver.rows[0].scan(b""))
    with pytest.raises(Crash, match="This micro-batch is not committed"):
        driver.run(odd[60 + MOST_IN_A_ROW])
    assert dict(driver.rows[0].scan(b"")) == applied


def test_an_exception_once_state_is_touched_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = Driver()

    def failing(*_: Any) -> None:
        raise KeyError("x")

    monkeypatch.setattr("worker.processing.processor.publish", failing)
    with pytest.raises(KeyError):
        driver.run(driven(0, "r", "Good."))
