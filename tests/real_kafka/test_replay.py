"""Replays on a real Kafka, beside a live worker."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
from collections.abc import Container, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import OFFSET_END, KafkaException, TopicCollection, TopicPartition

from tests.harness.broker import KafkaBroker
from tests.harness.eventually import eventually
from tests.harness.load import Sent, SteadyLoad
from tests.harness.patience import PATIENCE_SECONDS, TEST_SECONDS
from tests.harness.replays import (
    BEGINNING_MS,
    STEP_MS,
    ReplayProcess,
    agreed,
    archived,
    as_final,
    at,
    bodies_in,
    bodies_of,
    done_by,
    last_bodies,
    promote,
    published,
    replay,
    write_history,
)
from tests.harness.small_load import FACETS, LARGE_MESSAGES, SETTINGS, events, good_review
from tests.harness.topics import Message, committed_offsets, producer, read_topic
from tests.harness.workers import COMMAND, ROOT, Pipeline, clean_environment, pipeline, run_command
from worker.kafka.topic_ids import RecreatedTopic

HISTORY = {**LARGE_MESSAGES, "retention.ms": "-1"}
"""Of an input topic: its records are years old."""

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(TEST_SECONDS)]


@pytest.fixture(scope="module")
def live(kafka: KafkaBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pipeline]:
    """A pipeline with a history that its worker has summarized with facets, and goes on with."""
    directory = tmp_path_factory.mktemp("replays")
    settings = SETTINGS | FACETS
    with pipeline(kafka, "replays", directory, settings=settings, input_config=HISTORY) as site:
        write_history(site, events(700))
        site.start(1)
        site.wait_caught_up()
        yield site


def test_the_whole_history_gives_what_the_live_worker_gave(live: Pipeline) -> None:
    """And the live worker is not touched: its offsets, topics and transactional id are as they
    were, and it has not noticed anything.
    """
    (worker,) = live.workers

    def of_the_live_worker() -> Any:
        servers = live.broker.bootstrap_servers
        topics = (live.input_topic, *both_topics(live), live.dlq_topic, live.changelog_topic)
        offsets = committed_offsets(servers, live.input_topic, live.name)
        return offsets, [read_topic(servers, topic) for topic in topics]

    log, as_it_was = worker.log_text(), of_the_live_worker()
    before = [published(live, topic) for topic in both_topics(live)]
    report = replay(live, "--name", "whole", instance_id="other")
    assert report["published"] == len(before[0])
    assert [published(live, f"{topic}.whole") for topic in both_topics(live)] == before
    assert report["facets_published_to"] == f"{both_topics(live)[1]}.whole"
    assert of_the_live_worker() == as_it_was
    assert worker.ready()
    assert "rebalanced" not in worker.log_text()[len(log) :]


def both_topics(site: Pipeline) -> list[str]:
    """Of summaries, and of facets."""
    return [site.output_topic, site.environment["COVERSUMM_FACETS_TOPIC"]]


def test_as_of_a_time(live: Pipeline, tmp_path: Path) -> None:
    """Each summary is the last that the live worker published by then, then the facets."""
    changes = [bodies_of(live, topic) for topic in both_topics(live)]
    times = {
        (m.partition, m.offset): m.timestamp_ms
        for m in read_topic(live.broker.bootstrap_servers, live.input_topic)
    }
    until = at(450.5)
    file = tmp_path / "then.jsonl"
    replay(live, "--name", "then", "--until", until, "--emit", "final", "--to", str(file))
    summaries, facets = (
        last_bodies(
            body
            for body in bodies
            if times[body["cause"]["partition"], body["cause"]["offset"]]
            < BEGINNING_MS + 450.5 * STEP_MS
        )
        for bodies in changes
    )
    found = bodies_in(file)
    order = [
        (body["entity_id"], body["type"])
        for entity in sorted(summaries, key=str.encode)
        for body in (summaries[entity], facets.get(entity))
        if body is not None
    ]
    assert facets
    assert [(body["entity_id"], body["type"]) for body in found] == order
    for body in found:
        if body["type"] == "facets.changed":
            body["changed"].sort()
            assert body == as_final(facets[body["entity_id"]])
        else:
            assert body == as_final(summaries[body["entity_id"]])


@pytest.mark.long
def test_as_of_a_time_in_an_import(kafka: KafkaBroker, tmp_path: Path) -> None:
    """Transactions whose records are years old: the broker's index by time answers with the first
    marker.
    """
    with pipeline(
        kafka, "import", tmp_path, partitions=1, settings=SETTINGS, input_config=HISTORY
    ) as site:
        load = events(400)
        sender = producer(site.broker.bootstrap_servers, **{"transactional.id": "import"})
        sender.init_transactions(PATIENCE_SECONDS)
        for number, event in enumerate(load):
            if number % 50 == 0:
                sender.begin_transaction()
            sender.produce(
                site.input_topic, event.value, event.key, timestamp=BEGINNING_MS + number * STEP_MS
            )
            if number % 50 == 49 or number == len(load) - 1:
                sender.commit_transaction()
        until = ("--until", at(220.5), "--to", "none")
        assert replay(site, "--name", "first", *until)["read"] == 221
        rest = replay(site, "--name", "rest", "--since", at(220.5), "--to", "none")
        assert rest["read"] == len(load) - 221


@pytest.mark.long
def test_every_kind_of_tail(kafka: KafkaBroker, tmp_path: Path) -> None:
    """Markers, aborted records, an open transaction, nothing at all, nothing left, and a topic that
    is still written.
    """
    with pipeline(kafka, "tails", tmp_path, partitions=6, settings=SETTINGS) as site:
        plain = sending(site, range(6), but={3})
        in_transaction(site, 0, commit=True)
        in_transaction(site, 1, commit=False)
        waiting = opened(site, 2)
        deleted(site, 4)
        process = ReplayProcess(site, "--name", "tails").start()
        eventually(lambda: plan_of(site, "tails") is not None, lambda: "no plan")
        after = sending(site, range(6))
        said = "-2: an open transaction of a producer begins at offset 30"
        eventually(lambda: said in process.errors, process.log_text)
        assert process.alive  # the open transaction is below the end
        waiting.commit_transaction()
        report = process.report()
        assert process.errors.count(said) == 1
        assert report["read"] == plain - REVIEWS + 2
        ends = {int(p): span["end"] for p, span in plan_of(site, "tails")["ranges"].items()}
        committed = committed_offsets(
            site.broker.bootstrap_servers, site.input_topic, "tails-replay-tails"
        )
        assert committed == ends
        assert replay(site, "--name", "tails")["read"] == report["read"]  # over is over
        assert after


@pytest.mark.parametrize("size", [0, 60], ids=["empty", "longer"])
@pytest.mark.long
def test_an_input_created_again_after_the_plan_is_refused(
    kafka: KafkaBroker, tmp_path: Path, size: int
) -> None:
    """While nothing is committed that would notice it; and whenever the same command is given
    again.
    """
    with pipeline(
        kafka, f"again-{size}", tmp_path, partitions=1, settings=SETTINGS, input_config=HISTORY
    ) as site:
        sending(site, [0])
        # what is fetched is committed at the end of it, for nothing else comes
        waiting = opened(site, 0)
        process = ReplayProcess(site, "--name", "again", "--to", "none", batch_size="1000").start()
        eventually(lambda: plan_of(site, "again") is not None, lambda: process.errors)
        eventually(
            lambda: "an open transaction" in process.errors or done_by(site, "again") >= REVIEWS,
            lambda: process.errors,
        )
        admin = site.broker.admin()
        before = _topic_id(site)
        RecreatedTopic(admin, site.input_topic).recreate()
        for number in range(size):
            sending_one(site, number)
        process.wait(2)
        del waiting
        for _ in range(2):
            says = (
                f"has the id {_topic_id(site)}, and the plan of the replay is for the id {before}"
            )
            assert says in process.errors
            assert "`replay --name again --restart`" in process.errors
            process.start().wait(2)
        assert replay(site, "--name", "again", "--to", "none", "--restart", "--yes")["read"] == size


def _topic_id(site: Pipeline) -> str:
    admin = site.broker.admin()  # its futures fail once it is collected
    described = admin.describe_topics(TopicCollection([site.input_topic]))
    return str(described[site.input_topic].result(PATIENCE_SECONDS).topic_id)


def sending_one(site: Pipeline, number: int) -> None:
    """One review into partition 0."""
    sender, sent = producer(site.broker.bootstrap_servers), good_review(number)
    sender.produce(site.input_topic, sent.value, sent.key, 0)
    assert sender.flush(PATIENCE_SECONDS) == 0


REVIEWS = 30


def sending(site: Pipeline, partitions: Iterable[int], but: Container[int] = ()) -> int:
    """Some reviews into each of these partitions; how many."""
    sender, count = producer(site.broker.bootstrap_servers), 0
    for partition in partitions:
        if partition in but:
            continue
        for _ in range(REVIEWS):
            sent = good_review(count)
            sender.produce(site.input_topic, sent.value, sent.key, partition)
            count += 1
    assert sender.flush(PATIENCE_SECONDS) == 0
    return count


def opened(site: Pipeline, partition: int) -> Any:
    """A producer with a record in an open transaction."""
    sender = producer(
        site.broker.bootstrap_servers,
        **{"transactional.id": f"upstream-{partition}", "transaction.timeout.ms": "900000"},
    )
    sender.init_transactions(PATIENCE_SECONDS)
    sender.begin_transaction()
    sent = good_review(1000 + partition)
    sender.produce(site.input_topic, sent.value, sent.key, partition)
    assert sender.flush(PATIENCE_SECONDS) == 0
    return sender


def in_transaction(site: Pipeline, partition: int, *, commit: bool) -> None:
    """One more record, and the marker of its transaction behind it."""
    sender = opened(site, partition)
    sender.commit_transaction() if commit else sender.abort_transaction()


def deleted(site: Pipeline, partition: int, before: int = OFFSET_END) -> None:
    """As retention does: by default nothing is left, and the offsets go on."""
    topic = TopicPartition(site.input_topic, partition, before)
    admin = site.broker.admin()  # its futures fail once it is collected
    for future in admin.delete_records([topic]).values():
        future.result(PATIENCE_SECONDS)


def plan_of(site: Pipeline, name: str) -> dict[str, Any] | None:
    """The plan of a replay, None where there is none yet."""
    try:
        found = read_topic(site.broker.bootstrap_servers, f"{site.name}-replay-{name}-plan")
    except (KafkaException, KeyError, AssertionError):
        return None
    return json.loads(found[-1].value or b"") if found else None


def test_killed_and_gone_on_with_by_three_processes(live: Pipeline) -> None:
    """Killed, interrupted, stopped; then three at once, of which one is killed: the same bytes as
    in one go.
    """
    before = [published(live, topic) for topic in both_topics(live)]
    slow = ("--name", "broken", "--max-events-per-s", "150")
    for number, code in ((signal.SIGKILL, -9), (signal.SIGINT, 130), (signal.SIGTERM, 3)):
        process = ReplayProcess(live, *slow, batch_size="37").start()
        progress_beyond(live, "broken", 60, process)
        process.signal(number)
        process.wait(code)
    several = [
        ReplayProcess(live, *slow, label=f"part-{i}", batch_size=str(50 + i)).start()
        for i in range(3)
    ]
    progress_beyond(live, "broken", 200, *several)
    several[1].signal(signal.SIGKILL)
    several[1].wait(-9)
    several[1].start()
    own = {"seconds", "go_on_with"}  # of each process; all else is of all together
    reports = [{k: v for k, v in process.report().items() if k not in own} for process in several]
    assert reports == 3 * reports[:1]
    assert reports[0]["published"] == len(before[0])
    assert [published(live, f"{topic}.broken") for topic in both_topics(live)] == before


def progress_beyond(
    site: Pipeline, name: str, records: int, *processes: ReplayProcess, topic: str | None = None
) -> None:
    """Wait until a replay has committed so many more records than now.

    Three times as long as usual: a throttled replay gets a tenth of the CPU time of other tests.
    """
    start = done_by(site, name, topic)
    eventually(
        lambda: done_by(site, name, topic) >= start + records,
        lambda: f"from {start}: {done_by(site, name, topic)} {[p.errors for p in processes]}",
        timeout_s=3 * PATIENCE_SECONDS,
    )


@pytest.mark.long
def test_a_worker_whose_offsets_were_reset_goes_on_once_the_replay_has_ended_again(
    kafka: KafkaBroker, tmp_path: Path
) -> None:
    """With its state and without: the accounts are gone with the offsets, so nothing says that the
    replay was over.
    """
    with pipeline(
        kafka, "going-back", tmp_path, partitions=1, settings=SETTINGS, input_config=HISTORY
    ) as site:
        sending(site, [0])
        name, topic = ("--name", "back"), ("--to", "going-back.two")
        first = replay(site, *name, *topic)
        before = published(site, "going-back.two")
        own = {"app_id": "going-back-replay-back", "output_topic": "going-back.two"}
        own["data_dir"] = str(tmp_path / "replay" / "replay-back")
        environment = {f"COVERSUMM_{name.upper()}": value for name, value in own.items()}
        for what in ("--offsets", "--all"):
            options = ["--offsets"] if what == "--offsets" else []
            ended = run_command(
                "reset", "--yes", *options, environment={**site.environment, **environment}
            )
            assert ended.returncode == 0, ended.stderr
            worker = site.worker(f"refused{what}", **own).start()
            assert worker.wait() == 2
            site.workers.remove(worker)
            assert (
                "has no account of the partitions 0: the replay has not begun there, or the "
                "offsets were reset" in (worker.log_text())
            )
            again = replay(site, *name, *topic)
            assert again["read"] == first["read"]
            assert again["applied"] == (0 if what == "--offsets" else first["applied"])
            following = site.worker(f"next{what}", **own).start()
            following.wait_ready()
            following.terminate()
            site.workers.remove(following)
        after = sorted(published(site, "going-back.two"), key=repr)
        assert after == sorted(before * 2, key=repr)  # as after any reset of a state


EQUAL = ("--max-changed", "0")


@pytest.mark.long
def test_a_worker_goes_on_from_a_replay(kafka: KafkaBroker, tmp_path: Path) -> None:
    """While events come all the time: nothing is lost or published twice in between, whoever is
    killed in the hand-over.
    """
    load = events(500, seed=3)[:500]
    with pipeline(
        kafka, "going-on", tmp_path, settings=SETTINGS | FACETS, input_config=HISTORY
    ) as site:
        facets, new_facets = "going-on.facets", "going-on.facets.epoch-2"
        write_history(site, load[:300])
        site.start(1)
        writing = SteadyLoad(site.broker.bootstrap_servers, site.input_topic, iter(load[300:]), 60)
        epoch = {"epoch": "2", "output_topic": "going-on.two", "facets_topic": new_facets}
        report = replay(site, "--to", "going-on.two", epoch="2")
        assert "COVERSUMM_EPOCH=2" in report["go_on_with"].split()
        assert f"COVERSUMM_FACETS_TOPIC={new_facets}" in report["go_on_with"].split()
        refused_without_epoch(
            site, epoch["output_topic"], str(tmp_path / "replay" / "replay-epoch-2")
        )
        following = site.worker(
            "replay/replay-epoch-2-next",
            app_id="going-on-replay-epoch-2",
            **epoch,
            data_dir=str(tmp_path / "replay" / "replay-epoch-2"),
        ).start()
        following.wait_ready()
        following.kill()
        following.start().wait_ready()
        eventually(lambda: writing.sent == 200, lambda: "the load does not end")
        writing.end()
        site.wait_caught_up()
        targets = site.targets()
        eventually(
            lambda: all(
                offset >= targets.get(partition, 0)
                for partition, offset in committed_offsets(
                    site.broker.bootstrap_servers, site.input_topic, "going-on-replay-epoch-2"
                ).items()
            ),
            lambda: following.log_end(),
        )
        new_build = ("going-on-replay-epoch-2", "going-on.two", *EQUAL)
        checks = promote(site, *new_build)
        assert not failed(checks), (checks, following.log_end())
        promoted = checks[-1]
        assert promoted["consumers_of_facets_switch"] == f"from {facets} to {new_facets}"
        back = {
            "app_id": "going-on-replay-epoch-2",
            "output_topic": "going-on.two",
            "facets_topic": new_facets,
        }
        old_build = ("going-on", site.output_topic, *EQUAL)
        assert failed(promote(site, *old_build, **back)) == ["its facets have a topic of their own"]
        assert failed(promote(site, *old_build, "--facets-topic", new_facets, **back)) == [
            "its facets have a topic of their own",
            "it has an epoch of its own",
        ]
        assert not failed(promote(site, *old_build, "--facets-topic", facets, **back))
        following.terminate()
        eventually(
            lambda: not promote(site, *new_build)[-1]["ok"], lambda: "its session does not end"
        )
        assert failed(promote(site, *new_build)) == ["it is kept current"]
        site.stop()
        for old, new in ((site.output_topic, "going-on.two"), (facets, new_facets)):
            first, second = (bodies_of(site, topic) for topic in (old, new))
            assert second == [{**body, "epoch": 2} for body in first] != []


@pytest.mark.long
def test_a_replay_without_the_beginning_is_not_whole_unless_that_is_accepted(
    kafka: KafkaBroker, tmp_path: Path
) -> None:
    """Nor does `promote` pass on a group that has committed nothing, or on a sample of nothing."""
    with pipeline(
        kafka, "gone", tmp_path, partitions=1, settings=SETTINGS, input_config=HISTORY
    ) as site:
        write_history(site, events(80, seed=4))
        site.start(1)
        site.wait_caught_up()
        deleted(site, 0, 20)
        estimate = ReplayProcess(site, "--name", "part", "--dry-run").start().wait()[-1]
        report = replay(site, "--name", "part")
        for found in (estimate, report):
            assert found["gone_before"] == {"0": 20}
            assert "partition 0 before offset 20: no worker can continue" in found["not_whole"]
        assert "go_on_with" not in report
        build = ("gone-replay-part", f"{site.output_topic}.part")
        checks = promote(site, *build, app_id="misspelt")
        assert {"the new build is whole", "it has caught up"} <= {*failed(checks)}
        assert "the group misspelt has committed nothing" in json.dumps(checks)

        accepted = ("--name", "part", "--accept-gone")
        process = ReplayProcess(site, *accepted).start()
        process.wait(2)
        assert "--accept-gone was no and is yes" in process.errors
        assert "go_on_with" in replay(site, *accepted, "--restart", "--yes")
        checks = promote(site, *build)
        assert "the new build is whole" not in failed(checks)
        assert "without the records of partition 0 before offset 20" in checks[0]["found"]

        sparse(site, "gone.sparse", 1100)
        checks = promote(site, "gone-replay-part", "gone.sparse")
        assert "it has an epoch of its own" in failed(checks)
        assert "1 in gone.sparse" in json.dumps(checks)


@pytest.mark.long
def test_a_replay_that_has_ended_is_no_worker_and_facets_may_come_and_go(
    kafka: KafkaBroker, tmp_path: Path
) -> None:
    """To a build without facets and back, by the commands that `promote` prints."""
    settings = SETTINGS | FACETS
    with pipeline(kafka, "ended", tmp_path, settings=settings, input_config=HISTORY) as site:
        write_history(site, events(100))
        site.start(1)
        site.wait_caught_up()
        plain = {"epoch": "2", "facets": ""}
        parts = [
            ReplayProcess(site, "--name", "2", "--to", "ended.two", label=f"part-{i}", **plain)
            for i in range(2)
        ]
        for part in parts:
            part.start()
        for part in parts:
            part.report()
        build = ("ended-replay-2", "ended.two")
        checks = promote(site, *build, "--facets-topic", "none")
        assert failed(checks) == ["it is kept current"]
        assert "ended-replay-2 is empty with 0 workers" in json.dumps(checks)
        following = site.worker("next", app_id=build[0], output_topic=build[1], **plain).start()
        following.wait_ready()
        assert failed(promote(site, *build)) == ["its facets have a topic of their own"]
        forth = promote(site, *build, "--facets-topic", "none")[-1]
        assert forth["ok"]
        assert forth["consumers_of_facets_stop"] == "reading ended.facets"
        back = by_command(site, forth["to_go_back"])
        assert back["consumers_of_facets_switch"] == "to ended.facets"
        forth = by_command(site, back["to_go_back"])
        assert forth["consumers_switch"] == "from ended.summaries to ended.two"


def by_command(site: Pipeline, command: str) -> dict[str, Any]:
    """The verdict of a printed command, which must pass."""
    words = shlex.split(command)
    program = words.index("coversumm-worker")
    own = dict(word.removeprefix("COVERSUMM_").lower().split("=", 1) for word in words[:program])
    verdict = promote(site, *words[program + 2 :], **own)[-1]
    assert verdict["ok"], (command, verdict)
    return verdict


def sparse(site: Pipeline, topic: str, without: int) -> None:
    """What was published, in a topic whose first offsets have no record, as after compaction."""
    site.broker.create_topic(topic, 1, {"cleanup.policy": "compact"})
    bodies = [m for m in read_topic(site.broker.bootstrap_servers, site.output_topic) if m.value]
    sender = producer(site.broker.bootstrap_servers, **{"transactional.id": topic})
    sender.init_transactions(PATIENCE_SECONDS)
    for messages in (bodies[:1] * without, bodies):
        sender.begin_transaction()
        for message in messages:
            sender.produce(topic, message.value, message.key)
            sender.poll(0)
        assert sender.flush(PATIENCE_SECONDS) == 0
        sender.commit_transaction() if messages is bodies else sender.abort_transaction()


def failed(checks: list[dict[str, Any]]) -> list[str]:
    """The checks of `promote` that failed."""
    return [check["check"] for check in checks[:-1] if not check["ok"]]


def refused_without_epoch(site: Pipeline, output_topic: str, data_dir: str) -> None:
    """It would publish as epoch 1 what consumers that order by epoch drop."""
    worker = site.worker(
        "without", app_id="going-on-replay-epoch-2", output_topic=output_topic, data_dir=data_dir
    )
    assert worker.start().wait() == 2
    assert "epoch: stored '2', configured '1' (COVERSUMM_EPOCH)" in worker.log_text()
    site.workers.remove(worker)


@pytest.mark.long
def test_a_part_of_the_history(live: Pipeline, tmp_path: Path) -> None:
    """Of some entities, of some partitions, from a time on: what is left out is counted, and is as
    if it had never been.
    """
    changes = [body for topic in both_topics(live) for body in bodies_of(live, topic)]
    changes.sort(key=in_event_order)
    entity = changes[0]["entity_id"]
    one, two = tmp_path / "entity.jsonl", tmp_path / "partitions.jsonl"
    report = replay(live, "--name", "entity", "--entities", entity, "--to", str(one))
    assert bodies_in(one) == [body for body in changes if body["entity_id"] == entity]
    assert report["ignored"]["not_selected"] > 0
    assert "go_on_with" not in report
    worker = live.worker("part", app_id=f"{live.name}-replay-entity").start()
    assert worker.wait() == 2  # what was left out would be missing for ever
    assert "is a replay of a part of the history" in worker.log_text()
    live.workers.remove(worker)
    replay(live, "--name", "parts", "--partitions", "0,2", "--to", str(two))
    chosen = [body for body in changes if body["cause"]["partition"] in (0, 2)]
    assert sorted(bodies_in(two), key=in_event_order) == chosen
    of_one = [body for body in bodies_in(two) if body["cause"]["partition"] == 2]
    assert of_one == [body for body in chosen if body["cause"]["partition"] == 2]


def in_event_order(body: dict[str, Any]) -> tuple[int, int, bool]:
    """By partition and cause, the summary before the facets."""
    return body["cause"]["partition"], body["sequence"], body["type"] == "facets.changed"


@pytest.mark.long
def test_by_the_events_own_time(live: Pipeline, tmp_path: Path) -> None:
    """What occurred by then, however late it arrived, as if nothing else had been sent; and what
    arrived too late is counted.
    """
    load = events(700)
    early = [event for event in load if occurred_before(event, "2020")]
    with pipeline(
        live.broker, "early", tmp_path, settings=SETTINGS | FACETS, input_config=HISTORY
    ) as other:
        write_history(other, early)
        replay(other, "--to", str(tmp_path / "alone.jsonl"))
    until = ("--until", "2020-01-01", "--by", "occurred_at")
    report = replay(live, "--name", "own", *until, "--to", str(tmp_path / "chosen.jsonl"))
    alone, chosen = (
        sorted((agreed(body) for body in bodies_in(tmp_path / name)), key=json.dumps)
        for name in ("alone.jsonl", "chosen.jsonl")
    )
    assert chosen == alone != []
    assert report["arrived_late"] == len(early)  # all of the history is written in 2023
    assert report["ignored"]["not_selected"] == len(load) - len(early)


def occurred_before(event: Sent, year: str) -> bool:
    """Whether the event says so; what says nothing counts as of its record's timestamp."""
    try:
        said = json.loads(event.value or b"null")["occurred_at"]
    except (ValueError, TypeError, KeyError):
        return False
    return isinstance(said, str) and said < year


