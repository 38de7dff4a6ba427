"""The paper's naive methods over nearest-neighbour libraries: a search of everything at every step
(section 4).

The libraries come with the extra `bench` and are imported here alone, when a method is made. Both
run on one thread.
"""

import warnings
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.bench.paper.algorithms.centroid import Centroid
from tests.bench.paper.algorithms.sentence_set import nearest
from worker.coversumm import DuplicateSentence, Step, UnknownSentence, certificate
from worker.coversumm.matrix import GrowingArray

SINGLE = 2.0**-24  # the unit roundoff of float32


def library(name: str, package: str) -> Any:
    """A module of the extra; ImportError says how to get it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of wrappers generated for older Pythons
            return import_module(name)
    except ImportError as error:
        raise ImportError(
            f"{package} is not installed: pip install '.[bench]'", name=name
        ) from error


class _Indexed(Centroid):
    """Live sentences under integer labels, which are never used twice; what both methods share."""

    reservoir_size = 0

    def __init__(self, k: int, dimension: int) -> None:
        super().__init__(k, dimension)
        self._labels: dict[bytes, int] = {}
        self._ids: list[bytes] = []  # by label, removed ones too
        self._vectors = GrowingArray(np.int16, dimension)

    def apply(self, step: Step) -> tuple[bytes, ...]:
        self.check(step)
        removed, added = step
        self.leave(removed)
        self.join(added)
        if removed.ids:
            self._take_out([self._unlabel(id_) for id_ in removed.ids])
        if added.ids:
            self._put_in(added.vectors.astype(np.float32), self._label(added.ids, added.vectors))
        if not self.n:
            return ()
        self.reservoir_searches += 1
        keys, labels = self._search((self.total / self.n).astype(np.float32)[None])
        return nearest(keys, [self._ids[label] for label in labels.tolist()], self.k)

    def _label(self, ids: Sequence[bytes], vectors: NDArray[np.int16]) -> NDArray[np.int64]:
        start = len(self._ids)
        self._vectors.append(vectors)
        for label, id_ in enumerate(ids, start):
            if self._labels.setdefault(id_, label) != label:
                raise DuplicateSentence(f"sentence {id_!r} is live already")
        self._ids += ids
        return np.arange(start, len(self._ids))

    def _unlabel(self, id_: bytes) -> int:
        label = self._labels.pop(id_, None)
        if label is None:
            raise UnknownSentence(f"sentence {id_!r} is not live")
        return label

    def _keys(self, labels: NDArray[np.int64]) -> NDArray[np.float64]:
        """Exact."""
        x = self._vectors.rows[labels].astype(np.float64)
        return np.asarray(self.n * np.einsum("ij,ij->i", x, x) - 2.0 * (x @ self.total))

    def _put_in(self, vectors: NDArray[np.float32], labels: NDArray[np.int64]) -> None:
        raise NotImplementedError

    def _take_out(self, labels: list[int]) -> None:
        raise NotImplementedError

    def _search(self, query: NDArray[np.float32]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Candidates, (keys, labels), for the centroid rounded to float32, (1, D)."""
        raise NotImplementedError


