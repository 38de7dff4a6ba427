"""Five numbers of the results, from the records, each with the path that it measures."""

from docs.build.tables import markdown
from tests.bench.tables import read_record


def numbers_table() -> str:
    """Five numbers: the algorithm, the worker three times, the fault suite."""
    core, worker, text, faults = (
        read_record(f"{name}.json")
        for name in ("core_amazon_datafiniti", "worker", "text", "faults")
    )
    (stream,) = {row["stream"] for row in core["rows"] if " reviews, " in row["stream"]}
    of = {row["contender"]: row["us_per_event"] for row in core["rows"] if row["stream"] == stream}
    sentences = stream.split(", ", 2)[-1].partition(" x ")[0]
    found = ", ".join(
        f"{sum(row[what] for row in faults['rows']):,} {what}"
        for what in ("lost", "repeated", "wrong")
    )
    rows = (
        (
            f"the algorithm, each event of {sentences} real sentences",
            f"{of['ours, native code, event by event']:.0f} µs, without native code "
            f"{of['ours, event by event']:,.0f} (FAISS: {of['FAISS flat, each event']:,.0f})",
        ),
        (
            "the whole worker, from Kafka to Kafka",
            f"{worker['throughput']['events_per_s']:,.0f} events/s",
        ),
        (
            "the same from texts, with their embedding",
            f"{text['worker_per_s']:.0f} reviews/s; `summarize`: {text['summarize_per_s']:.0f}",
        ),
        (
            f"the worker's first touch of an entity of {worker['cold_entity']['sentences']:,} "
            "sentences",
            f"{worker['cold_entity']['cold_touch_s']:.1f} s",
        ),
        (f"{faults['faults']:,} faults under {faults['events']:,} events, real Kafka", found),
    )
    return markdown(("path", "number"), rows)
