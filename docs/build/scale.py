"""The figures of docs/scale.md, from their records."""

from typing import Any

from docs.build.tables import markdown
from tests.bench.tables import machine_of, read_record

WITHOUT_EMBEDDINGS = "without embeddings"


def rates_table() -> str:
    """Events with embeddings, texts and restored rows of one worker per second."""
    worker, replays = read_record("worker.json"), read_record("replays.json")
    texts = max(
        (row for row in replays["foretold"] if row["replay"].endswith(WITHOUT_EMBEDDINGS)),
        key=_reviews,
    )
    rows = worker["restore"]["restore_rows_per_s"]
    table = markdown(
        ("one worker, next to its broker", "per second"),
        (
            (
                "events of one sentence that bring their embeddings",
                f"{worker['throughput']['events_per_s']:,.0f}",
            ),
            (
                f"reviews of {texts['history']} that it embeds",
                f"{_reviews(texts) / texts['took']:,.0f}",
            ),
            (
                "rows of 1 KB restored",
                f"{rows:,.0f} (1 GB in {1e9 / worker['restore']['row_bytes'] / rows:.0f} s)",
            ),
        ),
    )
    return (
        f"{table}\n\n`make bench-worker` on {machine_of(worker)}; the reviews `make replay-proof` "
        f"on {machine_of(replays)}. "
        "Measure on your machines: `replay --dry-run` estimates the time for your events."
    )


def first_build_table() -> str:
    """Core-hours per million reviews of a worker that embeds, and of one that finds vectors."""
    record = read_record("text.json")
    cores = record["machine"]["cores"]
    rows = [
        (name, f"{record[rate]:,.0f}", f"{1e6 * cores / record[rate] / 3600:.2f}")
        for name, rate in (
            ("a worker or replay embeds them", "worker_per_s"),
            ("a worker or replay finds their vectors", "finding_per_s"),
        )
    ]
    table = markdown(("reviews of three sentences", "per second", "core-hours per million"), rows)
    hours = 1e6 * cores / record["worker_per_s"] / 3600
    return (
        f"{table}\n\n`make bench-text` on {machine_of(record)}, all of them busy. So at a price P "
        f"per core-hour the first build of a million reviews costs {hours:.1f} P. On n cores it "
        f"takes {hours:.1f} / n hours."
    )


RESTARTS = {
    "an instance stopped (SIGTERM) and started": "one stopped and restarted",
    "an instance killed and started": "one killed and restarted",
    "all instances restarted one after the other": "all restarted, one after the other",
    "an instance killed, back after 15 s": "one killed, away for longer than its session of 10 s",
}


def pauses_table() -> str:
    """How long partitions stop when workers restart or disappear."""
    record = read_record("kafka_streams.json")
    seconds = {
        row["fault"]: row["worker"]["median_s"] for row in record["rows"] if not row["standbys"]
    }
    table = markdown(
        ("of three workers", "longest time without a commit"),
        ((name, f"{seconds[fault]:.1f} s") for fault, name in RESTARTS.items()),
    )
    return f"{table}\n\n`make bench-peers ONLY=pauses` on {machine_of(record)}."


def _reviews(replay: dict[str, Any]) -> int:
    """Of `of 10,000 reviews without embeddings`."""
    return int(replay["replay"].split()[1].replace(",", ""))
