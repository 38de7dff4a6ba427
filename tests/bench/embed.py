"""How much of what the cores can do the default engine makes of them: `make bench-embed`.

    python -m tests.bench.embed [--rounds N] [--data FILE] [--out FILE]

Sentences/s over micro-batches of 8, 32, 128 and 1,024 sentences of real reviews, in the order they
were written, with 1 thread and with 2; and the share of the sgemm peak that is: of the rate of
products of large matrices of 32-bit numbers on as many threads, by NumPy's BLAS and by ONNX
Runtime, which differ by two on some processors, in turns with the engine every fraction of a
second. So what else the machine does slows down both. What counts are the operations that a
sentence's own tokens take: tokenizing, pooling, and all that is no matrix product, come to nothing.
`cpu_share` is by processor time, `share_of_numpy` of NumPy's BLAS alone.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tests.bench.machine import began, tell, write
from tests.harness.load import SAMPLE, read_reviews
from worker.text.engine import EmbeddingEngine
from worker.text.minilm import load_minilm
from worker.text.onnx import open_session
from worker.text.splitting import split_sentences

SIZES: Final = (8, 32, 128, 1024)
THREADS: Final = (1, 2)
SENTENCES: Final = 1024
"""For each measurement; as many calls of the engine as they make."""
TARGETS: Final = {"share_at_1024": 0.80, "share_at_32": 0.65}
"""The smaller of the shares with 1 and with 2 threads."""
LAYERS, HIDDEN, INNER = 6, 384, 1536
SQUARE: Final = 1024
PRODUCTS: Final = 8
SLICE: Final = 64
"""Sentences between two looks at the peak, but no less than a micro-batch."""
Array = NDArray[np.float32]
RESULTS: Final = Path(__file__).with_name("results") / "embed.json"


def operations(tokens: int) -> int:
    """Additions and multiplications of the matrix products of one sentence of so many tokens.

    In each layer: queries, keys, values and the attention's output are products with HIDDEN x
    HIDDEN; the feed-forward two with HIDDEN x INNER; and attention multiplies every token with
    every other, for the weights and for their sum.
    """
    each = 4 * HIDDEN * HIDDEN + 2 * HIDDEN * INNER
    return LAYERS * 2 * (tokens * each + 2 * tokens * tokens * HIDDEN)


def sentences(path: Path, count: int) -> list[str]:
    """The first distinct sentences of a file's reviews, in shuffled order of reviews, split as the
    worker splits.
    """
    found: dict[str, None] = {}
    for review in read_reviews(path):
        found |= dict.fromkeys(split_sentences(review.text, 2000))
        if len(found) >= count:
            break
    return list(found)[:count]


class Spent:
    """Operations, and the seconds that they took by the clock and by processor time."""

    def __init__(self) -> None:
        self.operations = self.seconds = self.cpu_seconds = 0.0

    def take(self, operations: float, work: Callable[[], object]) -> None:
        """Do it, and count it."""
        began_s, began_cpu_s = time.perf_counter(), time.process_time()
        work()
        self.seconds += time.perf_counter() - began_s
        self.cpu_seconds += time.process_time() - began_cpu_s
        self.operations += operations

    @property
    def rate(self) -> float:
        """Operations a second."""
        return self.operations / self.seconds

    @property
    def cpu_rate(self) -> float:
        """Operations in a second of one processor."""
        return self.operations / self.cpu_seconds


def numpy_products() -> Callable[[], object]:
    """A few products of large matrices, by NumPy's BLAS."""
    left, right = _matrices()
    out = np.empty_like(left)
    return lambda: [np.matmul(left, right, out=out) for _ in range(PRODUCTS)]


