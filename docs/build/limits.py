"""Every limit of a worker: its setting, and what happens above it.

Hits are counted in `coversumm_limit_hits_total` under the limit's name, except for limits that end
the process. Those show in a log line and an exit code.
"""

from typing import Final, NamedTuple

from docs.build.tables import markdown
from worker.limits import Limit
from worker.settings import PREFIX, settings_by_field


class LimitRow(NamedTuple):
    """A limit as the reference shows it. `variables`: settings, without their prefix."""

    name: str
    variables: tuple[str, ...]
    beyond: str
    seen_in: str


def _counted(limit: Limit, beyond: str, *variables: str) -> LimitRow:
    return LimitRow(limit.value, variables, beyond, "the counter")


_EXIT: Final = "a log line, exit code 3"

LIMITS: Final = (
    _counted(Limit.EVENT_BYTES, "dead letter `too_large`", "MAX_EVENT_BYTES"),
    _counted(Limit.TEXT_BYTES, "dead letter `text_too_long`", "MAX_TEXT_BYTES"),
    _counted(
        Limit.SENTENCE_CHARS,
        "split there; with its own embedding: dead letter `text_too_long`",
        "MAX_SENTENCE_CHARS",
    ),
    _counted(
        Limit.SENTENCES_PER_REVIEW, "dead letter `too_many_sentences`", "MAX_SENTENCES_PER_REVIEW"
    ),
    _counted(
        Limit.SENTENCES_PER_DELETION,
        "dead letter `too_many_sentences`",
        "MAX_SENTENCES_PER_DELETION",
    ),
    _counted(
        Limit.SENTENCES_PER_ENTITY,
        "dead letter `entity_full`; deletions always apply",
        "MAX_SENTENCES_PER_ENTITY",
    ),
    _counted(
        Limit.MESSAGE_BYTES,
        "a dead letter's value is cut to its first 64 KiB, then headers are dropped; a summary "
        "never reaches it",
        "MAX_MESSAGE_BYTES",
    ),
    _counted(Limit.BATCH_EVENTS, "the rest is the next micro-batch", "BATCH_SIZE"),
    _counted(
        Limit.BATCH_BYTES,
        "the rest is the next micro-batch; a larger event goes alone",
        "BATCH_BYTES",
    ),
    _counted(
        Limit.BATCH_SENTENCES,
        "the rest is the next micro-batch; a larger event goes alone",
        "BATCH_SENTENCES",
    ),
    _counted(
        Limit.BATCH_TIME,
        "the rest is the next micro-batch; an event that is likely to take longer goes alone, in "
        "parts that count as progress; the same if writing its transaction is likely to take half "
        "of COVERSUMM_TRANSACTION_TIMEOUT_MS",
        "BATCH_MS",
    ),
    _counted(
        Limit.TRANSACTION_RECORDS,
        "the micro-batch is halved, down to one event",
        "TRANSACTION_RECORDS",
    ),
    _counted(
        Limit.TRANSACTION_BYTES, "the micro-batch is halved, down to one event", "TRANSACTION_BYTES"
    ),
    _counted(
        Limit.IN_FLIGHT,
        "publishing waits until the broker has taken some",
        "IN_FLIGHT_MESSAGES",
        "IN_FLIGHT_BYTES",
    ),
    _counted(
        Limit.CACHE_BYTES,
        "the least recently used entity is evicted, and read again when needed; a micro-batch that "
        "reads a quarter of it, and at least 64 MiB, ends there",
        "CACHE_BYTES",
    ),
    LimitRow(
        "rocksdb_bytes",
        ("ROCKSDB_BYTES",),
        "blocks are evicted, write buffers flushed",
        "the gauge `coversumm_rocksdb_bytes`",
    ),
    LimitRow(
        "vector_store_bytes",
        ("VECTOR_STORE_BYTES",),
        "the oldest vectors are dropped, and computed again when needed",
        "the gauge `coversumm_vector_store_bytes`",
    ),
    LimitRow(
        "commit",
        ("COMMIT_TIMEOUT_MS",),
        "the commit is in doubt: the worker determines whether it happened, then continues",
        "the counter `coversumm_commits_in_doubt_total`, a log line",
    ),
    LimitRow("shutdown", ("SHUTDOWN_TIMEOUT_MS",), "the worker exits", _EXIT),
    LimitRow("stall", ("STALL_TIMEOUT_MS",), "the worker exits", _EXIT),
)


def limits_table() -> str:
    """All limits, with their settings and defaults."""
    defaults = {setting.variable: setting.default for setting in settings_by_field().values()}
    rows = (
        (
            f"`{limit.name}`",
            ", ".join(f"`{PREFIX}{name}` ({defaults[PREFIX + name]})" for name in limit.variables),
            limit.beyond,
            limit.seen_in,
        )
        for limit in LIMITS
    )
    return markdown(("limit", "setting (default)", "above it", "seen in"), rows)
