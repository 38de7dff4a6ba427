"""Facets over hundreds of events: entities that grow past a refill and past what is remembered of
the newest reviews, and then lose exactly those. Definitions of one kind alone take other paths than
a mixture.
"""

import random
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from tests.harness.drive import DIMENSION, Driver, FakeEngine, config, delete, sent, upsert
from tests.harness.facet_model import FacetModel
from tests.processing.facet_runs import FACETS, POLARITY, packed
from tests.processing.test_facet_view import view_of
from worker.facets.definitions import Definitions, Facet, RatingRange
from worker.facets.membership import facet_criteria
from worker.state import verify_partition

FIRST_DAY = datetime(2020, 1, 1, tzinfo=UTC)
KINDS = {
    "vectors": [
        Facet("x", vectors=(packed([1, 0, 0]),), k=2),
        Facet("y", vectors=(packed([0, 1, 0]),)),
    ],
    "phrases": [Facet("text", phrases=("good", "bad"), threshold=0.9)],
    "ratings": [
        Facet("critics", rating=RatingRange(max=2), k=2),
        Facet("fans", rating=RatingRange(min=4)),
    ],
    "labels": [Facet("price", labels=("price", "cost"), k=2)],
    "newest": [Facet("last", newest=1, k=2), Facet("news", newest=4, k=3)],
    "days": [Facet("month", within_days=30, k=2), Facet("decade", within_days=3650)],
    "combined": [
        Facet("x", vectors=(packed([1, 0, 0]),), rating=RatingRange(max=2)),
        Facet("y", vectors=(packed([0, 1, 0]),), rating=RatingRange(max=2), threshold=0),
        Facet("late", within_days=20, newest=3, labels=("price",)),
        Facet("near", vectors=(packed([1, 1, 0]),), newest=5, verified=True),
        Facet("x of mine", vectors=(packed([1, 0, 0]),), author_id=("me",), country=("NL",)),
    ],
    "sides": [
        Facet("x", vectors=(packed([1, 0, 0]),), k=2, sides=True),
        Facet("y", vectors=(packed([0, 1, 0]),), sides=True),
        Facet("late", newest=6, sides=True),
    ],
    "languages": [
        Facet("x", vectors=(packed([1, 0, 0]),), k=2),
        Facet("y", vectors=(packed([0, 1, 0]),), words={"en": ("good",), "fr": ("bad",)}),
        Facet("critics", rating=RatingRange(max=2), language=("fr",), words=("bad",)),
    ],
    "words": [
        Facet("x", vectors=(packed([1, 0, 0]),), words=("fine", "good 1*"), k=2),
        Facet("critics", rating=RatingRange(max=2), words=("bad", "9*"), newest=4),
        Facet("y", vectors=(packed([0, 1, 0]),), words={"en": ("good",), "fr": ("bad", "fi*")}),
    ],
    "mixed": list(FACETS.definitions.facets),
}


def of_kind(kind):
    languages = ("en", "fr") if kind == "languages" else ()
    polarity = POLARITY if kind in ("sides", "mixed") else None
    definitions = Definitions(KINDS[kind], languages, polarity)
    return facet_criteria(definitions, DIMENSION, FakeEngine().embed)


