"""Whether a worker with these settings would go on with the state of its group, found out without one: before an upgrade."""

from typing import Final

from worker.errors import Crash, SurroundingsError
from worker.kafka.clients import Clients
from worker.kafka.first_rows import FirstRow, first_rows
from worker.kafka.topics import Topics
from worker.operations.check import Check
from worker.processing.config import processor_config
from worker.settings import Settings
from worker.state import Fingerprint
from worker.state.errors import StateError
from worker.state.keys import FINGERPRINT
from worker.state.partition import refuse_other
from worker.state.rows import decode_fingerprint
from worker.text.embedders import load_engine

WHAT: Final = "built with these settings"


def check_state(settings: Settings, clients: Clients, topics: Topics) -> Check:
    """The first rows of the changelog say with what it was built. The embedder is loaded, for the model is part of that."""
    changelog = topics.specs["changelog"].name
    of = f"state in {changelog}"
    count = topics.partitions.get(changelog)
    if count is None:
        return Check(of, WHAT, True, "there is none yet")
    try:
        rows = first_rows(clients, settings.app_id, changelog, range(count))
        fingerprints = [row for row in rows if row.key == FINGERPRINT and row.value is not None]
        if not fingerprints:
            return Check(of, WHAT, True, "there is none yet")
        wanted = _fingerprint(settings, topics.input_partitions)
    except (SurroundingsError, Crash) as cause:
        return Check(of, WHAT, None, str(cause))
    return _compared(of, fingerprints, wanted)


def _fingerprint(settings: Settings, partitions: int) -> Fingerprint:
    threads, cache = settings.embedder_threads, settings.model_cache_dir
    engine = load_engine(settings.embedder, threads=threads, cache_dir=cache)
    return processor_config(settings, partitions, engine).fingerprint


def _compared(of: str, rows: list[FirstRow], wanted: Fingerprint) -> Check:
    for row in rows:
        assert row.key is not None
        assert row.value is not None
        try:
            refuse_other(decode_fingerprint(row.key, row.value), wanted)
        except StateError as cause:
            return Check(of, WHAT, False, str(cause))
    return Check(of, WHAT, True, f"in {len(rows)} partitions")
