"""How much of what the cores can do the default engine makes of them, in fp32 and, where the
processor has it, in bf16: `make bench-embed`.

    python -m tests.bench.embed [--rounds N] [--data FILE] [--out FILE]

Sentences/s over micro-batches of 8, 32, 128 and 1,024 sentences of real reviews, in the order they
were written, with 1 thread and with 2; and the share of the sgemm peak that is: of the rate of
products of large matrices of 32-bit numbers on as many threads, by NumPy's BLAS and by ONNX
Runtime, which differ by two on some processors, in turns with the engine every fraction of a
second. So what else the machine does slows down both. bf16 is in turns with both, beside products
of the same matrices in bf16 by OpenVINO. What counts are the operations that a
sentence's own tokens take: tokenizing, pooling, and all that is no matrix product, come to nothing.
`cpu_share` is by processor time, `share_of_numpy` of NumPy's BLAS alone.

Where PyTorch and sentence-transformers are installed (`make test-sentence-transformers`), they
embed the same in fp32 and with autocast to bf16, in batches of 32, after each round and in a
process of their own: their threads would disturb the others.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
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
from queue import SimpleQueue
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from tests.bench.machine import began, command_line, tell, write
from tests.harness.load import SAMPLE, read_reviews
from worker.text.minilm import _package_folder, load_minilm
from worker.text.onnx import open_session
from worker.text.openvino import CONFIG, bf16_problem
from worker.text.splitting import split_sentences

SIZES: Final = (8, 32, 128, 1024)
THREADS: Final = (1, 2)
SENTENCES: Final = 1024
"""For each measurement; as many calls of the engine as they make."""
TARGETS: Final = {"share_at_1024": 0.80, "share_at_32": 0.65}
BF16_TARGETS: Final = {"speedup_at_1024": 1.6, "speedup_at_32": 1.3, "bf16_share_at_1024": 0.7}
"""The smaller of the figures with 1 and with 2 threads; how much faster bf16 is than fp32."""
LAYERS, HIDDEN, INNER = 6, 384, 1536
SQUARE: Final = 1024
PRODUCTS: Final = 8
SLICE: Final = 64
"""Sentences between two looks at the peak, but no less than a micro-batch."""
PRECISIONS: Final = ("fp32", "bf16")
PYTORCH_BATCH: Final = 32
PYTORCH_SIZES: Final = (32, 1024)
Array = NDArray[np.float32]
RESULTS: Final = Path(__file__).with_name("results") / "embed.json"


class Embeds(Protocol):
    """An engine, or a library beside it."""

    def embed(self, texts: Sequence[str]) -> object:
        """The vectors of these texts."""


class PyTorch:
    """The default model in sentence-transformers; with autocast in bf16."""

    def __init__(self, threads: int, precision: str) -> None:
        self._torch = importlib.import_module("torch")
        self._torch.set_num_threads(threads)
        library = importlib.import_module("sentence_transformers")
        self._encoder = library.SentenceTransformer(str(_package_folder()), device="cpu")
        self._is_bf16 = precision == "bf16"

    def embed(self, texts: Sequence[str]) -> object:
        """See `Embeds`; the library sorts by length."""
        with self._torch.autocast("cpu", self._torch.bfloat16, enabled=self._is_bf16):
            return self._encoder.encode(list(texts), batch_size=PYTORCH_BATCH)


def has_pytorch() -> bool:
    """Whether the library beside the engine can be measured."""
    return importlib.util.find_spec("sentence_transformers") is not None


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


def bf16_products(threads: int) -> Callable[[], object]:
    """The same in bf16 by OpenVINO, which the engine's bf16 runs on."""
    from openvino import Core, Model, opset13

    left, right = _matrices()
    given = opset13.parameter(left.shape, np.float32)
    product = opset13.matmul(given, opset13.constant(right), transpose_a=False, transpose_b=False)
    model = Model([product], [given])
    ready: SimpleQueue[Any] = SimpleQueue()
    for _ in range(threads):
        ready.put(Core().compile_model(model, "CPU", CONFIG).create_infer_request())
    pool = ThreadPoolExecutor(threads)

    def one(_: int) -> None:
        request = ready.get()
        request.infer([left])
        ready.put(request)

    return lambda: list(pool.map(one, range(PRODUCTS)))


def _matrices() -> tuple[Array, Array]:
    chance = np.random.default_rng(0)
    left, right = (chance.standard_normal((SQUARE, SQUARE)).astype(np.float32) for _ in range(2))
    return left, right


