"""What can be wrong with stored rows.

SetupError
`-- StateError
    |-- CorruptRow            a row's bytes, or its relation to other rows, are not what was written
    |-- DamagedDatabase       the files that hold the rows are not what was written
    |-- UnknownFormat         a row was written by another version of the worker
    |-- IncompleteState       rows that every partition begins with are missing: its changelog lost its beginning
    |-- FingerprintMismatch   the rows belong to another model, dimension, splitter, k, ...
    `-- PartitionsChanged     the rows belong to fewer or more partitions of the input topic
"""

from collections.abc import Mapping
from typing import Final

from worker.errors import SetupError

NEW_EPOCH: Final = (
    "build a new epoch beside it: `coversumm-worker replay` with its own COVERSUMM_EPOCH"
)
"""How summaries are built again while the present ones stay: the one place that says it."""
NEW_TOPIC: Final = (
    "let the producers write all events, each under its key, to a new input topic with the partitions wanted, and "
    f"{NEW_EPOCH} from that COVERSUMM_INPUT_TOPIC"
)
"""The way out where the keys of an input topic have moved."""
SETTINGS: Final = {
    "model": "COVERSUMM_EMBEDDER",
    "dimension": "COVERSUMM_DIMENSION, or the embedder's own",
    "splitter": "of the worker's version",
    "k": "COVERSUMM_K",
    "distinct": "COVERSUMM_DISTINCT",
    "topic": "COVERSUMM_INPUT_TOPIC",
    "epoch": "COVERSUMM_EPOCH",
    "algorithm": "of the worker's version",
}
"""What decides about each field of the fingerprint but the partition count."""
RESTORE: Final = (
    "Operator action: run `coversumm-worker reset --local` on the stopped worker's data directory and start it "
    f"again; the state is restored from the changelog. If it happens again, {NEW_EPOCH}."
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
    """The files of a partition's database are not what RocksDB wrote. The message names their
    folder.
    """

    def __init__(self, folder: str, problem: str) -> None:
        super().__init__(f"the database {folder} is damaged: {problem}. {RESTORE}")
        self.folder = folder
        self.problem = problem


class UnknownFormat(StateError):
    """A row carries a format version this worker does not know."""

    def __init__(self, row: str, found: int, newest: int) -> None:
        super().__init__(
            f"state row ({row}) has format {found}, the newest that this worker knows is {newest}. Operator action: run "
            f"the version of the worker that wrote it, or {NEW_EPOCH}; if no other version ever ran here "
            "the row is damaged: `coversumm-worker reset --local`."
        )
        self.row = row
        self.found = found


class IncompleteState(StateError):
    """Rows are there, but not the fingerprint that every partition's first commit wrote."""

    def __init__(self) -> None:
        super().__init__(
            "the stored state has no fingerprint, which every partition's first commit writes: the beginning of its "
            "changelog is gone (topic deleted and created again, records deleted). Operator action: start over with "
            f"`coversumm-worker reset`, or {NEW_EPOCH}."
        )


class FingerprintMismatch(StateError):
    """The stored rows were made under other settings: continuing would mix two kinds of
    summaries.
    """

    def __init__(
        self, differences: Mapping[str, tuple[object, object]], whose: str = "the stored state"
    ) -> None:
        listed = "; ".join(
            f"{name}: stored {old!r}, configured {new!r}{_by_setting(name)}"
            for name, (old, new) in differences.items()
        )
        partitions = differences.get("partitions")
        advice = f"put the settings back, or {NEW_EPOCH}" if partitions is None else NEW_TOPIC
        super().__init__(
            f"{whose} was built with other settings ({listed}). Operator action: {advice}."
        )
        self.differences = dict(differences)


class PartitionsChanged(StateError):
    """The input topic has another number of partitions than its state: keys moved, their state did
    not.
    """

    def __init__(self, topic: str, stored: int, found: int) -> None:
        super().__init__(
            f"the input topic {topic} has {found} partitions, and its state was built with {stored}: partitions cannot be added "
            "to a topic under a running epoch, for its keys go to other partitions then than their state, and Kafka does not "
            f"take them back. Operator action: {NEW_TOPIC}."
        )


def _by_setting(name: str) -> str:
    return f" ({SETTINGS[name]})" if name in SETTINGS else ""
