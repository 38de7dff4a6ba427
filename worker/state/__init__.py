"""Stored state: one ordered, byte-keyed row space per input partition.

`keys` defines the keys, `rows` the values, `store` the storage protocol and rows in memory.
`entity` reads and writes one entity's rows, `partition` those of the partition itself (applied
offset, output topic, fingerprint, garbage); `snapshot`, `listing`, `facet_members` and `verify`
read entities for people. Nothing here writes to a database: changes are returned as
`{key: value or None}`, because they must reach the changelog and the local rows in one commit.
"""

from worker.state.errors import (
    CorruptRow,
    DamagedDatabase,
    FingerprintMismatch,
    IncompleteState,
    StateError,
    UnknownFormat,
)
from worker.state.partition import Fingerprint, check_fingerprint, read_applied, read_fingerprint
from worker.state.rows import Applied
from worker.state.store import Changes, MemoryRows, Rows
from worker.state.verify import verify_partition

TABLE_NAME = "entities"  # of the one table, in databases and changelog

__all__ = [
    "TABLE_NAME",
    "Applied",
    "Changes",
    "CorruptRow",
    "DamagedDatabase",
    "Fingerprint",
    "FingerprintMismatch",
    "IncompleteState",
    "MemoryRows",
    "Rows",
    "StateError",
    "UnknownFormat",
    "check_fingerprint",
    "read_applied",
    "read_fingerprint",
    "verify_partition",
]
