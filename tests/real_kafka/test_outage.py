"""A broker that is away, stopped or frozen: a worker says so, waits quietly, stops in order when it
is asked to, and continues afterwards.
"""

from __future__ import annotations

import sys
import time
import urllib.error
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness import impatient
from tests.harness.broker import KafkaBroker
from tests.harness.eventually import eventually
from tests.harness.log_lines import Line, loud, parse
from tests.harness.long import one_of
from tests.harness.patience import TEST_SECONDS
from tests.harness.small_load import SETTINGS, events, feed, good_review
from tests.harness.workers import Pipeline, WorkerProcess, pipeline

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(TEST_SECONDS)]

TIMEOUT_MS = 2000
AWAY = {"stopped": KafkaBroker.stop, "frozen": KafkaBroker.pause}
BACK = {"stopped": KafkaBroker.start, "frozen": KafkaBroker.resume}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[KafkaBroker]:
    """A broker of the test's own: it goes away."""
    with KafkaBroker(tmp_path / "broker") as made:
        yield made


@pytest.fixture
def site(broker: KafkaBroker, tmp_path: Path) -> Iterator[Pipeline]:
    settings = {**SETTINGS, "COVERSUMM_BROKER_TIMEOUT_MS": str(TIMEOUT_MS)}
    with pipeline(broker, "outage", tmp_path, settings=settings) as made:
        yield made


def readyz(worker: WorkerProcess) -> tuple[int, str]:
    """Status and body."""
    try:
        with worker.get("/readyz") as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.read().decode()


def since(worker: WorkerProcess, before: str) -> list[Line]:
    """What it logged after `before`."""
    return parse(worker.log_text()[len(before) :])


def lose(worker: WorkerProcess) -> None:
    """Return when the worker says that it hears of no broker, on its page and in its log."""

    def is_said() -> bool:
        return "no broker for" in readyz(worker)[1] and "no broker for" in worker.log_text()

    eventually(is_said, lambda: f"{readyz(worker)}\n{worker.log_end()}")


@pytest.mark.long
@pytest.mark.parametrize("how", one_of(AWAY))
def test_idle_workers_say_that_no_broker_answers_and_are_ready_when_one_does(
    site: Pipeline, broker: KafkaBroker, how: str
) -> None:
    workers = site.start(2)
    feed(site, [good_review(number) for number in range(200)])  # else dead letters are logged
    site.wait_caught_up()
    before = {worker: worker.log_text() for worker in workers}
    AWAY[how](broker)
    try:
        for worker in workers:
            lose(worker)
            assert readyz(worker)[0] == 503
        # long enough for some hundred lines, if every try were logged
        time.sleep(3 * TIMEOUT_MS / 1000)
        for worker in workers:
            assert readyz(worker)[0] == 503
            with worker.get("/healthz") as answer:
                assert answer.status == 200
            silent = {
                name: seconds
                for name, seconds in worker.metrics().items()
                if name.startswith("coversumm_broker_silent_seconds")
            }
            assert set(silent) == {
                f'coversumm_broker_silent_seconds{{client="{client}"}}'
                for client in ("admin", "consumer", "producer")
            }
            assert min(silent.values()) > TIMEOUT_MS / 1000
            assert worker.metrics()["coversumm_ready"] == 0
            (line,) = since(worker, before[worker])
            assert line.level == "WARNING"
            assert line.text.startswith("no broker for ")
            assert ("Connection refused" in line.text) is (how == "stopped"), line
    finally:
        BACK[how](broker)
    for worker in workers:
        worker.wait_ready()
        eventually(lambda w=worker: "a broker answers again" in w.log_text(), worker.log_end)  # type: ignore[misc]
        said = since(worker, before[worker])
        assert sum("a broker answers again" in line.text for line in said) == 1
        assert len(loud(said)) == 1, said
    feed(site, events(200, seed=1))
    # By the same processes: their clients recover from the broker's absence.
    site.wait_caught_up()
    site.stop()
    site.verify()


@pytest.mark.parametrize(
    ("how", "order", "code"), one_of([("frozen", "terminate", 0), ("stopped", "interrupt", 130)])
)
def test_a_worker_that_is_told_to_stop_while_no_broker_answers_stops_orderly(
    site: Pipeline, broker: KafkaBroker, how: str, order: str, code: int
) -> None:
    (worker,) = site.start(1)
    before = worker.log_text()
    AWAY[how](broker)
    try:
        lose(worker)
        if order == "interrupt":
            worker.interrupt()
        assert (worker.wait() if order == "interrupt" else worker.terminate()) == code, (
            worker.log_end()
        )
    finally:
        BACK[how](broker)
    said = since(worker, before)
    assert [line.text[:13] for line in said if line.level != "INFO"] == ["no broker for"], (
        worker.log_end()
    )


@pytest.mark.long
def test_a_rebalance_that_hangs_because_the_broker_is_away_ends_no_worker(
    site: Pipeline, broker: KafkaBroker
) -> None:
    """The watchdog's time passes; a restart would not help, and being not ready is the answer."""
    limits = {
        "transaction_timeout_ms": "1000",
        "commit_timeout_ms": "3000",
        "stall_timeout_ms": "12000",
    }  # the session: 6 s
    worker, member = site.worker(**limits).start(), site.worker(**limits).start()
    for started in (worker, member):
        started.wait_ready()
    member.pause()  # the group waits for it until its session is over, when the next one joins
    joining = site.worker(**limits).start()
    eventually(lambda: "rebalancing" in readyz(worker)[1], worker.log_end, every_s=0.02)
    broker.pause()
    try:
        lose(worker)
        time.sleep(15.0)
        assert worker.alive, worker.log_end()
        assert "no broker for" in readyz(worker)[1]
    finally:
        broker.resume()
    joining.discard()
    member.discard()
    worker.wait_ready()
    assert worker.terminate() == 0


@pytest.mark.long
def test_faust_has_nothing_to_complain_of_in_a_healthy_worker_however_short_its_patience(
    kafka: KafkaBroker, tmp_path: Path
) -> None:
    """Faust's verifier would judge by changelogs that are read otherwise, and by commits that are
    not Faust's.
    """
    with pipeline(kafka, "impatient", tmp_path, settings=SETTINGS) as site:
        worker = site.worker()
        worker._command = [sys.executable, "-m", impatient.__name__]
        worker.start().wait_ready()
        for seed in range(5):
            feed(site, events(60, seed=seed))
            time.sleep(2 * impatient.GRACE_SECONDS)
        site.wait_caught_up()
        site.stop()
        assert loud(parse(worker.log_text())) == []
