"""A stored state for commands that read one."""

from rocksdict import Options, Rdict

from tests.cli.events import lines
from tests.harness.drive import config
from tests.harness.limits import event_limits
from worker.events import Record, read_line
from worker.processing.processor import Processor
from worker.state import MemoryRows

K = 3


def rows_after(events, partition, facets=None):
    """What a worker stores after these."""
    rows = MemoryRows()
    limits = event_limits(dimension=3, embeds=False)
    processor = Processor(
        config(k=K, limits={"model": None, "embeds": False}, facets=facets, facets_topic="facets"),
        lambda _: rows,
        None,
    )
    assert processor.config.limits == limits
    for offset, line in enumerate(lines(events)):
        batch = processor.process([Record("reviews", partition, offset, 0, *read_line(line))])
        rows.write(batch.rows[partition])
        processor.committed(batch)
    return dict(rows.scan(b""))


def store_rows(data_dir, partition, rows):
    path = data_dir / "v1" / "tables" / f"entities-{partition}.db"
    path.parent.mkdir(parents=True, exist_ok=True)
    database = Rdict(str(path), Options(raw_mode=True))
    for key, value in rows.items():
        database[key] = value
    database[b"__faust\0offset__"] = b"7"
    database.close()