def onnx_products(threads: int) -> Callable[[], object]:
    """The same by ONNX Runtime, whose kernels the engine's model runs on: a product on each of so
    many threads.
    """
    from onnx import TensorProto, helper

    left, right = _matrices()
    shapes = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [SQUARE, SQUARE]) for name in "xy"
    ]
    weights = helper.make_tensor(
        "weights", TensorProto.FLOAT, right.shape, right.tobytes(), raw=True
    )
    node = helper.make_node("MatMul", ["x", "weights"], ["y"])
    graph = helper.make_graph([node], "product", shapes[:1], shapes[1:], [weights])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    session = open_session(model.SerializeToString())
    pool = ThreadPoolExecutor(threads)
    return lambda: list(pool.map(lambda _: session.run(None, {"x": left}), range(PRODUCTS)))


def _matrices() -> tuple[Array, Array]:
    chance = np.random.default_rng(0)
    left, right = (chance.standard_normal((SQUARE, SQUARE)).astype(np.float32) for _ in range(2))
    return left, right


def measure(threads: int, texts: Sequence[str]) -> dict[str, Any]:
    """One round of this process, whose BLAS has to have been started with as many threads."""
    engine = load_minilm(threads)
    lengths = [len(engine.tokens(text)) for text in texts]
    products = {"numpy": numpy_products(), "onnxruntime": onnx_products(threads)}
    engine.embed(texts[:256])  # it is slower at first, as they are
    for product in products.values():
        product()
    figures: dict[str, Any] = {}
    for size in SIZES:
        ours, theirs = Spent(), {name: Spent() for name in products}
        step = max(SLICE, size)
        for at in range(0, len(texts), step):
            ours.take(
                sum(map(operations, lengths[at : at + step])),
                partial(embed, engine, texts[at : at + step], size),
            )
            for name, product in products.items():
                theirs[name].take(2 * PRODUCTS * SQUARE**3, product)
        figures[str(size)] = {
            "sentences_per_s": round(len(texts) / ours.seconds, 1),
            "share": round(ours.rate / max(one.rate for one in theirs.values()), 3),
            "share_of_numpy": round(ours.rate / theirs["numpy"].rate, 3),
            "cpu_share": round(ours.cpu_rate / max(one.cpu_rate for one in theirs.values()), 3),
            **{f"{name}_gflops": round(one.rate / 1e9, 1) for name, one in theirs.items()},
        }
    return {"tokens": round(statistics.mean(lengths), 1), "sizes": figures}


def embed(engine: EmbeddingEngine, texts: Sequence[str], size: int) -> None:
    """In micro-batches of so many."""
    for first in range(0, len(texts), size):
        engine.embed(texts[first : first + size])


def in_process(threads: int, path: Path) -> dict[str, Any]:
    """The same in a process of its own: a BLAS has as many threads as it was started with."""
    limits = dict.fromkeys(
        ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), str(threads)
    )
    command = [
        sys.executable,
        "-m",
        "tests.bench.embed",
        "--one",
        str(threads),
        "--data",
        str(path),
    ]
    done = subprocess.run(
        command, env={**os.environ, **limits}, capture_output=True, text=True, check=True
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def medians(rounds: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Of each figure of the sizes."""
    return {
        size: {
            figure: statistics.median(one["sizes"][size][figure] for one in rounds)
            for figure in rounds[0]["sizes"][size]
        }
        for size in rounds[0]["sizes"]
    }


def main() -> int:
    """Measure, print, write; 0 also where a target is missed: the figures say so."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--data", type=Path, default=SAMPLE)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one is not None:
        print(json.dumps(measure(given.one, sentences(given.data, SENTENCES))))
        return 0
    record = began("tests.bench.embed") | {"targets": TARGETS, "sentences": SENTENCES}
    found: dict[int, list[dict[str, Any]]] = {threads: [] for threads in THREADS}
    for _ in range(given.rounds):
        for threads in THREADS:
            found[threads].append(in_process(threads, given.data))
            print(threads, "threads", found[threads][-1], flush=True)
    of = {threads: medians(rounds) for threads, rounds in found.items()}
    report = record | {
        "threads": {
            str(threads): {"medians": of[threads], "rounds": found[threads]} for threads in THREADS
        }
    }
    write(given.out, report)
    shares = {
        f"share_at_{size}": min(of[threads][str(size)]["share"] for threads in THREADS)
        for size in SIZES
    }
    tell(TARGETS, shares, given.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
