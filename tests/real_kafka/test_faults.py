"""The long ones: `make faults`. Every fault on a real Kafka, more than 100,000 events; the rows of
its record are made here.

`--data FILE` (`make faults DATA=FILE`) takes the reviews of another file than the bundled sample;
`--share 0.1` runs a tenth of the events and faults, and records nothing.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

import pytest

from tests.harness.armed import STEPS
from tests.harness.broker import Kafka, KafkaBroker
from tests.harness.damage import published
from tests.harness.faults import WORKERS, Fault, faults_at_steps, random_faults, spread
from tests.harness.load import (
    CODECS,
    SAMPLE,
    EngineVectors,
    HashedVectors,
    Mix,
    NoVectors,
    Review,
    Stream,
    read_reviews,
    rounds,
    send,
    send_in_transactions,
)
from tests.harness.record import INVARIANTS, Recorder
from tests.harness.scenario import judge, settings_for, start_workers, under_faults
from tests.harness.small_load import FACETS as OF_SIXTEEN
from tests.harness.workers import pipeline

pytestmark = [pytest.mark.faults, pytest.mark.timeout(3600)]

HASHED = HashedVectors()
LOAD_STEPS = [step for step, trigger in STEPS.items() if trigger == "load"]
OTHER_STEPS = [step for step, trigger in STEPS.items() if trigger != "load"]
FACETS = {"facets": OF_SIXTEEN["COVERSUMM_FACETS"]}
STANDBY = {"standby_replicas": "1"}
COALESCED = tuple(name for name in INVARIANTS if name not in ("I3", "I6"))
"""What a run shows that publishes net changes only."""


@pytest.fixture
def share(request: pytest.FixtureRequest) -> float:
    """The share of events and faults that is run."""
    return float(request.config.getoption("--share"))


@pytest.fixture
def reviews(request: pytest.FixtureRequest) -> list[Review]:
    """All of the file's reviews."""
    return read_reviews(Path(request.config.getoption("--data") or SAMPLE))


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[KafkaBroker]:
    """A broker that may be killed."""
    with KafkaBroker(tmp_path / "broker") as broker:
        yield broker


@pytest.fixture
def run(reviews: list[Review], recorder: Recorder, tmp_path: Path, share: float) -> Any:
    """Runs a row of the record on a broker: a number of events, under faults.

    The load repeats so many reviews that an entity gets some hundred sentences before the next ones
    come: the verifier ranks all of them each time.
    """

    def run(
        broker: Kafka,
        row: str,
        total: int,
        faults: Sequence[Fault],
        *,
        rate: float,
        settings: dict[str, str] | None = None,
        checks: Sequence[str] = INVARIANTS,
        armed: bool = False,
        partitions: int = 8,
        seed: int = 0,
        may_end_with: int = 3,
        **options: Any,
    ) -> None:
        name = "".join(c if c.isalnum() else "-" for c in f"faults-{row[:40]}")
        given = settings_for(HASHED, **(settings or {}))
        with (
            recorder.row(row, checks) as found,
            pipeline(
                broker, name, tmp_path, partitions=partitions, settings=given, armed=armed
            ) as live,
        ):
            live.restarted_codes = {*live.restarted_codes, may_end_with}
            chosen = spread(faults, share) if share < 1 else faults
            events = rounds(reviews[:800], HASHED, seed=seed)
            how = {"how": send, "chunk": 50, **options}
            under_faults(live, found, events, int(total * share), chosen, rate=rate, **how)

    return run


@pytest.mark.parametrize(
    ("name", "options"), [("", {}), (", with facets", FACETS)], ids=["summaries", "facets"]
)
def test_killed_at_every_step(
    kafka: KafkaBroker, run: Any, name: str, options: dict[str, str]
) -> None:
    """Both workers at each step of commit, takeover, restore and standby. Of facets both topics are
    judged.
    """
    faults = faults_at_steps("worker killed", 2, seed=1)
    row, settings = f"kill -9 at each protocol step{name}", {**STANDBY, **options}
    run(kafka, row, 20_000, faults, rate=120, settings=settings, armed=True, codecs=CODECS)


def test_paused_at_every_step(kafka: KafkaBroker, run: Any) -> None:
    """Three workers, a zombie twice at each step of the commit and once at all others; up to three
    at once.
    """
    on_load = faults_at_steps("worker frozen", 2, 2, seconds=(8.0, 12.0), steps=LOAD_STEPS)
    at_rebalances = faults_at_steps("worker frozen", 1, 2, seconds=(9.0,), steps=OTHER_STEPS)
    faults = [
        replace(fault, worker=WORKERS[i % 3]) for i, fault in enumerate([*on_load, *at_rebalances])
    ]
    row = "SIGSTOP past the session at each protocol step, then SIGCONT"
    options = {"settings": STANDBY, "armed": True, "workers": 3}
    run(kafka, row, 20_000, spread(faults), rate=120, **options)


