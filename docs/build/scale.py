"""The figures of docs/scale.md, from their records."""

from typing import Any

from docs.build.tables import markdown
from tests.bench.tables import machine_of, read_record

WITHOUT_EMBEDDINGS = "without embeddings"


def rates_table() -> str:
    """What one worker does in a second: events with embeddings, texts, restored rows."""
    worker, replays = read_record("worker.json"), read_record("replays.json")
    texts = max(
        (one for one in replays["foretold"] if one["replay"].endswith(WITHOUT_EMBEDDINGS)),
        key=_reviews,
    )
    rows = worker["restore"]["restore_rows_per_s"]
    table = markdown(
        ("one worker, beside its broker", "a second"),
        (
            (
                "events of one sentence that bring their embeddings",
                f"{worker['throughput']['events_per_s']:,.0f}",
            ),
            (
                f"reviews of {texts['history']} that it embeds itself",
                f"{_reviews(texts) / texts['took']:,.0f}",
            ),
            (
                "rows of 1 KB restored",
                f"{rows:,.0f} (1 GB in {1e9 / worker['restore']['row_bytes'] / rows:.0f} s)",
            ),
        ),
    )
    return (
        f"{table}\n\n`make bench-worker` on {machine_of(worker)}; the reviews `make replay-proof` on {machine_of(replays)}. "
        "Measure on yours: `replay --dry-run` says how long your own events take."
    )


def pauses_table() -> str:
    """How long partitions stop when workers come and go."""
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
            ("SIGTERM and start", "one stopped and started"),
            ("kill -9 and start", "one killed and started"),
            ("rolling update", "all started again, one after the other"),
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
    return f"{table}\n\n`make restarts` on {machine_of(restarts)}; the last line `make bench-streams` on {machine_of(faults)}."


def disk_table() -> str:
    """Bytes a sentence in a volume and in the changelog."""
    record = read_record("disk.json")
    sentences, dimension = record["sentences"], record["dimension"]
    rows = [
        (
            one["step"],
            *(
                f"{one[name] / sentences:,.0f}"
                for name in ("volume_bytes", "most_bytes", "changelog_bytes")
            ),
        )
        for one in record["rows"]
    ]
    table = markdown(("bytes a sentence", "volume", "at most, meanwhile", "changelog"), rows)
    each = record["rows"][0]["volume_bytes"] / sentences
    return (
        f"{sentences:,} sentences of {dimension} numbers, which are {2 * dimension} bytes, and of a line of text; "
        f"`make bench-disk` on {machine_of(record)}, before Kafka compacted anything:\n\n{table}\n\n"
        f"So 50 million such sentences are about {50e6 * each / 1e9:.0f} GB of state, once."
    )


def _reviews(replay: dict[str, Any]) -> int:
    """Of `of 10,000 reviews without embeddings`."""
    return int(replay["replay"].split()[1].replace(",", ""))


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f} s"
