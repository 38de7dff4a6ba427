"""Random histories of reviews."""

from hypothesis import strategies as st

from tests.harness.drive import TIME_MS, record, upsert
from worker.events import Record

ENTITIES = ["a", "é😀\0"]
REVIEWS = ["r", "r#0", "\0"]
TEXTS = ["good", "bad", "okay", " ", "fine thing", "x" * 40]
TEXTS += ["Good rooms near the old harbour.", "But good rooms near the old harbour."]
VECTORS = [[1, 0, 0], [0, 1, 0], [1, 1, 0], [1, 1, 1], [-1, 0.5, 0], [3, 0, 0], [0.3, -0.2, 0.9]]
BAD = [b"{", b"\xff", [0, 0, 0], [1, 2]]
entity_ids = st.sampled_from(ENTITIES)
review_ids = st.sampled_from(REVIEWS)
versions = st.one_of(st.none(), st.integers(0, 3))
sentences = st.one_of(
    st.sampled_from(TEXTS),
    st.builds(
        lambda text, vector: (text, vector), st.sampled_from(TEXTS), st.sampled_from(VECTORS)
    ),
)
fields = st.fixed_dictionaries(
    {"review_version": versions, "rating": st.sampled_from([None, 1, 4.5, 4.5, 0.1])},
    optional={
        "occurred_at": st.sampled_from(["2026-11-20T12:00:00Z", "2026-11-21T00:00:00+01:00"]),
        "language": st.sampled_from([None, "en", "日本語", "", "x" * 35, "x" * 36]),
        "verified": st.sampled_from([None, False, True]),
        "country": st.sampled_from([None, "NL", "", "é" * 24, "é" * 25]),
        "author_id": st.sampled_from(["u-1", "", "\0" * 21, "\0" * 22, '"' * 64, '"' * 65]),
    },
)


def upserted(entity_id, review_id, given_sentences, more):
    return entity_id, upsert(0, review_id, *given_sentences, entity_id=entity_id, **more).value


def _texts(entity_id, review_id, text, more):
    body = {"type": "review.upserted", "review_id": review_id, "text": text, **more}
    return entity_id, record(0, entity_id, body).value


def event(entity_id, body):
    return entity_id, record(0, entity_id, body).value


upserts = st.builds(upserted, entity_ids, review_ids, st.lists(sentences, max_size=4), fields)
sentence_deletions = st.builds(
    lambda e, ids: event(e, {"type": "sentences.deleted", "sentence_ids": ids}),
    entity_ids,
    st.lists(
        st.builds(lambda r, i: f"{r}#{i}", review_ids, st.sampled_from([0, 1, 2, "00"])), max_size=5
    ),
)
operations = st.one_of(
    upserts,
    upserts,
    upserts,
    st.builds(
        _texts, entity_ids, review_ids, st.sampled_from(["Good. Bad things.", "", "nan"]), fields
    ),
    st.builds(
        lambda e, r, v: event(e, {"type": "review.deleted", "review_id": r, "review_version": v}),
        entity_ids,
        review_ids,
        versions,
    ),
    sentence_deletions,
    sentence_deletions,
    st.builds(lambda e: event(e, {"type": "entity.deleted"}), entity_ids),
    st.builds(lambda e: (e, None), entity_ids),
    st.builds(
        lambda e, r, v: upserted(e, r, [("good", v)], {}),
        entity_ids,
        review_ids,
        st.sampled_from(BAD[2:]),
    ),
    st.builds(lambda e, raw: (e, raw), entity_ids, st.sampled_from(BAD[:2])),
    st.builds(lambda e: (e, record(0, "other", {"type": "entity.deleted"}).value), entity_ids),
)


def records_of(events):
    offsets = [0, 0]
    for entity_id, value in events:
        partition = ENTITIES.index(entity_id) % 2
        time_ms = TIME_MS + offsets[partition] % 4 * 15 * 86_400_000  # the last one is in 2027
        yield Record("reviews", partition, offsets[partition], time_ms, entity_id.encode(), value)
        offsets[partition] += 1