@pytest.mark.long
def test_what_is_refused(live: Pipeline) -> None:
    """Another one under the same name, a live topic as output, a time that retention has
    removed.
    """
    replay(live, "--name", "fixed", "--until", at(10), "--to", "none")
    for arguments, settings, says in (
        (
            ["--name", "fixed", "--until", at(20), "--to", "none"],
            {},
            "--until was 2023-01-01T00:10:00.000Z and is",
        ),
        (
            ["--name", "fixed", "--until", at(10), "--to", "none"],
            {"emit_min_changes": "2", "max_text_bytes": "999"},
            "and is 999; COVERSUMM_EMIT_MIN_CHANGES was 1 and is 2.",
        ),
        (["--to", both_topics(live)[1]], {}, "that is a topic of the live worker"),
        (["--partitions", "9"], {}, "has the partitions 0 to 3"),
    ):
        process = ReplayProcess(live, *arguments, **settings).start()
        process.wait(2)
        assert says in process.errors
    report = replay(
        live, "--name", "fixed", "--until", at(20), "--to", "none", "--restart", "--yes"
    )
    assert report["read"] > 0


@pytest.mark.long
def test_two_groups_never_publish_to_one_topic(live: Pipeline) -> None:
    """The topic of facets follows from the name alone; a restart would delete it for both."""
    facets = f"{both_topics(live)[1]}.shared"
    replay(live, "--name", "shared", "--to", "replays.one")
    before = published(live, facets)
    assert before
    for target, restart in (("two", ()), ("two", ("--restart", "--yes")), ("one", ())):
        process = ReplayProcess(
            live, "--name", "shared", "--to", f"replays.{target}", *restart, app_id="other"
        ).start()
        process.wait(2)
        shared = "replays.one" if target == "one" else facets
        assert f"{shared} belongs to the replay of the group replays-replay-shared" in (
            process.errors
        )
    assert published(live, facets) == before
    replay(live, "--name", "shared", "--to", "none", app_id="other")
    report = replay(live, "--name", "shared", "--to", "replays.one", "--restart", "--yes")
    assert report["facets_published_to"] == facets


