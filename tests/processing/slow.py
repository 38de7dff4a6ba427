"""Engines of a known speed."""

from __future__ import annotations

from tests.harness.drive import Driver, FakeEngine, config, upsert
from worker.processing.pace import Pace, characters
from worker.processing.processor import Processor


class SlowEngine(FakeEngine):
    """Takes so long for a character, on a clock of its own."""

    def __init__(self, seconds_a_character):
        super().__init__()
        self.seconds_a_character = seconds_a_character
        self.now = 1000.0
        self.calls = []

    def monotonic(self):
        return self.now

    def embed(self, texts):
        self.calls.append(list(texts))
        self.now += self.seconds_a_character * sum(map(characters, texts))
        return super().embed(texts)


class SlowDriver(Driver):
    """A driver whose processor has a pace, and notes when there was progress."""

    def __init__(self, seconds_a_character, limit_seconds=2.0, **changes):
        self.limit_seconds = limit_seconds
        self.progress = []
        super().__init__(config(**changes), SlowEngine(seconds_a_character))

    def restart(self):
        engine = self.engine
        pace = Pace(self.limit_seconds, engine, lambda: self.progress.append(engine.now))
        self.processor = Processor(self.config, self.rows.__getitem__, engine, pace)

    def all(self, records):
        """Everything, micro-batch after micro-batch: records and seconds of each, and the published
        bodies.
        """
        made, bodies = [], []
        while records:
            started = self.engine.now
            batch = self.run(*records)
            made.append((batch.taken, self.engine.now - started, batch.stats))
            bodies += [message.value for message in batch.messages]
            records = records[batch.taken :]
        return made, bodies


def texts(count, *, chars=60, start=0):
    """So many reviews of one new text each."""
    return [
        upsert(start + i, f"r{start + i}", f"{start + i:08d}".ljust(chars, "x"))
        for i in range(count)
    ]
