"""Reviews without vectors whose texts have known ones: native code takes these too.

Python splits them and looks the vectors up; native code does the rest.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from worker.events import Record, Rejected, ReviewUpserted, decode
from worker.processing.config import ProcessorConfig
from worker.processing.embed import Embedder
from worker.processing.plan import BatchPlan, split_review, texts_of
from worker.text.engine import reads_all
from worker.text.language import language_code


class KnownReview(NamedTuple):
    """The sentences of a review that are not blank."""

    sentences: list[tuple[int, str, int]]  # position in the review, text, label bits
    vectors: bytes  # of these, int16, little-endian
    language: str  # found, where facets depend on it; else empty
    counted_language: str
    cut: int  # sentences that were longer than the cap


def known_reviews(
    records: Sequence[Record], indexes: Iterable[int], config: ProcessorConfig, embedder: Embedder
) -> dict[int, KnownReview]:
    """By index, among these, the upserts all of whose vectors the store has, none the event."""
    limits, facets, reads = config.limits, config.facets, reads_all(embedder.engine)
    asked = [i for i in indexes if _may_lack_vectors(records[i].value)]
    found = {}
    for i, event in zip(asked, decode([records[i] for i in asked], limits), strict=True):
        if isinstance(event, ReviewUpserted):
            tag, own = event.details.language, event.review_id.encode()
            language = "" if facets is None else facets.language_of(texts_of(event), tag)
            split = split_review(own, event, limits, language, embedder.split, reads)
            if not isinstance(split, Rejected) and all(one.vector is None for one in split[0]):
                found[i] = language, language_code(tag) or language, *split
    texts = {one.text: None for _, _, sentences, _ in found.values() for one in sentences}
    embedder.missing([*texts])  # looks them up
    known = {}
    for i, (language, counted, sentences, cut) in found.items():
        vectors = [embedder.vectors.get(one.text) for one in sentences]
        some = b"".join(one.astype("<i2").tobytes() for one in vectors if one is not None)
        if len(some) == 2 * limits.dimension * len(sentences):
            plain = [(one.ordinal, one.text, one.label_bits) for one in sentences]
            known[i] = KnownReview(plain, some, language, counted, cut)
    return known


def count_known(known: Iterable[KnownReview], plan: BatchPlan) -> None:
    """Count the sentences of these, which no event of the plan has."""
    for review in known:
        plan.cut_sentences += review.cut
        plan.languages[review.counted_language] += len(review.sentences)


def _may_lack_vectors(value: bytes | None) -> bool:
    """False if a look at the text of the event shows that it is another one."""
    return value is not None and b'"review.upserted"' in value and b'"embedding"' not in value
