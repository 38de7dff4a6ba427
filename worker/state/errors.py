"""Errors of stored rows.

SetupError
`-- StateError
    |-- CorruptRow            a row's bytes, or its relation to other rows, are wrong
    |-- DamagedDatabase       the files that hold the rows are wrong
    |-- UnknownFormat         a row was written by another version of the worker
    |-- NewerFormats          a partition has, or will have, such rows
    |-- IncompleteState       the changelog lost its beginning
    |-- FingerprintMismatch   the rows belong to another model, dimension, splitter, k, ...
    `-- PartitionsChanged     the rows belong to another number of input partitions
"""

from collections.abc import Mapping
from typing import Final

from worker.errors import SetupError
from worker.facets import PRESETS
from worker.facets.definitions import PRESET, read_definitions

NEW_EPOCH: Final = (
    "build a new epoch beside it: `coversumm-worker replay` with its own COVERSUMM_EPOCH"
)
"""How to rebuild summaries while the present ones stay; for messages."""
NEW_TOPIC: Final = (
    "let the producers write all events, each under its key, to a new input topic with the "
    f"partitions wanted, and {NEW_EPOCH} from that COVERSUMM_INPUT_TOPIC"
)
"""The solution when the keys of an input topic have moved to other partitions; for messages."""
SETTINGS: Final = {
    "model": "COVERSUMM_EMBEDDER and COVERSUMM_EMBEDDER_PRECISION",
    "dimension": "COVERSUMM_DIMENSION, or the embedder's own",
    "splitter": "of the worker's version",
    "k": "COVERSUMM_K",
    "distinct": "COVERSUMM_DISTINCT",
    "weigh": "COVERSUMM_WEIGH",
    "topic": "COVERSUMM_INPUT_TOPIC",
    "epoch": "COVERSUMM_EPOCH",
    "algorithm": "of the worker's version",
    "facets": "COVERSUMM_FACETS; presets change with the version",
    "language": "of the worker's version and its extra `language`",
}
"""The source of each field of the fingerprint, except the partition count."""
OF_THE_VERSION: Final = {"splitter", "algorithm", "language"}  # fields that no setting changes
RESTORE: Final = (
    "Operator action: run `coversumm-worker reset --local` on the stopped worker's data directory "
    "and start it again; the state is restored from the changelog. If it happens again, "
    f"{NEW_EPOCH}."
)


class StateError(SetupError):
    """The stored state cannot be used as it is. The message ends with what to do."""


class CorruptRow(StateError):
    """A row does not decode, or contradicts another. The message names the row."""

    def __init__(self, row: str, problem: str) -> None:
        super().__init__(f"corrupt state row ({row}): {problem}. {RESTORE}")
        self.row = row
        self.problem = problem


class DamagedDatabase(StateError):
    """The files of a partition's database are damaged. The message names their folder."""

    def __init__(self, folder: str, problem: str) -> None:
        super().__init__(f"the database {folder} is damaged: {problem}. {RESTORE}")
        self.folder = folder
        self.problem = problem


class UnknownFormat(StateError):
    """A row has a format version that this worker does not know."""

    def __init__(self, row: str, found: int, newest: int) -> None:
        super().__init__(
            f"state row ({row}) has format {found}, the newest that this worker knows is {newest}. "
            f"Operator action: run the version of the worker that wrote it, or {NEW_EPOCH}; if no "
            "other version ever ran here the row is damaged: `coversumm-worker reset --local`."
        )
        self.row = row
        self.found = found


class NewerFormats(StateError):
    """A newer version of the worker writes the partition's rows.

    `formats`: by kind of row its format and the newest that is known, 0 for an unknown kind.
    """

    def __init__(self, formats: Mapping[str, tuple[int, int]]) -> None:
        listed = "; ".join(
            f"{kind}: format {found}, the newest that this worker knows is {newest or 'none'}"
            for kind, (found, newest) in formats.items()
        )
        super().__init__(
            f"a newer version of the worker wrote the stored state ({listed}). "
            f"Operator action: run that version again, or {NEW_EPOCH}."
        )


class IncompleteState(StateError):
    """There are rows, but no fingerprint, which every partition's first commit writes."""

    def __init__(self) -> None:
        super().__init__(
            "the stored state has no fingerprint, which every partition's first commit writes: the "
            "beginning of its changelog is gone (topic deleted and recreated, or records deleted). "
            f"Operator action: start over with `coversumm-worker reset`, or {NEW_EPOCH}."
        )


class FingerprintMismatch(StateError):
    """The stored rows were made under other settings."""

    def __init__(
        self, differences: Mapping[str, tuple[object, object]], whose: str = "the stored state"
    ) -> None:
        listed = "; ".join(
            f"{name}: stored {_shown(name, old)}, configured {_shown(name, new)}{_by_setting(name)}"
            for name, (old, new) in differences.items()
        )
        partitions = differences.get("partitions")
        steps = ["put the settings back"] if differences.keys() - OF_THE_VERSION else []
        if differences.keys() & OF_THE_VERSION:
            steps.append("run the version of the worker that built it")
        advice = NEW_TOPIC if partitions else f"{' and '.join(steps)}, or {NEW_EPOCH}"
        super().__init__(
            f"{whose} was built with other settings ({listed}). Operator action: {advice}."
        )
        self.differences = dict(differences)


class PartitionsChanged(StateError):
    """The input topic's partition count differs from its state's: keys have moved."""

    def __init__(self, topic: str, stored: int, found: int) -> None:
        super().__init__(
            f"the input topic {topic} has {found} partitions, and its state was built with "
            f"{stored}: partitions cannot be added to a topic under a running epoch, "
            "because its keys then go to other partitions than their state, "
            "and Kafka cannot remove partitions. "
            f"Operator action: {NEW_TOPIC}."
        )


def _shown(field: str, value: object) -> str:
    """The value; of facets the preset with this identity."""
    if field != "facets" or value is None:
        return repr(value)
    presets = (f"{PRESET}{name}" for name in PRESETS)
    found = next((preset for preset in presets if read_definitions(preset).identity == value), None)
    return found or f"a file, or a preset of another version, with the identity {value}"


def _by_setting(name: str) -> str:
    return f" ({SETTINGS[name]})" if name in SETTINGS else ""