@pytest.mark.long
@pytest.mark.parametrize("kind", ["plain", "archive"])
def test_files_that_changed_are_refused(live: Pipeline, tmp_path: Path, kind: str) -> None:
    """Two lines that changed places, or another column of texts."""
    row = {"entity_id": "e", "text": "Good.", "body": "Bad.", "sentences": []}
    lines = [json.dumps(row | {"review_id": str(number)}) + "\n" for number in range(5)]
    if kind == "archive":
        lines = [*map(archived, read_topic(live.broker.bootstrap_servers, live.input_topic))]
    file = tmp_path / "reviews.jsonl"
    file.write_text("".join(lines))
    options = ("--name", f"changed-{kind}", "--to", "none", "--from", str(file))
    replay(live, *options)
    for changed, fields, says in (
        (lines, ("--fields", "text=body"), "--fields was none and is text=body. Give"),
        ([lines[1], lines[0], *lines[2:]], (), "the content of the files was "),
    ):
        file.write_text("".join(changed))
        process = ReplayProcess(live, *options, *fields).start()
        process.wait(2)
        assert says in process.errors
    file.write_text("".join(lines))
    assert replay(live, *options)["read"] == len(lines)


@pytest.mark.long
def test_plain_files_as_history(live: Pipeline, tmp_path: Path) -> None:
    """The same bytes as `summarize` makes of them; killed in between, it goes on."""
    reviews = [
        {
            "entity_id": f"e{i % 7}",
            "review_id": f"r{i}",
            "sentences": [{"text": f"s{i % 11}", "embedding": [1.0 + i % 5, i % 3, *[0.5] * 14]}],
        }
        for i in range(400)
    ]
    files = tmp_path / "files"
    files.mkdir()
    for number, part in enumerate((reviews[:150], reviews[150:])):
        (files / f"{number}.jsonl").write_text("".join(json.dumps(line) + "\n\n" for line in part))
    summarized = subprocess.run(
        [*COMMAND, "summarize", "0.jsonl", "1.jsonl"],
        cwd=files,
        env=clean_environment({**live.environment, "PYTHONPATH": str(ROOT)}),
        capture_output=True,
        timeout=PATIENCE_SECONDS,
        check=True,
    )
    arguments = ("--name", "files", "--from", str(files), "--to", str(tmp_path / "out.jsonl"))
    process = ReplayProcess(live, *arguments, "--max-events-per-s", "80", batch_size="20").start()
    progress_beyond(live, "files", 100, process, topic="replays-replay-files-input")
    assert os.getpriority(os.PRIO_PROCESS, process.pid) == min(
        19, os.getpriority(os.PRIO_PROCESS, 0) + 10
    )
    process.signal(signal.SIGKILL)
    process.wait(-9)
    report = ReplayProcess(live, *arguments).start().report()
    assert report["read"] == len(reviews)
    assert (tmp_path / "out.jsonl").read_bytes() == summarized.stdout
    replay(
        live,
        "--name",
        "files-final",
        "--from",
        str(files),
        "--emit",
        "final",
        "--to",
        str(tmp_path / "final.jsonl"),
    )
    for kind, said in (("summary.changed", "sentences"), ("facets.changed", "facets")):
        every, final = (
            [body for body in bodies_in(tmp_path / name) if body["type"] == kind]
            for name in ("out.jsonl", "final.jsonl")
        )
        last = last_bodies(every)
        assert last
        for body in final:
            of_all = last.pop(body["entity_id"])
            assert (body[said], body["cause"]) == (of_all[said], of_all["cause"])
        assert not last


