"""How near the whole path of text comes to the engine's own rate, in fp32 and, where the processor
has it, in bf16: reviews/s of the engine alone, of a worker on a real Kafka and of `summarize`, in
turns. `make bench-text-precision`.

    python -m tests.bench.text_precision [--rounds N] [--reviews N] [--data FILE] [--out FILE]

As `tests.bench.text` measures; the engine alone embeds the sentences of the same reviews on all
cores, one that is repeated within 1,024 once, as a micro-batch does. One thread splits the texts
and tokenizes. No rate includes the start of a process: that of `summarize` is measured with one
review, and subtracted.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.bench.text import event, recorded, summarized
from tests.bench.worker.contenders import OURS, Contender
from tests.bench.worker.measure import settings
from tests.bench.worker.throughput import turn
from tests.bench.worker.workloads import Workload
from tests.harness.broker import KafkaBroker
from tests.harness.load import Review, send
from tests.harness.workers import pipeline
from worker.text.embedders import available_cores
from worker.text.minilm import load_minilm
from worker.text.onnx import POOL
from worker.text.openvino import bf16_problem
from worker.text.splitting import split_sentences

REVIEWS = 4000
RESULTS = Path(__file__).with_name("results") / "text_precision.json"


def workload(precision: str) -> Workload:
    """Reviews as text, embedded in this precision."""
    own = {"embedder": "onnx", "embedder_precision": precision}
    return Workload(f"text-{precision}", "reviews as text", lambda *_: iter(()), own)


def alone(reviews: Sequence[Review], precision: str) -> dict[str, float]:
    """Reviews/s of the engine alone on all cores, after its start; microseconds of one thread to
    split and to tokenize a review.
    """
    engine = load_minilm(available_cores(), precision=precision)
    began_s = time.perf_counter()
    sentences = [one for review in reviews for one in split_sentences(review.text, 2000)]
    split_s = time.perf_counter()
    engine.tokens(sentences)
    tokenized_s = time.perf_counter()
    engine.embed(sentences[:POOL])  # the first call is slower
    warm_s = time.perf_counter()
    for first in range(0, len(sentences), POOL):
        engine.embed(list(dict.fromkeys(sentences[first : first + POOL])))
    return {
        "engine_per_s": round(len(reviews) / (time.perf_counter() - warm_s), 1),
        "split_us": round(1e6 * (split_s - began_s) / len(reviews), 1),
        "tokenize_us": round(1e6 * (tokenized_s - split_s) / len(reviews), 1),
    }


def measured(reviews: Sequence[Review], rounds: int, folder: Path) -> dict[str, Any]:
    """By precision the medians of all, the worker's and `summarize`'s shares of the engine's rate,
    and each turn.
    """
    sent = [event(review) for review in reviews]
    file, first = folder / "events.jsonl", folder / "event.jsonl"
    file.write_bytes(b"\n".join(one.value or b"" for one in sent))
    first.write_bytes(sent[0].value or b"")
    precisions = ["fp32", "bf16"] if bf16_problem() is None else ["fp32"]
    turns: dict[str, list[dict[str, Any]]] = {precision: [] for precision in precisions}
    split_sentences("Loads its model at first.", 2000)
    with (
        KafkaBroker(folder / "broker") as broker,
        pipeline(broker, "bench-text-precision", folder, settings=settings()) as site,
    ):
        send(broker.bootstrap_servers, site.input_topic, sent)
        for number in range(rounds):
            for precision, of in turns.items():
                contender = Contender(f"{OURS}-{precision}")
                found = turn(site, contender, workload(precision), number)
                start_s = summarized(first, folder / "body.jsonl", precision)
                seconds = summarized(file, folder / "bodies.jsonl", precision) - start_s
                found |= {
                    "worker_per_s": found["events_per_s"],
                    "summarize_per_s": round((len(reviews) - 1) / seconds, 1),
                    "summarize_start_s": round(start_s, 2),
                    **alone(reviews, precision),
                }
                of.append(found)
                print(precision, found, flush=True)
    names = ("worker_per_s", "summarize_per_s", "engine_per_s", "split_us", "tokenize_us")
    names += ("process_us_per_event", "commit_us_per_event", "cpu_us_per_event")
    names += ("summarize_start_s",)
    return {
        "reviews": len(reviews),
        "precisions": {
            precision: {name: statistics.median(one[name] for one in of) for name in names}
            | {
                f"{name}_of_engine": round(
                    statistics.median(one[f"{name}_per_s"] / one["engine_per_s"] for one in of), 3
                )
                for name in ("worker", "summarize")
            }
            | {"turns": of}
            for precision, of in turns.items()
        },
    }


if __name__ == "__main__":
    recorded("tests.bench.text_precision", __doc__, RESULTS, measured, REVIEWS)
