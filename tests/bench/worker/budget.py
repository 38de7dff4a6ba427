"""Where ours spends its processor time: by thread of a whole worker, and by stage within the
processor.
"""

from __future__ import annotations

import json
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from types import FrameType
from typing import Any

from tests.bench.processor import Store, processor
from tests.bench.worker import threads
from tests.bench.worker.contenders import OURS, Contender
from tests.bench.worker.measure import Progress, remove_topics, settings
from tests.bench.worker.throughput import PATIENCE_SECONDS
from tests.bench.worker.workloads import Workload
from tests.harness.broker import KafkaBroker
from tests.harness.load import Sent, send
from tests.harness.workers import ROOT, pipeline
from worker.events import Record

STAGES = (
    ("worker/events/messages", "messages"),
    ("worker/events/", "decode"),
    ("worker/processing/plan", "plan"),
    ("worker/processing/publish", "messages"),
    ("worker/processing/outbox", "messages"),
    ("worker/processing/partitions", "rows"),
    ("worker/state/", "rows"),
    ("worker/coversumm/", "rank"),
    ("worker/", "the rest"),
)
"""By the innermost function of the worker that is running; what a library does for it is its own.
The first that fits.
"""
EVERY_SECONDS = 0.002


def by_thread(
    broker: KafkaBroker, folder: Path, workload: Workload, events: int, file: Path
) -> dict[str, float]:
    """Microseconds an event of each thread of a worker, from ready to the last commit."""
    note = folder / "threads.json"
    count = round(events * workload.share)
    with pipeline(broker, f"budget-{workload.name}", folder, settings=settings()) as site:
        send(broker.bootstrap_servers, site.input_topic, workload.make(count, file), chunk=5000)
        worker = Contender(OURS, launcher=threads.__name__).worker(
            site, site.name, **workload.settings
        )
        worker.environment[threads.FILE] = str(note)
        worker.start().wait_ready()
        before = json.loads(note.read_text())
        progress = Progress(site)
        done = progress.committed()
        progress.wait(PATIENCE_SECONDS)
        time.sleep(3 * threads.EVERY_SECONDS)
        after = json.loads(note.read_text())
        worker.terminate()
        remove_topics(
            broker, site.input_topic, site.output_topic, site.dlq_topic, site.changelog_topic
        )
    used = {
        name: 1e6 * (spent - before.get(name, 0.0)) / (count - done)
        for name, spent in after.items()
    }
    return {
        name: round(us, 1)
        for name, us in sorted(used.items(), key=lambda item: -item[1])
        if us >= 0.5
    }


class Sampled:
    """What stage is running, looked at whenever the process has used another few milliseconds of
    processor time.
    """

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def __enter__(self) -> Sampled:
        self._before = signal.signal(signal.SIGPROF, self._look)
        signal.setitimer(signal.ITIMER_PROF, EVERY_SECONDS, EVERY_SECONDS)
        return self

    def __exit__(self, *_: object) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, self._before)

    def _look(self, _: int, frame: FrameType | None) -> None:
        while frame is not None:
            if stage := stage_of(frame.f_code.co_filename):
                self.counts[stage] += 1
                return
            frame = frame.f_back
        self.counts["outside"] += 1


def stage_of(file: str) -> str | None:
    """The stage that a source file belongs to; None for those that are not the worker's."""
    path = file.removeprefix(f"{ROOT}/")
    return next((stage for start, stage in STAGES if path.startswith(start)), None)


def within_processor(events: Iterable[Sent], emit: str, at_once: int) -> dict[str, float]:
    """Microseconds an event of each stage, of a processor in this process whose first third of the
    events do not count.
    """
    records = [
        Record("reviews", 0, offset, 1_700_000_000_000, event.key, event.value)
        for offset, event in enumerate(events)
    ]
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder, "rows"))
        ours = processor(store, 256 * 2**20, emit)
        cpu_s, counts, counted = 0.0, Counter[str](), 0
        for at in range(0, len(records), at_once):
            part = records[at : at + at_once]
            began_s = time.thread_time()
            with Sampled() as sampled:
                batch = ours.process(part)
            if at > len(records) // 3:
                cpu_s += time.thread_time() - began_s
                counts += sampled.counts
                counted += len(part)
            store.write(batch.rows[0])
            ours.committed(batch)
    total = sum(counts.values())
    stages = {
        stage: round(1e6 * cpu_s * share / total / counted, 1)
        for stage, share in counts.most_common()
    }
    return {"process": round(1e6 * cpu_s / counted, 1), **stages}


def budget(
    broker: KafkaBroker, folder: Path, workload: Workload, events: int, file: Path
) -> dict[str, Any]:
    """Both, in microseconds an event."""
    inside = workload.make(round(events * workload.share / 2), file)
    return {
        "by_thread": by_thread(broker, folder, workload, events, file),
        "within_processor": within_processor(inside, workload.settings.get("emit", "every"), 1000),
    }