@pytest.mark.long
def test_an_archive_and_then_its_topic(kafka: KafkaBroker, tmp_path: Path) -> None:
    """What retention has removed comes from files: the same bytes as the topic alone would have
    given, and a worker goes on.
    """
    load = events(300, seed=5)
    with pipeline(kafka, "archived", tmp_path, settings=SETTINGS, input_config=HISTORY) as site:
        write_history(site, load)
        replay(site, "--name", "whole")
        records = read_topic(site.broker.bootstrap_servers, site.input_topic)
        archive = tmp_path / "archive"
        archive.mkdir()
        cut = {partition: 20 * (partition + 1) for partition in range(site.partitions)}
        for number in range(3):
            lines = [
                archived(m)
                for m in records
                if m.offset < cut[m.partition] + 10 and m.offset % 3 == number
            ]
            (archive / f"{number}.jsonl").write_text("".join(lines))
        admin = site.broker.admin()
        ends = [
            TopicPartition(site.input_topic, p, min(offset, sum(m.partition == p for m in records)))
            for p, offset in cut.items()
        ]
        for future in admin.delete_records(ends).values():
            future.result(PATIENCE_SECONDS)
        report = replay(site, "--name", "both", "--from", str(archive))
        assert report["read"] == len(records)
        assert published(site, f"{site.output_topic}.both") == published(
            site, f"{site.output_topic}.whole"
        )


