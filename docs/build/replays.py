"""Results of long replays, and their estimated and actual times, from the record."""

from collections.abc import Mapping
from typing import Any

from docs.build.tables import markdown
from tests.bench.tables import RESULTS, read_record

REPLAYS = "replays.json"


def replays_table() -> str:
    """The recorded run; says so when there is none."""
    if not (RESULTS / REPLAYS).exists():
        return "Not recorded yet: run `make replay-proof`."
    return replays(read_record(REPLAYS))


def replays(record: Mapping[str, Any]) -> str:
    """The comparisons and the estimates, as Markdown."""
    proofs = markdown(
        ("history", "replay", "compared", "number", "different"),
        (
            (
                proof["history"],
                proof["proof"],
                proof["compared"],
                f"{proof['count']:,}",
                f"{proof['different']:,}",
            )
            for proof in record["proofs"]
        ),
    )
    foretold = markdown(
        ("history", "replay", "`--dry-run`", "took", "estimate of the rest, after a tenth", "took"),
        (
            (
                row["history"],
                row["replay"],
                *(_seconds(row[name]) for name in ("estimated", "took", "left_told", "left")),
            )
            for row in record["foretold"]
        ),
    )
    machine = record["machine"]
    histories = "\n".join(
        f"- {of['history']}: {of['reviews']:,} reviews in {of['events']:,} events; recorded "
        f"{of['date'][:10]} by "
        f"`{of['command']}`, while the machine had a load of {of['load_before']:.1f} from other "
        "work"
        for of in record["histories"]
    )
    recorded = (
        f"On {machine['cores']} cores ({machine['cpu']}), broker and workers "
        f"together:\n\n{histories}"
    )
    return f"{proofs}\n\nEstimated and actual times:\n\n{foretold}\n\n{recorded}"


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f} s"
