"""Exact summaries by brute force, as a team writes them in NumPy: the peers' share of the work.

It needs NumPy alone: the peers import it in environments of their own.
"""

from __future__ import annotations

import base64
from typing import Any

import numpy as np

K = 20
SENTENCE_BYTES = 400
"""About what the id and the text of a sentence take as Python objects."""


class Entity:
    """The sentences of one entity, their unit vectors in one matrix.

    Attributes:
        reviews: how many were added.
        published: the positions of the sentences that `change` returned last, in rising order.
    """

    def __init__(self, published: list[int] | None = None):
        self.reviews = 0
        self.published = published or []
        self._sentences: list[tuple[str, str]] = []
        self._matrix = np.empty((0, 0), np.float32)
        self._sum: Any = 0.0

    @property
    def memory_bytes(self) -> int:
        """About what it takes."""
        return self._matrix.nbytes + SENTENCE_BYTES * len(self._sentences)

    def add(self, review: dict[str, Any]) -> None:
        """Add the sentences of a new review."""
        sentences, first = review["sentences"], len(self._sentences)
        encoded = b"".join(base64.b64decode(sentence["embedding"]) for sentence in sentences)
        vectors = np.frombuffer(encoded, "<f4").reshape(len(sentences), -1)
        vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        self._sentences += [
            (f"{review['review_id']}#{place}", sentence["text"])
            for place, sentence in enumerate(sentences)
        ]
        self._reserve(len(self._sentences), vectors.shape[1])
        self._matrix[first : len(self._sentences)] = vectors
        self._sum = self._sum + vectors.sum(axis=0, dtype=np.float64)
        self.reviews += 1

    def change(self) -> dict[str, Any] | None:
        """Rank all sentences; the k nearest to the centroid, None where they are those published
        last.
        """
        count = len(self._sentences)
        centroid = (self._sum / count).astype(np.float32)
        products = self._matrix[:count] @ centroid  # of unit vectors the nearest has the largest
        nearest = np.argpartition(products, count - K)[count - K :] if count > K else range(count)
        positions = sorted(int(position) for position in nearest)
        if positions == self.published:
            return None
        self.published = positions
        square = 1.0 + float(centroid @ centroid)
        sentences = [
            {
                "sentence_id": self._sentences[position][0],
                "text": self._sentences[position][1],
                "distance": max(0.0, square - 2.0 * float(products[position])) ** 0.5,
            }
            for position in sorted(positions, key=lambda position: -products[position])
        ]
        return {"type": "summary.changed", "sentences": sentences}

    def _reserve(self, count: int, dimension: int) -> None:
        """Room for so many rows: twice as many as before where there is too little."""
        if count > len(self._matrix):
            grown = np.empty((max(count, 2 * len(self._matrix)), dimension), np.float32)
            grown[: len(self._matrix)] = self._matrix.reshape(len(self._matrix), dimension)
            self._matrix = grown


def kept(review: dict[str, Any]) -> dict[str, Any]:
    """The event that an application publishes for a review that it keeps."""
    return {"type": "review.kept", "review_id": review["review_id"]}
