"""A pool beside a Python processor, whose messages and rows it must equal to the byte."""

from __future__ import annotations

import threading
import time
from functools import partial
from importlib import import_module

from tests.harness.drive import Driver, config, delete
from tests.native.definitions import in_any_order
from worker.facets.plain import plain_facets
from worker.processing.native import answer
from worker.state.keys import header_key, incarnation_prefix
from worker.state.rows import decode_header

MOST = 20
LONG = 0.1  # seconds of the processor for which no thread waits


class Beats(threading.Thread):
    """Counts while native code lets it."""

    def __init__(self):
        super().__init__(daemon=True)
        self.count, self.over = 0, threading.Event()

    def run(self):
        while not self.over.wait(0.001):
            self.count += 1


class WatchedPool:
    """A pool whose long calls let other threads run. Long is a time of the processor, so that a
    busy machine makes none of them long. `end` ends the thread that listens.
    """

    beats = None

    def __init__(self, pool):
        self._pool = pool
        self.long_calls = 0

    def __getattr__(self, name):
        return self._watched(found) if callable(found := getattr(self._pool, name)) else found

    def __len__(self):
        return len(self._pool)

    def _watched(self, method):
        def call(*arguments):
            if self.beats is None:
                WatchedPool.beats = Beats()
                self.beats.start()
            begun, started, before = time.monotonic(), time.thread_time(), self.beats.count
            result = method(*arguments)
            heard, spans = self.beats.count - before, (time.monotonic() - begun) / LONG
            if time.thread_time() - started > LONG:
                self.long_calls += 1
                # one is heard in any case at each report of progress, and as the call ends
                assert heard > 2 + 2 * spans, f"{method.__name__} held the interpreter"
            return result

        return call

    @classmethod
    def end(cls):
        if cls.beats is not None:
            cls.beats.over.set()
            cls.beats.join()
            cls.beats = None


class PoolDriver:
    """Runs micro-batches through a Python processor, and what is usual through a pool beside it."""

    def __init__(self, most_sentences=MOST, **settings):
        self.driver = Driver(config(**settings))
        module = import_module("worker._native")
        self.pool = WatchedPool(module.Pool(self.driver.config, most_sentences))
        self.facets = self.driver.config.facets
        for partition in self.driver.rows if self.facets is not None else ():
            self.pool.define(partition, plain_facets(self.facets, self.driver.config.emit_mentions))
        self.taken = self.seen = self.refills = 0
        self.compared = dict

    def evict(self, most_bytes):
        self.pool.evict(most_bytes)
        self.compared = in_any_order  # entities are read again

    def run(self, batch):
        """Compare the two forms of a micro-batch."""
        natively = self._read(batch)
        got = self.pool.process(lambda: None)
        indexes = [
            i for i, record in enumerate(batch) if (record.partition, record.key) in natively
        ]
        expected = self.driver.run_whole(*batch)
        own = [
            (message.topic, message.partition, message.key, message.value, message.headers)
            for message in expected.messages
            if message.topic in ("summaries", "facets")
            and (message.partition, message.key) in natively
        ]
        assert [fields for _, fields in got.messages] == own
        assert [i for i, _ in got.messages] == sorted(i for i, _ in got.messages)
        rows = {}
        for partition, entity in natively:
            found = self._changes_of(partition, entity, expected.rows.get(partition, {}))
            ours = got.rows.get(partition, {})
            prefix = header_key(entity)
            own_rows = {key: row for key, row in ours.items() if key.startswith(prefix)}
            assert list(own_rows) == list(found)
            assert self.compared(own_rows) == self.compared(found)
            rows |= dict.fromkeys([(partition, key) for key in found])
        assert {(partition, key) for partition, of in got.rows.items() for key in of} == {*rows}
        touched = [(key.partition, key.entity_id.encode()) for key in expected.touched]
        assert sorted(got.touched) == sorted(key for key in touched if key in natively)
        assert sum(got.outcomes.values()) == len(indexes)
        assert got.row_bytes == sum(
            len(key) + len(value or b"") for of in got.rows.values() for key, value in of.items()
        )
        if len(indexes) == len(batch):
            assert got.outcomes == dict(expected.stats.outcomes)
            assert got.created == expected.stats.entities
            assert got.set_changes == expected.stats.set_changes
        self.refills += got.refills
        self.taken += len(indexes)
        self.seen += len(batch)
        has_words = self.facets is not None and self.facets.has_words
        assert len(self.pool) or has_words or not self.pool.memory_bytes

    def _changes_of(self, partition, entity, changes):
        """The changed rows of an entity, without those that are removed of earlier incarnations."""
        prefix = header_key(entity)
        header = self.driver.rows[partition].get(prefix)
        if header is None:
            return {}
        own = incarnation_prefix(entity, decode_header(prefix, header).incarnation)
        return {k: v for k, v in changes.items() if k == prefix or k.startswith(own)}

    def _read(self, batch):
        """Hold what is usual; the entities of which all is."""
        rows = self.driver.rows
        held = self.take(
            batch, lambda record: [*rows[record.partition].scan(header_key(record.key))]
        )
        others = {(record.partition, record.key) for i, record in enumerate(batch) if i not in held}
        self.compared = in_any_order if others else self.compared
        return {(record.partition, record.key) for record in batch} - others

    def take(self, batch, rows_of):
        """The indexes of what the pool holds then. `rows_of` gives the rows of a record's entity"""
        sizes, _, _ = self.pool.take(
            batch,
            range(len(batch)),
            {},
            lambda index, *_: rows_of(batch[index]),
            partial(answer, self.facets),
        )
        return {index for index, _ in sizes}

    def takes(self, partition, entity, rows):
        """Whether the pool takes an entity with these rows, for an event that changes nothing."""
        self.pool.drop(partition, entity)
        record = delete(0, "nobody", entity_id=entity.decode())._replace(partition=partition)
        return bool(self.take([record], lambda _: rows))