@pytest.mark.long
def test_an_archive_of_a_deleted_topic_is_not_laid_over_the_next_one(
    kafka: KafkaBroker, tmp_path: Path
) -> None:
    """300 records in an archive, then a new topic of the name with 500: the replay would leave out
    300 of these 800 without a word.
    """
    with pipeline(
        kafka, "reborn", tmp_path, partitions=1, settings=SETTINGS, input_config=HISTORY
    ) as site:
        write_history(site, events(300, seed=8)[:300])
        archive = tmp_path / "archive.jsonl"
        records = read_topic(site.broker.bootstrap_servers, site.input_topic)
        archive.write_text("".join(map(archived, records)))
        assert len(records) == 300
        RecreatedTopic(site.broker.admin(), site.input_topic).recreate()
        load = events(500, seed=9)[:500]
        for part, says in (
            (
                load[:200],
                f"{site.input_topic}-0 ends at offset 200, and {archive} has offset 299. The topic",
            ),
            (
                load[200:],
                f"{site.input_topic}-0: at offset 0 {archive} has another record than the topic (",
            ),
        ):
            write_history(site, part)
            process = ReplayProcess(site, "--name", "over", "--from", str(archive)).start()
            process.wait(2)
            assert says in process.errors
        process = ReplayProcess(site, "--name", "over", "--from", str(archive), "--dry-run")
        process.start().wait(2)
        assert replay(site, "--name", "over")["read"] == 500


