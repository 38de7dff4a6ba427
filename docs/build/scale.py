"""The figures of docs/scale.md, from their records."""

from typing import Any

from docs.build.tables import markdown
from tests.bench.tables import machine_of, read_record

WITHOUT_EMBEDDINGS = "without embeddings"


def rates_table() -> str:
    """Events with embeddings, texts and restored rows of one worker per second."""
    worker, replays = read_record("worker.json"), read_record("replays.json")
    texts = max(
        (one for one in replays["foretold"] if one["replay"].endswith(WITHOUT_EMBEDDINGS)),
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


def pauses_table() -> str:
    """How long partitions stop when workers restart or disappear."""
    restarts, faults = read_record("restarts.json"), read_record("kafka_streams.json")
    found = {
        (row["event"], row["standbys"]): row
        for row in restarts["rows"]
        if row["members"] == "static"
    }
    rows = [
        (
            name,
            *(f"{found[event, standbys]['any']:.1f} s" for standbys in (0, 1)),
            _seconds(found[event, 0]["others"]),
        )
        for event, name in (
            ("SIGTERM and start", "one stopped and restarted"),
            ("kill -9 and start", "one killed and restarted"),
            ("rolling update", "all restarted, one after the other"),
        )
    ]
    (away,) = [
        row for row in faults["rows"] if row["fault"] == "an instance killed, back after 15 s"
    ]
    assert away["standbys"] == 0
    rows.append(
        (
            "one killed, away for longer than its session of 10 s",
            _seconds(away["worker"]["median_s"]),
            "-",
            "-",
        )
    )
    table = markdown(
        ("of three workers", "no standby", "one standby", "the others' partitions"), rows
    )
    return (
        f"{table}\n\n`make restarts` on {machine_of(restarts)}; the last line `make "
        f"bench-streams` on {machine_of(faults)}."
    )


def _reviews(replay: dict[str, Any]) -> int:
    """Of `of 10,000 reviews without embeddings`."""
    return int(replay["replay"].split()[1].replace(",", ""))


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f} s"
