"""The long ones: `make faults`. Every fault on a real Kafka, more than 100,000 events; the rows of
its record are made here.

`--data FILE` (`make faults DATA=FILE`) takes the reviews of another file than the bundled sample;
`--share 0.1` runs a tenth of the events and faults, and records nothing.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path

import pytest

from tests.harness.armed import STEPS
from tests.harness.broker import KafkaBroker
from tests.harness.chaos import Fault, faults_at_steps, random_faults
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
from tests.harness.scenario import judge, settings_for, under_faults
from tests.harness.small_load import FACETS as OF_SIXTEEN
from tests.harness.topics import read_topic
from tests.harness.workers import Pipeline, pipeline

pytestmark = [pytest.mark.faults, pytest.mark.timeout(3600)]

HASHED = HashedVectors()
LOAD_STEPS = [step for step, trigger in STEPS.items() if trigger == "load"]
OTHER_STEPS = [step for step, trigger in STEPS.items() if trigger != "load"]
FACETS = {"facets": OF_SIXTEEN["COVERSUMM_FACETS"]}
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
def round_of(reviews: list[Review]) -> list[Review]:
    """So many that an entity gets some hundred sentences before the next ones come: the verifier
    ranks all of them each time.
    """
    return reviews[:800]


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[KafkaBroker]:
    """A broker that may be killed."""
    with KafkaBroker(tmp_path / "broker") as broker:
        yield broker


def some(faults: list[Fault], share: float) -> list[Fault]:
    """The first of `faults`, spread anew; all of them for a whole run."""
    kept = faults[: max(3, round(len(faults) * share))]
    return (
        [fault._replace(at=i / len(kept)) for i, fault in enumerate(kept)] if share < 1 else faults
    )


@pytest.mark.parametrize(
    ("name", "options"), [("", {}), (", with facets", FACETS)], ids=["summaries", "facets"]
)
def test_killed_at_every_step(
    kafka: KafkaBroker,
    tmp_path: Path,
    round_of: list[Review],
    recorder: Recorder,
    share: float,
    name: str,
    options: dict[str, str],
) -> None:
    """Both workers at each step of commit, takeover, restore and standby. Of facets both topics are
    judged.
    """
    faults = some(faults_at_steps("kill", 2, seed=1), share)
    settings = settings_for(HASHED, standby_replicas="1", **options)
    with (
        recorder.row(f"kill -9 at each protocol step{name}") as row,
        pipeline(
            kafka,
            f"faults-kills-{len(options)}",
            tmp_path,
            partitions=8,
            settings=settings,
            armed=True,
        ) as site,
    ):
        under_faults(
            site,
            row,
            rounds(round_of, HASHED),
            int(20_000 * share),
            faults,
            rate=120,
            codecs=CODECS,
        )


def test_paused_at_every_step(
    kafka: KafkaBroker, tmp_path: Path, round_of: list[Review], recorder: Recorder, share: float
) -> None:
    """Three workers, a zombie twice at each step of the commit and once at all others; up to three
    at once.
    """
    on_load = faults_at_steps("pause", 2, seed=2, seconds=(8.0, 12.0), steps=LOAD_STEPS)
    at_rebalances = faults_at_steps("pause", 1, seed=2, seconds=(9.0,), steps=OTHER_STEPS)
    faults = [
        fault._replace(at=i / (len(on_load) + len(at_rebalances)), worker=i % 3)
        for i, fault in enumerate([*on_load, *at_rebalances])
    ]
    settings = settings_for(HASHED, standby_replicas="1")
    with (
        recorder.row("SIGSTOP past the session at each protocol step, then SIGCONT") as row,
        pipeline(
            kafka, "faults-zombies", tmp_path, partitions=8, settings=settings, armed=True
        ) as site,
    ):
        under_faults(
            site,
            row,
            rounds(round_of, HASHED),
            int(20_000 * share),
            some(faults, share),
            workers=3,
            rate=120,
        )


@pytest.mark.parametrize(
    ("seed", "name", "settings", "checks"),
    [
        (
            1,
            "random kills, bursts, pauses, SIGTERM; standbys",
            {"standby_replicas": "1"},
            INVARIANTS,
        ),
        (2, "the same, distinct", {"distinct": "true", "cache_bytes": "0"}, INVARIANTS),
        (3, "the same, coalesced", {"emit": "coalesced"}, COALESCED),
        (4, "the same, changes of three sentences or more", {"emit_min_changes": "3"}, INVARIANTS),
        (5, "the same, with facets", FACETS, INVARIANTS),
        (6, "the same, with facets, coalesced", {"emit": "coalesced", **FACETS}, COALESCED),
    ],
    ids=["standbys", "distinct", "coalesced", "min changes", "facets", "facets coalesced"],
)
def test_random_faults(
    kafka: KafkaBroker,
    tmp_path: Path,
    round_of: list[Review],
    recorder: Recorder,
    share: float,
    seed: int,
    name: str,
    settings: dict[str, str],
    checks: tuple[str, ...],
) -> None:
    """By seed; every fourth a burst that kills all workers at once, some again while they start."""
    faults = some(random_faults(10, 3, seed), share)
    with (
        recorder.row(name, checks) as row,
        pipeline(
            kafka,
            f"faults-random-{seed}",
            tmp_path,
            partitions=8,
            settings=settings_for(HASHED, **settings),
        ) as site,
    ):
        under_faults(
            site,
            row,
            rounds(round_of, HASHED, seed=seed),
            int(10_000 * share),
            faults,
            workers=3,
            rate=180,
            codecs=CODECS,
        )


def test_transactional_input_with_aborts(
    kafka: KafkaBroker, tmp_path: Path, round_of: list[Review], recorder: Recorder, share: float
) -> None:
    """What an aborted transaction carried would have deleted everything; each leaves gaps in the
    offsets.
    """
    with (
        recorder.row("transactional input with aborts, random faults") as row,
        pipeline(kafka, "faults-transactions", tmp_path, settings=settings_for(HASHED)) as site,
    ):
        under_faults(
            site,
            row,
            rounds(round_of, HASHED),
            int(12_000 * share),
            some(random_faults(6, 2, seed=4), share),
            rate=150,
            sender=send_in_transactions,
            chunk=20,
        )


def test_a_broker_stopped_and_killed(
    own_broker: KafkaBroker,
    tmp_path: Path,
    round_of: list[Review],
    recorder: Recorder,
    share: float,
) -> None:
    """In order and not, in the middle of a commit, for seconds and for two minutes; workers may
    crash meanwhile.
    """
    faults = [
        Fault(0.10, "stop broker", seconds=5),
        Fault(0.25, "kill broker", seconds=5),
        Fault(0.40, "kill broker", 0, seconds=5, step="after a produce", passage=20),
        Fault(0.55, "kill broker", 1, seconds=5, step="during the commit", passage=2),
        Fault(0.70, "kill broker", 0, seconds=5, step="after the offsets"),
        Fault(0.85, "kill broker", seconds=120 if share == 1 else 20),
    ]
    with (
        recorder.row(
            "broker stopped, killed, killed inside a commit; back after 5 s and 120 s"
        ) as row,
        pipeline(
            own_broker, "faults-broker", tmp_path, settings=settings_for(HASHED), armed=True
        ) as site,
    ):
        site.restarted_codes.add(2)  # what a worker says that starts while there is no broker
        under_faults(site, row, rounds(round_of, HASHED), int(10_000 * share), faults, rate=150)


def test_workers_added_and_removed(
    kafka: KafkaBroker, tmp_path: Path, round_of: list[Review], recorder: Recorder, share: float
) -> None:
    """Rebalance upon rebalance: two come and go every few seconds, in order; then each is restarted
    in turn, twice.
    """
    comings = [Fault(i / 24, "terminate", 1 + i % 2, seconds=i % 4) for i in range(18)]
    rolling = [Fault((18 + i) / 24, "terminate", i % 3) for i in range(6)]
    with (
        recorder.row("workers added and removed every few seconds; rolling SIGTERM") as row,
        pipeline(kafka, "faults-rebalances", tmp_path, settings=settings_for(HASHED)) as site,
    ):
        under_faults(
            site,
            row,
            rounds(round_of, HASHED),
            int(12_000 * share),
            some([*comings, *rolling], share),
            workers=3,
            rate=150,
        )


def test_offsets_rewound_and_duplicates(
    kafka: KafkaBroker, tmp_path: Path, round_of: list[Review], recorder: Recorder, share: float
) -> None:
    """A third of the events comes twice or late; after each of four parts the group is put back,
    and publishes nothing.
    """
    chance = random.Random(5)
    part = int(2_500 * share)
    events = rounds(round_of, HASHED, mix=Mix(duplicate=0.25, late=0.1))
    with (
        recorder.row("offsets rewound, producer duplicates") as row,
        pipeline(kafka, "faults-rewound", tmp_path, settings=settings_for(HASHED)) as site,
    ):
        site.start(2)
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


def published(site: Pipeline) -> list[int]:
    """How many records output and dead letters have."""
    return [
        len(read_topic(site.broker.bootstrap_servers, topic))
        for topic in (site.output_topic, site.dlq_topic)
    ]


EVERY_FAULT = [
    Fault(0.15, "kill", 0, seconds=1),
    Fault(0.35, "pause", 1, seconds=15),
    Fault(0.60, "kill", 1, seconds=2),
    Fault(0.95, "terminate", 0),
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
    events = list(Stream(used, vectors))
    with (
        recorder.row(f"kill, pause, SIGTERM; {name}") as row,
        pipeline(
            kafka, f"faults-{name.split()[0]}", tmp_path, settings=settings_for(vectors)
        ) as site,
    ):
        # Should a fault outlast the file, it comes once more, as other entities.
        endless = chain(events, rounds(used, vectors, seed=1))
        under_faults(site, row, endless, len(events), EVERY_FAULT, rate=rate)
