"""What replays at length came to, and how well their time was foretold, from the record."""

from collections.abc import Mapping
from typing import Any

from docs.build.tables import markdown
from tests.bench.tables import RESULTS, read_record

REPLAYS = "replays.json"


def replays_table() -> str:
    """The recorded run; says so when there is none."""
    if not (RESULTS / REPLAYS).exists():
        return "Not recorded yet: `make replay-proof` does it."
    return replays(read_record(REPLAYS))


def replays(record: Mapping[str, Any]) -> str:
    """What was compared, and what was foretold, as Markdown."""
    proofs = markdown(
        ("history", "replay", "compared", "of these", "different"),
        (
            (
                one["history"],
                one["proof"],
                one["compared"],
                f"{one['count']:,}",
                f"{one['different']:,}",
            )
            for one in record["proofs"]
        ),
    )
    foretold = markdown(
        ("history", "replay", "`--dry-run`", "took", "time left after a tenth", "was"),
        (
            (
                one["history"],
                one["replay"],
                *(_seconds(one[name]) for name in ("estimated", "took", "left_told", "left")),
            )
            for one in record["foretold"]
        ),
    )
    machine = record["machine"]
    histories = "\n".join(
        f"- {one['history']}: {one['reviews']:,} reviews in {one['events']:,} events; recorded {one['date'][:10]} by "
        f"`{one['command']}`, while the machine had a load of {one['load_before']:.1f} from other work"
        for one in record["histories"]
    )
    recorded = f"On {machine['cores']} cores ({machine['cpu']}), broker and workers together:\n\n{histories}"
    return (
        f"{proofs}\n\nHow long it takes, as said before and meanwhile:\n\n{foretold}\n\n{recorded}"
    )


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f} s"