class History:
    """Events of one entity. Reviews arrive in the order of their dates, but for some late ones."""

    def __init__(self, seed):
        self._random = random.Random(seed)
        self._live = {}  # by review its date
        self._events = 0
        self._topic = []

    def grow(self, count):
        """New reviews, a few of them late."""
        for _ in range(count):
            at = self._events - self._random.choice([0, 0, 0, 0, 20, 60])
            yield self._upsert(f"r{self._events}", at)

    def lose_the_newest(self, count):
        """Deletions of the newest reviews, one after the other."""
        for name in sorted(self._live, key=self._live.__getitem__, reverse=True)[:count]:
            del self._live[name]
            yield delete(self._next(), name)

    def edit(self, count):
        """Other texts, ratings, labels or dates of reviews, and deletions of any, some of them
        after an edit that left no sentence.
        """
        for _ in range(min(count, len(self._live))):
            name = self._random.choice(list(self._live))
            kind = self._random.choice(["edit", "edit", "delete", "empty"])
            if kind == "empty":
                yield upsert(self._next(), name)
            if kind == "edit":
                yield self._upsert(name, self._random.randrange(self._events + 1))
            else:
                del self._live[name]
                yield delete(self._next(), name)

    def _next(self):
        self._events += 1
        return self._events - 1

    def _upsert(self, name, at):
        self._live[name] = at = max(at, 0)
        pick = self._random
        sentences = [
            {
                "text": f"{pick.choice(['good', 'bad', 'fine'])} {at}",
                "embedding": [number + pick.gauss(0, 0.5) for number in self._topic],
                "labels": pick.choice([None, ["price"], ["cost", "odd"]]),
            }
            for _ in range(pick.choice([0, 1, 1, 2, 3]))
        ]
        return upsert(
            self._next(),
            name,
            sentences=sentences,
            occurred_at=(FIRST_DAY + timedelta(days=at)).isoformat(),
            rating=pick.choice([None, 1, 2, 5, 5, 5]),
            language=pick.choice(["en", "fr-FR", "it", None]),
            verified=pick.choice([None, True, False]),
            country=pick.choice([None, "NL"]),
            author_id=pick.choice([None, "me", "you"]),
        )

    def phases(self, sizes):
        """Growth, then losses, by turns; the centroid drifts, so that reservoirs are refilled."""
        for size in sizes:
            self._topic = [self._random.uniform(-1, 1) for _ in range(DIMENSION)]
            yield from self.grow(size)
            yield from self.lose_the_newest(size // 2)
            yield from self.edit(size // 4)


setups = st.fixed_dictionaries(
    {
        "k": st.integers(1, 4),
        "distinct": st.booleans(),
        "by_text": st.booleans(),
        "emit": st.sampled_from(["every", "coalesced"]),
        "min_changes": st.sampled_from([1, 2, 4]),
        "emit_mentions": st.sampled_from([0, 1, 30]),
        "cache_bytes": st.sampled_from([0, 20_000, 10**8]),
    }
)
CACHED = {"k": 2, "distinct": False, "emit": "coalesced", "min_changes": 1, "cache_bytes": 10**8}


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=3, phases=[Phase.explicit, Phase.generate])  # a seed cannot be shrunk
@given(
    setup=setups,
    seed=st.integers(0, 2**32),
    sizes=st.sampled_from([[8] * 8, [20, 60], [100, 30]]),
    batch=st.sampled_from([1, 3, 7, 40]),
    restarts=st.sampled_from([0, 0.3]),
)
@example(setup=CACHED, seed=1, sizes=[100, 30], batch=1, restarts=0)
def test_facets_of_a_long_history_equal_brute_force(kind, setup, seed, sizes, batch, restarts):
    check(kind, setup, seed, sizes, batch, restarts)


@pytest.mark.parametrize("kind", KINDS)
def test_facets_of_one_history_equal_brute_force(kind):
    check(kind, CACHED | {"min_changes": 2}, 2, [60, 20], 7, 0.1)


def check(kind, setup, seed, sizes, batch, restarts):
    """The messages of each micro-batch, and at the end the stored facets and what `verify` says."""
    facets = of_kind(kind)
    limits = {"label_bits": facets.label_bits}
    driver = Driver(config(facets=facets, facets_topic="facets", limits=limits, **setup))
    model = FacetModel(driver.config, FakeEngine.vector)
    pick = random.Random(seed)
    records = list(History(seed).phases(sizes))
    for at in range(0, len(records), batch):
        if pick.random() < restarts:
            driver.restart()
        part = records[at : at + batch]
        expected, _ = model.run(part)
        done = driver.run(*part)
        assert [sent(message) for message in done.messages] == expected
    least = setup["min_changes"]
    checks = verify_partition(
        driver.rows[0],
        dimension=DIMENSION,
        k=setup["k"],
        distinct=setup["distinct"],
        by_text=setup.get("by_text", False),
        min_changes=least,
    )
    assert [check.problems for check in checks if check.problems] == []
    stored = view_of(driver, (0, "e"))
    assert msgspec.to_builtins(stored.facets) == tuple(model.now((0, "e")))
