"""`status`: the group as the broker and the workers tell it, shown on a terminal and as JSON."""

import json

import pytest

from worker.kafka.group import GroupMember, WorkerGroup
from worker.operations import group_status
from worker.operations.group_status import (
    Offsets,
    combined,
    reachable_url,
)
from worker.web.peers import PeerAnswer, PeerUnreachable

OFFSETS = {
    0: Offsets(100, range(120)),
    1: Offsets(None, range(40, 90)),
    2: Offsets(7, range(20, 20)),
    3: Offsets(5, range(5)),
    4: Offsets(8, range(9)),
}


def member(name, *partitions, url="http://w:1", standbys=()):
    given = {"in": list(partitions), "log": sorted([*partitions, *standbys])}
    return GroupMember(name, "10.0.0.7", url, given)


def page(name, passed=None, **more):
    about = {"ready": True, "reason": "fine", "instance_id": name, "version": "1"}
    return {**about, "passed": passed or {}, **more}


REFUSED, LATE = {"reason": "refused"}, {"reason": "timed out"}


def answered(status, body):
    return PeerAnswer(status, json.dumps(body).encode())


def test_each_from_where_it_is_known():
    group = WorkerGroup("stable", [member("a", 0, 2, standbys=(1,)), member("b", 1)])
    workers, partitions = combined(
        group,
        [page("one", {"0": [100, 102], "4": [8, 9]}, lag={"0": 3000}), {"reason": "no answer"}],
        OFFSETS,
        "in",
        "log",
    )
    assert [
        (partition.partition, partition.worker, partition.committed, partition.end, partition.lag)
        for partition in partitions
    ] == [
        (0, "one", 100, 120, 18),  # transaction markers are no records
        (1, "w:1 on 10.0.0.7", None, 90, 50),  # nothing committed: from the log's start
        (2, "one", 7, 20, 0),  # what is committed is gone from the log
        (3, None, 5, 5, 0),
        (4, None, 8, 9, 0),
    ]
    known, unknown = workers
    assert (known.name, known.ready, known.partitions, known.standbys, known.lag) == (
        "one",
        True,
        [0, 2],
        [1],
        18,
    )
    assert (unknown.ready, unknown.reason, unknown.lag, unknown.version) == (
        None,
        "no answer",
        50,
        None,
    )


def test_the_columns_are_of_one_moment_whatever_a_worker_counts_at_another():
    group = WorkerGroup("stable", [member("a", 0)])
    for passed in ({}, {"0": [99, 120]}, {"0": [104, 120]}):  # a commit ago, a commit later
        answer = page("one", passed, lag={"0": 1312})
        (worker,), (partition, *_) = combined(group, [answer], OFFSETS, "in", "log")
        assert (partition.committed, partition.end, partition.lag) == (100, 120, 20)
        assert worker.lag == 20


@pytest.mark.parametrize(
    ("advertised", "host", "asked"),
    [
        ("http://w:1/", "10.0.0.7", "http://w:1"),
        ("http://0.0.0.0:8080", "10.0.0.7", "http://10.0.0.7:8080"),
        ("http://[::]:8080", "fe80::1", "http://[fe80::1]:8080"),
        ("https://proxy/worker/", "10.0.0.7", "https://proxy/worker"),
        (None, "10.0.0.7", None),
    ],
)
def test_where_a_worker_is_asked(advertised, host, asked):
    assert reachable_url(GroupMember("m", host, advertised, {})) == asked


class Pages:
    """Answers by path, or none."""

    def __init__(self, **answers):
        self.answers = answers

    def __call__(self, _url, path, **_):
        answer = self.answers.get(path.removeprefix("/"))
        if answer is None:
            raise PeerUnreachable("Connection refused")
        return answered(*answer)


@pytest.mark.parametrize(
    ("pages", "reason"),
    [
        (Pages(), "no answer from here: Connection refused"),
        (Pages(status=(200, {})), "no answer from here: no worker speaks at http://w:1"),
        (Pages(status=(404, {}), readyz=(404, {})),
         "no answer from here: no worker speaks at http://w:1"),
        (Pages(status=(200, {"ready": True, "member_id": "b"})),
         "no answer from here: another worker has this address"),
    ],
)  # fmt: skip
def test_what_is_no_answer_of_this_worker(monkeypatch, pages, reason):
    """A loopback address leads to another worker on another machine."""
    monkeypatch.setattr(group_status, "ask", pages)
    assert group_status._page(member("a", 0))["reason"].startswith(reason)


def test_what_is_wrong():
    def problems(state, *members, pages=None):
        group = WorkerGroup(state, list(members))
        answers = pages or [page(member.member_id) for member in members]
        return list(
            group_status._problems("g", group, *combined(group, answers, OFFSETS, "in", "log"))
        )

    assert problems("empty") == ["no worker runs in the group g"]
    everything = range(len(OFFSETS))
    assert problems("stable", member("a", *everything)) == []
    assert problems("stable", member("a", 0, 1, 4)) == ["no worker owns partitions 2, 3"]
    assert problems("rebalancing", member("a")) == ["the group g is not settled: rebalancing"]
    silent = "no worker answers from here, so they may be down: "
    assert problems("stable", member("a", *everything), pages=[REFUSED]) == [f"{silent}refused"]
    two = member("a", 0, 1, 2), member("b", 3, 4)
    assert problems("stable", *two, pages=[REFUSED, page("b")]) == []
    assert problems("stable", *two, pages=[REFUSED, LATE]) == [f"{silent}refused"]
    late = {"ready": False, "reason": "restoring", "instance_id": "x"}
    assert problems("stable", member("a", *everything), pages=[late]) == [
        "x is not ready: restoring"
    ]
