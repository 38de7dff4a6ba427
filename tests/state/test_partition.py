"""The partition's own rows: applied offset, fingerprint, and the slow removal of deleted
entities.
"""

from dataclasses import fields, replace

import pytest

from worker.events.publishing import SUMMARIES
from worker.facets.definitions import read_definitions
from worker.state import (
    Applied,
    Fingerprint,
    FingerprintMismatch,
    IncompleteState,
    MemoryRows,
    check_fingerprint,
)
from worker.state.keys import IncarnationKeys, header_key
from worker.state.partition import (
    collect_garbage,
    put_applied,
    put_fingerprint,
    put_garbage,
)

FINGERPRINT = Fingerprint("model@1", 384, "splitter-1", 20, False, 8, "reviews", 1)


def with_rows(*puts):
    rows, changes = MemoryRows(), {}
    for put, value in puts:
        put(changes, value)
    rows.write(changes)
    return rows


@pytest.mark.parametrize("weigh", [None, "texts"])
@pytest.mark.parametrize("distinct", [False, True])
def test_a_fingerprint_is_read_back_from_its_fields(distinct, weigh):
    made = Fingerprint(**{**_values(), "distinct": distinct, "weigh": weigh})
    assert Fingerprint.of(made.fields()) == made
    assert Fingerprint.of({**made.fields(), "later": "field"}) == made


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("model", "model@2"),
        ("dimension", 768),
        ("splitter", "splitter-2"),
        ("k", 10),
        ("distinct", True),
        ("weigh", "texts"),
        ("partitions", 16),
        ("topic", "others"),
        ("epoch", 2),
    ],
)
def test_another_fingerprint_is_refused(name, value):
    rows = with_rows((put_fingerprint, FINGERPRINT))
    configured = Fingerprint(**{**_values(), name: value})
    with pytest.raises(FingerprintMismatch) as raised:
        check_fingerprint(rows, configured)
    message = str(raised.value)
    stored = "reviews" if name == "weigh" else getattr(FINGERPRINT, name)
    assert f"{name}: stored {str(stored)!r}, configured {str(value)!r}" in message
    assert "own COVERSUMM_EPOCH" in message
    assert list(raised.value.differences) == [name]
    assert raised.value.exit_code == 2


@pytest.mark.parametrize(
    ("stored", "advice"),
    [
        (
            {"splitter": "splitter-2"},
            "run the version of the worker that built it, or build a new epoch",
        ),
        (
            {"splitter": "splitter-2", "k": 5},
            "put the settings back and run the version of the worker that built it, or",
        ),
        ({"k": 5}, "put the settings back, or"),
    ],
)
def test_a_refusal_advises_what_can_be_put_back(stored, advice):
    """No setting changes the splitter: it is the version's."""
    rows = with_rows((put_fingerprint, replace(FINGERPRINT, **stored)))
    with pytest.raises(FingerprintMismatch) as raised:
        check_fingerprint(rows, FINGERPRINT)
    assert f"Operator action: {advice}" in str(raised.value)


def test_a_refusal_says_that_a_preset_is_the_versions():
    """The setting may be the same: `preset:stays`."""
    stays = read_definitions("preset:stays").identity
    rows = with_rows((put_fingerprint, replace(FINGERPRINT, facets=stays)))
    words = "stored preset:stays, configured a file, .* identity one .*presets change with the ver"
    with pytest.raises(FingerprintMismatch, match=words):
        check_fingerprint(rows, replace(FINGERPRINT, facets="one"))


def test_rows_without_a_fingerprint_are_the_rest_of_a_state():
    """Of a changelog whose beginning is gone: most rows are missing, whatever the offset says."""
    with pytest.raises(
        IncompleteState, match=r"beginning of its changelog is gone.*coversumm-worker reset"
    ):
        check_fingerprint(with_rows((put_applied, Applied(7, "reviews"))), FINGERPRINT)


def _values():
    return {field.name: getattr(FINGERPRINT, field.name) for field in fields(FINGERPRINT)}


def test_garbage_goes_in_bounded_batches_and_alone():
    dead, live = IncarnationKeys(b"e", 3), IncarnationKeys(b"e", 30)
    kept = {
        header_key(b"e"): b"h",
        live.review(b"r0"): b"",
        IncarnationKeys(b"e2", 3).review(b"r"): b"",
    }
    rows = MemoryRows(
        {
            **kept,
            **{dead.review(b"r%d" % i): b"" for i in range(25)},
            dead.published[SUMMARIES]: b"p",
        }
    )
    changes = {}
    put_garbage(changes, b"e", 3)
    rows.write(changes)
    rounds = 0
    more = True
    while more:
        changes = {}
        more = collect_garbage(rows, changes, limit=10)
        assert len(changes) <= 10
        rows.write(changes)
        rounds += 1
        assert rounds < 10
    assert rounds == 3
    assert dict(rows.scan(b"")) == kept