class NaiveFaiss(_Indexed):
    """Naive FAISS: `IndexFlatL2` searched at every step, its candidates ranked again by exact keys.

    Source: section 4, Naive FAISS, with the library's default parameters. Parameter: k. Exact
    always: FAISS is asked for twice as many candidates until its own rounding cannot have kept out
    one of the k nearest, in the worst case all.

    The proof. Let c be the centroid mu rounded to float32, u = 2^-24, q the largest |x|^2, g =
    (D+4)u / (1 - (D+4)u). int16 vectors are exact in float32. FAISS computes |x-c|^2 as a sum of D
    squares, in any order, with an error below g|x-c|^2, or as |x|^2 + |c|^2 - 2x.c with one below
    2g(|x|^2 + |c|^2); since |x-c|^2 <= 2|x|^2 + 2|c|^2, both are below E = 2g(q + |c|^2). A
    sentence it left out has a computed square of at least L, the last one returned, hence d(x, c)
    >= sqrt(L - E) and d(x, mu) >= sqrt(L - E) - |c - mu|, with |c - mu| < 2u|mu|. If that is more
    than the exact k-th distance among the candidates, none left out is as near, ties included. (No
    square underflows: where a coordinate of x is 0, that of x - c is 0 or at least 1/n > 2^-53; at
    any other it is 0 or at least 2^-25.)
    """

    def __init__(self, k: int, dimension: int) -> None:
        super().__init__(k, dimension)
        faiss = library("faiss", "faiss-cpu")
        faiss.omp_set_num_threads(1)
        self._index = faiss.IndexIDMap2(faiss.IndexFlatL2(dimension))

    def _put_in(self, vectors: NDArray[np.float32], labels: NDArray[np.int64]) -> None:
        self._index.add_with_ids(vectors, labels)

    def _take_out(self, labels: list[int]) -> None:
        self._index.remove_ids(np.array(labels, np.int64))

    def _search(self, query: NDArray[np.float32]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        count = 2 * self.k
        while True:
            count = min(count, self.n)
            distances, labels = self._index.search(query, count)
            keys = self._keys(labels[0])
            if count == self.n or self._complete(keys, float(distances[0, -1]), query[0]):
                return keys, labels[0]
            count *= 2

    def _complete(self, keys: NDArray[np.float64], last: float, query: NDArray[np.float32]) -> bool:
        """Whether no sentence that FAISS left out can be among the k nearest."""
        c = query.astype(np.float64)
        terms = (self.dimension + 4) * SINGLE
        error = 2 * terms / (1 - terms) * (self.max_squared_norm + float(c @ c))
        slack = certificate.slack(self.dimension, self.max_squared_norm)
        mean_squared = float(self.total @ self.total) / (self.n * self.n)
        outside = certificate.lower(last, error) - 2 * SINGLE * certificate.upper(
            mean_squared, slack
        )
        kth = float(np.partition(keys, self.k - 1)[self.k - 1])
        return certificate.upper(kth / self.n + mean_squared, slack) < outside * certificate.ROOTS


class NaiveHnsw(_Indexed):
    """Naive HNSW: an `hnswlib` graph searched at every step, what it finds put in order by exact
    keys.

    Source: section 4, Naive HNSW, with the library's default parameters: M = 16, ef_construction =
    200, ef = 10, which the library raises to k. Parameters: k; `seed` of the graph's levels, by
    default the library's. Approximate: the greedy walk can end before it has met all of the k
    nearest, equal distances are cut anywhere, and in a graph that removals or many copies have
    taken apart it may reach fewer than k. A removed sentence is marked and stays in the graph, to
    be walked over.
    """

    def __init__(self, k: int, dimension: int, seed: int = 100) -> None:
        super().__init__(k, dimension)
        self._index = library("hnswlib", "hnswlib").Index(space="l2", dim=dimension)
        self._index.init_index(max_elements=1024, M=16, ef_construction=200, random_seed=seed)
        self._index.set_ef(max(10, k))

    def _put_in(self, vectors: NDArray[np.float32], labels: NDArray[np.int64]) -> None:
        if int(labels[-1]) >= self._index.get_max_elements():
            self._index.resize_index(2 * (int(labels[-1]) + 1))
        self._index.add_items(vectors, labels, num_threads=1)

    def _take_out(self, labels: list[int]) -> None:
        for label in labels:
            self._index.mark_deleted(label)

    def _search(self, query: NDArray[np.float32]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        for count in range(min(self.k, self.n), 0, -1):
            try:
                labels = self._index.knn_query(query, k=count, num_threads=1)[0][0].astype(np.int64)
            except RuntimeError:  # the walk reached fewer
                continue
            return self._keys(labels), labels
        return np.empty(0), np.empty(0, np.int64)
