"""The plan of a replay: request, settings and ranges, fixed once at the start."""

from collections.abc import Mapping

from msgspec import DecodeError, Struct, json

from worker.errors import SetupError
from worker.replay.archive_check import Holes
from worker.replay.ranges import Range

FORMAT = 1
MAPPING, NONE = "mapping", "none"  # in `made_with`: the digest of the topic's mapping
OUTPUT_FORMAT = "output format"  # in `made_with`: kept changes are stored in it


class ReplayPlan(Struct, frozen=True, kw_only=True):
    """The plan that all processes and restarts of a replay share.

    `request`, `made_with` and `read_with` must be the same for a resume, by name.
    """

    format: int = FORMAT
    begun: str
    request: dict[str, str]
    made_with: dict[str, str]
    read_with: dict[str, str] = {}
    whole: bool  # whether a worker may continue from its state
    topic: str
    topic_id: str
    output_topic: str | None
    facets_topic: str | None = None  # where facets are published, if any
    ranges: dict[str, Range]
    holes: Holes = Holes()  # what the files lack
    filled_from: dict[str, int] = {}  # offsets from which their gaps are read from the topic
    gone: dict[str, int] = {}  # first offsets left, where records before make it partial

    @property
    def by_partition(self) -> dict[int, Range]:
        """The ranges."""
        return {int(partition): span for partition, span in self.ranges.items()}

    @property
    def size(self) -> int:
        """Offsets to read."""
        return sum(span.size for span in self.ranges.values())

    def encode(self) -> bytes:
        """The plan in JSON."""
        return json.encode(self)


def decode_plan(value: bytes, where: str) -> ReplayPlan:
    """Inverse of `ReplayPlan.encode`. Raises SetupError."""
    try:
        plan = json.decode(value, type=ReplayPlan)
    except DecodeError as error:
        raise SetupError(
            f"{where} holds no plan of a replay ({error}): start over with --restart"
        ) from error
    if plan.format != FORMAT:
        raise SetupError(
            f"{where} was written by another version of the worker: finish the replay with that "
            "one, or start over with --restart"
        )
    return plan


def shown_gone(gone: Mapping[str, int]) -> str:
    """First offsets that are left, for people.

    >>> shown_gone({"0": 604, "3": 7})
    'partition 0 before offset 604, partition 3 before offset 7'
    """
    return ", ".join(f"partition {p} before offset {offset}" for p, offset in gone.items())


def refuse_other(
    name: str,
    plan: ReplayPlan,
    request: Mapping[str, str],
    settings: Mapping[str, str],
    read_with: Mapping[str, str],
) -> None:
    """Raise SetupError, with the differences, if another replay of this name has begun."""
    differences = [
        f"{what} was {before.get(what, 'unknown')} and is {now}"
        for before, after in (
            (plan.request, request),
            (plan.made_with, settings),
            (plan.read_with, read_with),
        )
        for what, now in after.items()
        if before.get(what) != now
    ]
    if differences:
        raise SetupError(
            f"the replay {name} was begun on {plan.begun} as another one: "
            f"{'; '.join(differences)}. Give this one its own --name, or start over with --restart"
        )
