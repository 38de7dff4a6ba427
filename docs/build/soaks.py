"""Results of the long runs, from their records: with faults, without faults, without a broker."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

from docs.build.tables import markdown
from tests.bench.tables import RESULTS, read_record

QUIET_SOAK = "quiet_soak.json"
RESTARTS = "restarts.json"
STORM = "storm.json"
COUNTED = ("lost", "repeated", "wrong")


def soak_line() -> str:
    """What the recorded soak did and found."""
    record = read_record("soak.json")
    faults = record["faults"]
    return (
        f"{record['events']:,} events under {faults['kill']} `kill -9`, {faults['pause']} freezes "
        "and "
        f"{faults['terminate']} SIGTERM: "
        f"{_found(record['verifier']['differences'])}.\n\n{_recorded(record)}"
    )


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


def outage_table() -> str:
    """What idle workers showed during an outage of the broker, and how the busy one ended."""
    record = read_record("outage.json")
    phases = record["phases"]
    table = markdown(
        (
            "the broker",
            "`/readyz` 503",
            "`/healthz` 200",
            "log lines of a worker",
            "alert fires after",
            "ready again after",
        ),
        (_idle(phase) for phase in phases),
    )
    busy = "; ".join(_busy(phase) for phase in phases)
    return (
        f"{table}\n\nThe busy worker cannot commit during that time, and was restarted after each "
        f"end: {busy}. "
        f"Of {record['events_sent']:,} events: "
        f"{_found({what: record[what] for what in COUNTED})}.\n\n{_recorded(record)}"
    )


def restarts_table() -> str:
    """How long partitions stop when workers restart, by kind of members and number of standbys."""
    if not (RESULTS / RESTARTS).exists():
        return "Not recorded yet."
    record = read_record(RESTARTS)
    by_what: dict[tuple[str, int], dict[str, dict[str, Any]]] = {}
    for row in record["rows"]:
        by_what.setdefault((row["event"], row["standbys"]), {})[row["members"]] = row
    table = markdown(
        ("what happens", "standbys", "dynamic: any", "its others", "static: any", "its others"),
        (
            (event, str(standbys), *_pauses(rows["dynamic"]), *_pauses(rows["static"]))
            for (event, standbys), rows in by_what.items()
        ),
    )
    return f"{table}\n\n{_outcome(record)}"


def _outcome(record: dict[str, Any]) -> str:
    times, found = record["rows"][0]["rounds"], _found({what: record[what] for what in COUNTED})
    rounds = f"{times} round{'' if times == 1 else 's, medians'}"
    return f"{record['events']:,} events, {rounds}: {found}.\n\n{_recorded(record)}"


def _pauses(row: dict[str, Any]) -> tuple[str, str]:
    return f"{row['any']:.1f} s", "-" if row["others"] is None else f"{row['others']:.1f} s"


def quiet_soak_line() -> str:
    """What workers logged on a healthy broker."""
    if not (RESULTS / QUIET_SOAK).exists():
        return "Not recorded yet."
    return quiet_soak(read_record(QUIET_SOAK))


def quiet_soak(record: dict[str, Any]) -> str:
    """The same of this record."""
    workers = record["workers"]
    loud = sum(len(worker["loud"]) for worker in workers.values())
    idle = max(worker["info_lines_per_hour"] for name, worker in workers.items() if name != "busy")
    return (
        f"{record['minutes']:.0f} minutes, {record['events_sent']:,} events: {loud or 'no'} "
        f"line{'' if loud == 1 else 's'} "
        f"at WARNING or above, at most {idle:.0f} lines per hour at INFO from an idle worker; "
        f"{_found({what: record[what] for what in COUNTED})}.\n\n{_recorded(record)}"
    )


def _idle(phase: dict[str, Any]) -> Iterable[str]:
    """A phase's cells for the workers without load."""
    looks = phase["looks"]
    names = [name for name in phase["ready_again_after_s"] if name != "busy"]
    seen = [look[name] for look in looks for name in names]
    firing = [
        look["at_s"] for look in looks if all(look[name]["alert"] == "firing" for name in names)
    ]
    lines = max(sum(sum(look[name]["log_lines"].values()) for look in looks) for name in names)
    return (
        f"{phase['broker']} for {phase['seconds']} s",
        f"{sum(one['readyz'].startswith('503') for one in seen)} of {len(seen)} looks",
        f"{sum(one['healthz'].startswith('200') for one in seen)} of {len(seen)}",
        f"{lines}",
        f"{firing[0]:.0f} s" if firing else "-",
        f"{max(phase['ready_again_after_s'][name] for name in names):.0f} s",
    )


def _busy(phase: dict[str, Any]) -> str:
    """How the worker under load ended in a phase."""
    ends = Counter(phase["exits"]["busy"])
    codes = ", ".join(
        f"{code} ({count} times)" if count > 1 else f"{code}" for code, count in ends.items()
    )
    return (
        f"{phase['broker']}, {f'exits with {codes}' if codes else 'no exit'}, "
        f"ready {phase['ready_again_after_s']['busy']:.0f} s after the broker was back"
    )


def _found(differences: dict[str, int]) -> str:
    """The counts of a verifier, in words."""
    found = "; ".join(f"{count} {what}" for what, count in differences.items() if count)
    return found or "nothing lost, nothing repeated, nothing wrong"


def _recorded(record: dict[str, Any]) -> str:
    machine = record["machine"]
    return f"Recorded {record['date'][:10]} on {machine['cores']} cores ({machine['cpu']})."