@pytest.mark.long
def test_kafka_is_lost_and_the_archive_alone_is_left(kafka: KafkaBroker, tmp_path: Path) -> None:
    """The drill of docs/backup.md, with a `send` that is killed: each record once in the new topic,
    those of a key in their order, and every summary as before.
    """
    final = ("--name", "final", "--emit", "final", "--to")
    settings = SETTINGS | FACETS
    with pipeline(kafka, "lost", tmp_path, settings=settings, input_config=HISTORY) as site:
        write_history(site, events(1100, seed=11))
        replay(site, *final, str(tmp_path / "before.jsonl"))
        records = read_topic(site.broker.bootstrap_servers, site.input_topic)
    archive = tmp_path / "archive"
    archive.mkdir()
    for number in range(3):
        lines = [archived(record) for record in records if record.offset // 7 % 3 == number]
        (archive / f"{2 - number}.jsonl").write_text("".join(lines))

    with pipeline(
        kafka, "found", tmp_path / "new", partitions=5, settings=settings, input_config=HISTORY
    ) as site:
        servers = site.broker.bootstrap_servers

        def send(*options: str, topic: str = site.input_topic) -> subprocess.CompletedProcess[str]:
            own = {"COVERSUMM_INPUT_TOPIC": topic}
            return run_command("send", str(archive), *options, environment=site.environment | own)

        def arrived() -> list[Message]:
            return read_topic(servers, site.input_topic)

        killed = subprocess.Popen(
            [*COMMAND, "send", str(archive), "--rate", "500"],
            env=clean_environment({**site.environment, "PYTHONPATH": str(ROOT)}),
        )
        eventually(lambda: len(arrived()) >= 500, lambda: len(arrived()))
        killed.kill()
        killed.wait(PATIENCE_SECONDS)
        already = len(arrived())
        rest = send()
        assert rest.returncode == 0, rest.stderr
        assert json.loads(rest.stdout)["sent"] + already == len(records)
        assert json.loads(send().stdout)["sent"] == 0
        assert by_key(arrived()) == by_key(records)
        assert len({message.partition for message in arrived()}) == 5

        report = replay(site, *final, str(tmp_path / "after.jsonl"))
        assert report["read"] == len(records)
        before, after = (
            [agreed(body) for body in bodies_in(tmp_path / f"{name}.jsonl")]
            for name in ("before", "after")
        )
        assert after == before != []
        assert "go_on_with" in replay(site, "--name", "whole")

        for options, topic, config, says in (
            (("--from-line", "3"), site.input_topic, None, "--from-line: the same command"),
            ((), "found.short", {"retention.ms": "604800000"}, "retention.ms=604800000 and would"),
            ((), "found.compact", {"cleanup.policy": "compact"}, "cleanup.policy=compact"),
        ):
            if config:
                site.broker.create_topic(topic, 2, config)
            refused = send(*options, topic=topic)
            assert refused.returncode == 2
            assert says in refused.stderr
        site.broker.create_topic("found.torn", 2, HISTORY)
        whole = (archive / "1.jsonl").read_text()
        (archive / "1.jsonl").write_text(whole + "{torn\n")
        refused = send(topic="found.torn")
        assert refused.returncode == 2
        assert "1 row of the files cannot be read" in refused.stderr
        assert read_topic(servers, "found.torn") == []
        skipped = send("--skip-bad", topic="found.torn")
        assert skipped.returncode == 1
        assert json.loads(skipped.stdout)["sent"] == len(records)
        (archive / "1.jsonl").write_text(whole)
        assert json.loads(send().stdout)["sent"] == 0
        (archive / "0.jsonl").unlink()  # another archive, or another producer
        refused = send()
        assert refused.returncode == 2
        assert "a record that is not of these files as they are now" in refused.stderr
        sending(site, [0])
        assert send().returncode == 2


def by_key(records: Iterable[Message]) -> dict[bytes | None, list[Any]]:
    """The records of each key in their order, without their places."""
    found: dict[bytes | None, list[Any]] = {}
    for record in records:
        found.setdefault(record.key, []).append((record.timestamp_ms, record.value))
    return found


@pytest.mark.long
def test_gaps_of_an_archive_come_from_its_topic_or_are_reported(
    kafka: KafkaBroker, tmp_path: Path
) -> None:
    """Offsets 5 and 6 are in no file, nor are the first two of another partition, and a line is
    torn: the topic fills in, until its log no longer has the gap.
    """
    with pipeline(kafka, "gaps", tmp_path, settings=SETTINGS, input_config=HISTORY) as site:
        write_history(site, events(60, seed=6))
        records = read_topic(site.broker.bootstrap_servers, site.input_topic)
        replay(site, "--name", "topic")
        lacking = {(0, 5), (0, 6), (1, 0), (1, 1)}
        lines = [archived(m) for m in records if (m.partition, m.offset) not in lacking]
        torn = next(n for n, m in enumerate(records) if m.partition == 0 and m.offset == 3)
        lines[torn] = lines[torn][:40] + "\n"
        archive = tmp_path / "archive.jsonl"
        archive.write_text("".join(lines))

        report = replay(site, "--name", "filled", "--from", str(archive))
        assert report["read"] == len(records)
        assert report["unreadable_rows"] == 1
        assert "missing_offsets" not in report
        assert "go_on_with" in report
        assert published(site, f"{site.output_topic}.filled") == published(
            site, f"{site.output_topic}.topic"
        )

        deleted(site, 0, 7)
        (estimate,) = (
            ReplayProcess(site, "--name", "short", "--from", str(archive), "--dry-run")
            .start()
            .wait()
        )
        assert estimate["missing_offsets"] == {"0": 3}
        report = replay(site, "--name", "short", "--from", str(archive))
        assert report["read"] == len(records) - 3
        assert (report["missing_offsets"], report["missing_ranges"]) == (
            {"0": 3},
            {"0": ["3", "5-6"]},
        )
        assert report["unreadable_rows"] == 1
        assert "go_on_with" not in report
