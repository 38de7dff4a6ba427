"""Batches take a given time each, lose nothing, and end where a pipe is silent."""

import os
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.events import Record
from worker.sources import ReviewFiles, opened, timely


def record(number, size):
    return Record("file", 0, number, -1, b"e", b"x" * size)


sizes = st.lists(st.integers(0, 5000) | st.none(), max_size=200)


@given(sizes, st.floats(1e-7, 1.0), st.floats(0.01, 10.0))
def test_nothing_is_lost_or_moved(found, seconds_a_byte, seconds):
    entries = [None if size is None else record(i, size) for i, size in enumerate(found)]
    now = [0.0]
    batches = []
    for batch in timely(entries, seconds, lambda: now[0]):
        assert batch
        now[0] += seconds_a_byte * sum(len(entry.value) for entry in batch)
        batches.append(batch)
    assert [entry for batch in batches for entry in batch] == [
        entry for entry in entries if entry is not None
    ]


@pytest.mark.parametrize("speed", [3e4, 1e5, 5e5])  # bytes a second
def test_batches_come_to_take_their_time_whatever_the_speed(speed):
    now = [0.0]
    lengths = []
    for batch in timely((record(i, 200) for i in range(20_000)), 0.5, lambda: now[0]):
        taken = sum(len(entry.value) for entry in batch) / speed
        now[0] += taken
        lengths.append(taken)
    assert max(lengths) <= 0.55
    assert all(length > 0.35 for length in lengths[10:-1])


def test_a_processor_that_slows_down_is_followed_at_once():
    now, speed, taken = [0.0], 1e6, []
    for number, batch in enumerate(
        timely((record(i, 100) for i in range(100_000)), 0.5, lambda: now[0])
    ):
        speed = 1e6 if number < 12 else 2e4
        taken.append(sum(len(entry.value) for entry in batch) / speed)
        now[0] += taken[-1]
        if number == 14:
            break
    assert taken[12] > 5
    assert taken[13] <= 0.55


def test_a_silent_pipe_says_so_and_goes_on(tmp_path, monkeypatch):
    """Half a line is waited for; what came whole is all for now."""
    monkeypatch.setattr(opened, "PATIENCE_SECONDS", 0.01)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    silent = threading.Event()

    def write():
        with pipe.open("wb", buffering=0) as stream:
            stream.write(b'{"entity_id":"a"}\n{"entity_id":')
            silent.wait()
            stream.write(b'"b"}\n\n{"entity_id":"c"}')

    thread = threading.Thread(target=write)
    thread.start()
    found = []
    with ReviewFiles([str(pipe)]) as lines:
        for entry in lines:
            found.append(None if entry is None else (entry.offset, entry.key))
            if entry is None:
                silent.set()
    thread.join()
    assert found[:2] == [(0, b"a"), None]
    assert [entry for entry in found if entry is not None] == [(0, b"a"), (1, b"b"), (3, b"c")]
