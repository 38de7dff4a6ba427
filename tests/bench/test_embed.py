"""What the engine's benchmark counts."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.bench.embed import PRODUCTS, SIZES, SQUARE, Spent, embed, medians, operations, sentences
from tests.bench.tables import embed_table

pytestmark = pytest.mark.long


def test_operations_are_those_of_the_published_cost_and_of_attention() -> None:
    """21.4 million a token, of sentences of about twenty tokens; attention grows with
    the square.
    """
    assert 21.2e6 < operations(20) / 20 < 21.6e6
    assert operations(200) > 10 * operations(20)
    assert operations(0) == 0


def test_what_was_spent_is_counted() -> None:
    spent = Spent()
    left = np.ones((SQUARE, SQUARE), np.float32)
    for _ in range(3):
        spent.take(2 * SQUARE**3, lambda: left @ left)
    assert spent.operations == 6 * SQUARE**3
    assert spent.rate > 0
    assert spent.cpu_rate > 0
    assert PRODUCTS > 1


def test_texts_are_given_in_micro_batches_and_none_twice(tmp_path: Path) -> None:
    given = []

    class Engine:
        model, dimension = "test", 1

        def embed(self, texts: list[str]) -> np.ndarray:
            given.append(len(texts))
            return np.zeros((len(texts), 1), np.float32)

    embed(Engine(), [str(number) for number in range(10)], 4)
    assert given == [4, 4, 2]
    file = tmp_path / "reviews.jsonl"
    rows = [
        {"entity_id": "a", "review_id": str(n), "text": f"Good one. Number {n} here."}
        for n in range(9)
    ]
    file.write_text("\n".join(map(json.dumps, rows)))
    found = sentences(file, 5)
    assert len(set(found)) == len(found) == 5


def test_a_figure_is_the_median_of_its_rounds_and_is_shown() -> None:
    def one(share: float) -> dict[str, object]:
        return {"sizes": {str(size): {"sentences_per_s": 100.0, "share": share} for size in SIZES}}

    found = medians([one(0.5), one(0.9), one(0.6)])
    assert found["1024"]["share"] == 0.6
    machine = {"cpu": "CPU", "cores": 2, "python": "3.11"}
    record = {"machine": machine, "date": "2026-11-23T00:00", "threads": {"1": {"medians": found}}}
    assert "| 1,024 | 100 (60 %) |" in embed_table(record).splitlines()
    for of_size in found.values():
        of_size |= {"bf16_sentences_per_s": 200.0, "bf16_share": 0.7}
    assert "| 1,024 | 100 (60 %) | 200 (70 %) |" in embed_table(record).splitlines()
