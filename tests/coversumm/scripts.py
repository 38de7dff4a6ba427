"""Scripts of steps with the oracle's history, and the ways to play them through the core."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.harness.oracle import brute_force
from worker.coversumm import EntityCore, FlatIndex, Index, Points, Ranking, Step

Vector = tuple[int, ...]


def points(
    sentences: Iterable[tuple[bytes, Sequence[int] | NDArray[np.int16]]], dimension: int
) -> Points:
    ids, vectors = [], []
    for id_, vector in sentences:
        ids.append(id_)
        vectors.append(np.asarray(vector, np.int16))
    return Points(ids, np.array(vectors, np.int16).reshape(-1, dimension))


def adds(vectors: NDArray[np.int16], ids: Sequence[bytes] | None = None) -> list[Step]:
    """One step a vector."""
    d = vectors.shape[1]
    ids = ids or [b"s%06d" % i for i in range(len(vectors))]
    return [Step(points((), d), Points([id_], vectors[i : i + 1])) for i, id_ in enumerate(ids)]


@dataclass
class Script:
    dimension: int
    k: int
    distinct: bool
    steps: list[Step] = field(default_factory=list)
    live: list[dict[bytes, NDArray[np.int16]]] = field(default_factory=list)  # after each step
    by_text: bool = False

    def add(self, removed: Sequence[bytes], added: dict[bytes, Vector]) -> None:
        state = dict(self.live[-1]) if self.live else {}
        gone = [(id_, state.pop(id_)) for id_ in removed]
        state |= {id_: np.array(vector, np.int16) for id_, vector in added.items()}
        self.steps.append(Step(points(gone, self.dimension), points(added.items(), self.dimension)))
        self.live.append(state)

    def oracle(self, at: int) -> Ranking:
        live = self.live[at] if self.live else {}
        return brute_force(live, self.k, distinct=self.distinct, by_text=self.by_text)

    def expected(self) -> list[Ranking | None]:
        """What `apply` must return, from the definition."""
        before: set[bytes] = set()
        result: list[Ranking | None] = []
        for at, step in enumerate(self.steps):
            ranking = self.oracle(at)
            now = set(ranking.ids)
            result.append(ranking if now != before or now & set(step.added.ids) else None)
            before = now
        return result

    def core(self, spare: int | None, index: Index | None = None) -> EntityCore:
        return self.loaded(spare, index or FlatIndex(self.dimension), EntityCore)

    def loaded(
        self, spare: int | None, index: Index, make: Callable[..., EntityCore] = EntityCore.load
    ) -> EntityCore:
        core = make(self.k, self.dimension, index, distinct=self.distinct, by_text=self.by_text)
        return tight(core, spare)


def tight(core: EntityCore, spare: int | None) -> EntityCore:
    """A reservoir so small, k rows and few to spare, that a script of a few steps refills it."""
    if spare is not None:
        state = core
        state.smallest_target = state.target = state.k + spare
        state.reservoir.ids_kept = state.reservoir.ids_needed
    return core


@dataclass
class Review:
    """A stored block; `asked` counts the ids it was asked to make."""

    ids: list[bytes]
    vectors: NDArray[np.int16]
    asked: int = 0

    def id(self, row: int) -> bytes:
        self.asked += 1
        return self.ids[row]


class Disk:
    """Stored sentences as blocks of mixed sizes, for an index in scan mode."""

    def __init__(self, dimension: int) -> None:
        self.dimension = dimension
        self.live: dict[bytes, NDArray[np.int16]] = {}

    def scan(self) -> Iterator[Review]:
        ids = sorted(self.live, reverse=True)
        at, size = 0, 1
        while at < len(ids):
            chunk = ids[at : at + size]
            yield Review(chunk, np.array([self.live[id_] for id_ in chunk], np.int16))
            at, size = at + size, size % 3 + 1


@st.composite
def scripts(draw: st.DrawFn) -> Script:
    """Small grids and few ids, so that equal distances, copies, edits and empty entities abound."""
    d = draw(st.integers(1, 3))
    grid = draw(st.sampled_from([1, 2, 5, 40, 32767]))
    ids = [b"%d" % i for i in range(draw(st.sampled_from([3, 12, 60])))]
    script = Script(d, draw(st.integers(1, 5)), draw(st.booleans()), by_text=draw(st.booleans()))
    vectors = st.tuples(*[st.integers(-grid, grid)] * d)
    sizes = st.sampled_from([0, 1, 1, 1, 1, 2, 4, 9])
    for _ in range(draw(st.integers(0, 40))):
        live = script.live[-1] if script.live else {}
        touched = draw(st.lists(st.sampled_from(ids), unique=True, max_size=draw(sizes)))
        removed = [id_ for id_ in touched if id_ in live]
        # edited: removed and added again
        kept = draw(st.sets(st.sampled_from(removed))) if removed else set()
        script.add(
            removed, {id_: draw(vectors) for id_ in touched if id_ not in live or id_ in kept}
        )
    return script
