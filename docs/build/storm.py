"""The table of the recorded storm."""

from typing import Any

from docs.build.tables import markdown
from tests.bench.tables import RESULTS, read_record

STORM = "storm.json"
COUNTED = ("lost", "repeated", "wrong")


def storm_table() -> str:
    """What the recorded storm did and found."""
    if not (RESULTS / STORM).exists():
        return "Not recorded yet: run `make storm`."
    return storm(read_record(STORM))


def storm(record: dict[str, Any]) -> str:
    """The same of this record."""
    table = markdown(
        ("fault", "times"), ((kind, str(times)) for kind, times in record["kinds"].items())
    )
    ends = ", ".join(f"{fault} {times}" for fault, times in record["ends_in_order"].items())
    unexpected = len(record["unordered_ends"])
    found = _found({what: record[what] for what in COUNTED})
    accepted = "accepted" if record["promoted"] else "did **not** accept"
    return (
        f"{table}\n\n{record['faults_struck']:,} faults of seed {record['seed']} in "
        f"{record['seconds'] / 60:.0f} minutes, {record['events']:,} events: {found}. Unexpected "
        "ends "
        f"of workers: {unexpected or 'none'}; ends that a fault causes by design: "
        f"{ends or 'none'}. "
        f"Ready {record['seconds_to_ready']:.0f} s after the last fault. `promote` {accepted} the "
        f"replay.\n\n{_recorded(record)}"
    )


def _found(differences: dict[str, int]) -> str:
    """The counts of a verifier, in words."""
    found = "; ".join(f"{count} {what}" for what, count in differences.items() if count)
    return found or "nothing lost, nothing repeated, nothing wrong"


def _recorded(record: dict[str, Any]) -> str:
    machine = record["machine"]
    return f"Recorded {record['date'][:10]} on {machine['cores']} cores ({machine['cpu']})."