@pytest.mark.parametrize(
    ("seed", "name", "settings", "checks"),
    [
        (1, "random kills, bursts, pauses, SIGTERM; standbys", STANDBY, INVARIANTS),
        (2, "the same, distinct", {"distinct": "true", "cache_bytes": "0"}, INVARIANTS),
        (3, "the same, coalesced", {"emit": "coalesced"}, COALESCED),
        (4, "the same, changes of three sentences or more", {"emit_min_changes": "3"}, INVARIANTS),
        (5, "the same, with facets", FACETS, INVARIANTS),
        (6, "the same, with facets, coalesced", {"emit": "coalesced", **FACETS}, COALESCED),
        (7, "the same, with facets, texts weighed", {"weigh": "texts", **FACETS}, INVARIANTS),
    ],
    ids=["standbys", "distinct", "coalesced", "min changes", "facets", "facets coalesced", "texts"],
)
def test_random_faults(
    kafka: KafkaBroker,
    run: Any,
    seed: int,
    name: str,
    settings: dict[str, str],
    checks: tuple[str, ...],
) -> None:
    """By seed; every fourth a burst that kills all workers at once, some again while they start."""
    options = {"settings": settings, "checks": checks, "seed": seed, "codecs": CODECS}
    run(kafka, name, 10_000, random_faults(10, 3, seed), rate=180, workers=3, **options)


def test_transactional_input_with_aborts(kafka: KafkaBroker, run: Any) -> None:
    """What an aborted transaction carried would have deleted everything; each leaves gaps in the
    offsets.
    """
    row, faults = "transactional input with aborts, random faults", random_faults(6, 2, seed=4)
    options = {"how": send_in_transactions, "chunk": 20, "partitions": 4}
    run(kafka, row, 12_000, faults, rate=150, **options)


def test_a_broker_stopped_and_killed(own_broker: KafkaBroker, run: Any, share: float) -> None:
    """In order and not, in the middle of a commit, for seconds and for two minutes; workers may
    crash meanwhile.
    """
    one, two, _ = WORKERS
    faults = [
        Fault("broker stopped", 5, 0.10),
        Fault("broker killed", 5, 0.25),
        Fault("broker killed", 5, 0.40, worker=one, step="after a produce", passage=20),
        Fault("broker killed", 5, 0.55, worker=two, step="during the commit", passage=2),
        Fault("broker killed", 5, 0.70, worker=one, step="after the offsets"),
        Fault("broker killed", 120 if share == 1 else 20, 0.85),
    ]
    row = "broker stopped, killed, killed inside a commit; back after 5 s and 120 s"
    # A worker ends with 2 that starts while there is no broker.
    options = {"armed": True, "partitions": 4, "may_end_with": 2}
    run(own_broker, row, 10_000, faults, rate=150, **options)


def test_workers_added_and_removed(kafka: KafkaBroker, run: Any) -> None:
    """Rebalance upon rebalance: two come and go every few seconds, in order; then each is restarted
    in turn, twice.
    """
    comings = [Fault("worker stopped", i % 4, worker=WORKERS[1 + i % 2]) for i in range(18)]
    rolling = [Fault("worker stopped", worker=WORKERS[i % 3]) for i in range(6)]
    row = "workers added and removed every few seconds; rolling SIGTERM"
    faults = spread([*comings, *rolling])
    run(kafka, row, 12_000, faults, rate=150, workers=3, partitions=4)


def test_offsets_rewound_and_duplicates(
    kafka: KafkaBroker, tmp_path: Path, reviews: list[Review], recorder: Recorder, share: float
) -> None:
    """A third of the events comes twice or late; after each of four parts the group is put back,
    and publishes nothing.
    """
    chance = random.Random(5)
    part = int(2_500 * share)
    events = rounds(reviews[:800], HASHED, mix=Mix(duplicate=0.25, late=0.1))
    with (
        recorder.row("offsets rewound, producer duplicates") as row,
        pipeline(kafka, "faults-rewound", tmp_path, settings=settings_for(HASHED)) as site,
    ):
        start_workers(site, WORKERS[:2])
        for number in range(4):
            send(kafka.bootstrap_servers, site.input_topic, islice(events, part))
            site.wait_caught_up()
            if number % 2:
                site.discard()
            else:
                site.stop()
            before = published(site)
            site.set_offsets(
                {p: chance.choice([0, end // 2, end]) for p, end in site.targets().items()}
            )
            started_s = time.monotonic()
            for worker in site.workers:
                worker.start()
            for worker in site.workers:
                worker.wait_ready()
            site.wait_caught_up()
            row.faults += 1
            row.ready_after(time.monotonic() - started_s)
            assert published(site) == before
        site.stop()
        judge(site, row)


EVERY_FAULT = [
    Fault("worker killed", 1, 0.15, worker="one"),
    Fault("worker frozen", 15, 0.35, worker="two"),
    Fault("worker killed", 2, 0.60, worker="two"),
    Fault("worker stopped", 0, 0.95, worker="one"),
]


@pytest.mark.parametrize(
    ("name", "most", "rate"),
    [("vectors of the engine", 4000, 100), ("text alone", 1000, 30)],
    ids=["vectors", "text"],
)
def test_real_vectors_and_text(
    kafka: KafkaBroker,
    tmp_path: Path,
    reviews: list[Review],
    recorder: Recorder,
    share: float,
    name: str,
    most: int,
    rate: float,
) -> None:
    """The file's own reviews, once; from text the workers split and embed, and the verifier does by
    itself.
    """
    used = reviews[: int(most * share)]
    vectors = NoVectors() if name == "text alone" else EngineVectors(used)
    events, topic = list(Stream(used, vectors)), f"faults-{name.split()[0]}"
    with (
        recorder.row(f"kill, pause, SIGTERM; {name}") as row,
        pipeline(kafka, topic, tmp_path, settings=settings_for(vectors)) as site,
    ):
        # Should a fault outlast the file, it comes once more, as other entities.
        endless = chain(events, rounds(used, vectors, seed=1))
        options = {"rate": rate, "how": send, "chunk": 50}
        under_faults(site, row, endless, len(events), EVERY_FAULT, **options)