def measure(threads: int, texts: Sequence[str]) -> dict[str, Any]:
    """One round of this process, whose BLAS has to have been started with as many threads."""
    fp32 = load_minilm(threads)
    engines: dict[str, Embeds] = {"fp32": fp32}
    products = {"numpy": numpy_products(), "onnxruntime": onnx_products(threads)}
    peaks = {"fp32": ("numpy", "onnxruntime"), "bf16": ("openvino",)}
    if bf16_problem() is None:
        engines["bf16"] = load_minilm(threads, precision="bf16")
        products["openvino"] = bf16_products(threads)
    lengths = [len(ids) for ids in fp32.tokens(texts)]
    for engine in engines.values():
        engine.embed(texts)  # it is slower at first, as they are
    for product in products.values():
        product()
    figures: dict[str, Any] = {}
    for size in SIZES:
        ours = {name: Spent() for name in engines}
        theirs = {name: Spent() for name in products}
        step = max(SLICE, size)
        for at in range(0, len(texts), step):
            of_slice = sum(map(operations, lengths[at : at + step]))
            for name, engine in engines.items():
                ours[name].take(of_slice, partial(embed, engine, texts[at : at + step], size))
            for name, product in products.items():
                theirs[name].take(2 * PRODUCTS * SQUARE**3, product)
        first = ours["fp32"]
        of_fp32 = _shares(first, [theirs[name] for name in peaks["fp32"]], len(texts))
        figures[str(size)] = of_fp32 | {
            "share_of_numpy": round(first.rate / theirs["numpy"].rate, 3),
            **{f"{name}_gflops": round(runtime.rate / 1e9, 1) for name, runtime in theirs.items()},
        }
        if (bf16 := ours.get("bf16")) is not None:
            of_bf16 = _shares(bf16, [theirs[name] for name in peaks["bf16"]], len(texts)) | {
                "speedup": round(bf16.rate / first.rate, 3),
                "cpu_speedup": round(bf16.cpu_rate / first.cpu_rate, 3),
            }
            figures[str(size)] |= {f"bf16_{name}": value for name, value in of_bf16.items()}
    return {"tokens": round(statistics.mean(lengths), 1), "sizes": figures}


def measure_pytorch(threads: int, texts: Sequence[str]) -> dict[str, Any]:
    """Sentences/s of one round of PyTorch, by precision and size."""
    figures: dict[str, Any] = {str(size): {} for size in PYTORCH_SIZES}
    for precision in PRECISIONS:
        engine = PyTorch(threads, precision)
        engine.embed(texts)
        for size in PYTORCH_SIZES:
            spent = Spent()
            spent.take(0, partial(embed, engine, texts, size))
            per_s = round(len(texts) / spent.seconds, 1)
            figures[str(size)][f"pytorch_{precision}_sentences_per_s"] = per_s
    return {"sizes": figures}


def _shares(ours: Spent, peaks: Sequence[Spent], sentences: int) -> dict[str, float]:
    """Sentences/s, and the share of the highest peak."""
    return {
        "sentences_per_s": round(sentences / ours.seconds, 1),
        "share": round(ours.rate / max(peak.rate for peak in peaks), 3),
        "cpu_share": round(ours.cpu_rate / max(peak.cpu_rate for peak in peaks), 3),
    }


def memory_mib(name: str, threads: int, path: Path) -> float:
    """The most memory of a process that does nothing but embed with so many threads.

    `name`: a precision, that of PyTorch begins with `pytorch_`.
    """
    library, _, precision = name.rpartition("_")
    load = "PyTorch" if library else "load_minilm"
    program = (
        "import resource, sys; from pathlib import Path; "
        "from tests.bench.embed import SENTENCES, PyTorch, load_minilm, sentences; "
        f"engine = {load}({threads}, precision={precision!r}); "
        "engine.embed(sentences(Path(sys.argv[1]), SENTENCES)); "
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True
    )
    return round(float(done.stdout), 1)


def embed(engine: Embeds, texts: Sequence[str], size: int) -> None:
    """In micro-batches of so many."""
    for first in range(0, len(texts), size):
        engine.embed(texts[first : first + size])


def in_process(threads: int, path: Path, *words: str) -> dict[str, Any]:
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
        *words,
    ]
    done = subprocess.run(
        command, env={**os.environ, **limits}, capture_output=True, text=True, check=True
    )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def medians(rounds: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Of each figure of the sizes."""
    return {
        size: {
            figure: statistics.median(turn["sizes"][size][figure] for turn in rounds)
            for figure in rounds[0]["sizes"][size]
        }
        for size in rounds[0]["sizes"]
    }


def main() -> int:
    """Measure, print, write; 0 also where a target is missed: the figures say so."""
    parser = command_line(__doc__, RESULTS)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--data", type=Path, default=SAMPLE)
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--pytorch", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one is not None:
        measure_one = measure_pytorch if given.pytorch else measure
        print(json.dumps(measure_one(given.one, sentences(given.data, SENTENCES))))
        return 0
    precisions = ["fp32", "bf16"] if bf16_problem() is None else ["fp32"]
    targets = TARGETS | (BF16_TARGETS if "bf16" in precisions else {})
    record = began("tests.bench.embed") | {"targets": targets, "sentences": SENTENCES}
    found: dict[int, list[dict[str, Any]]] = {threads: [] for threads in THREADS}
    for _ in range(given.rounds):
        for threads in THREADS:
            found[threads].append(in_process(threads, given.data))
            if has_pytorch():
                beside = in_process(threads, given.data, "--pytorch")["sizes"]
                for size, figures in beside.items():
                    found[threads][-1]["sizes"][size] |= figures
            print(threads, "threads", found[threads][-1], flush=True)
    of = {threads: medians(rounds) for threads, rounds in found.items()}
    report = record | {
        "threads": {
            str(threads): {"medians": of[threads], "rounds": found[threads]} for threads in THREADS
        },
        "memory_mib": {
            name: {str(threads): memory_mib(name, threads, given.data) for threads in THREADS}
            for name in [
                *precisions,
                *(f"pytorch_{precision}" for precision in PRECISIONS if has_pytorch()),
            ]
        },
    }
    write(given.out, report)
    figures = {"share": "share_at", "bf16_share": "bf16_share_at", "bf16_speedup": "speedup_at"}
    reached = {
        f"{name}_{size}": min(of[threads][str(size)][figure] for threads in THREADS)
        for figure, name in figures.items()
        for size in SIZES
        if figure in of[1][str(size)]
    }
    tell(targets, reached, given.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
