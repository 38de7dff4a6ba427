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
    """The upserts, by index, whose vectors are all in the store and none of them in the event."""
    limits, facets, reads = config.limits, config.facets, reads_all(embedder.engine)
    asked = [i for i in indexes if _may_lack_vectors(records[i].value)]
    found = {}
    for i, event in zip(asked, decode([records[i] for i in asked], limits), strict=True):
        if isinstance(event, ReviewUpserted):
            tag, own = event.details.language, event.review_id.encode()
            language = "" if facets is None else facets.language_of(texts_of(event), tag)
            split = split_review(own, event, limits, language, embedder.split, reads)
            if not isinstance(split, Rejected) and all(
                sentence.vector is None for sentence in split[0]
            ):
                found[i] = language, language_code(tag) or language, *split
    texts = {sentence.text: None for _, _, sentences, _ in found.values() for sentence in sentences}
    embedder.missing([*texts])  # looks them up
    known = {}
    for i, (language, counted, sentences, cut) in found.items():
        vectors = [embedder.vectors.get(sentence.text) for sentence in sentences]
        some = b"".join(vector.astype("<i2").tobytes() for vector in vectors if vector is not None)
        if len(some) == 2 * limits.dimension * len(sentences):
            plain = [
                (sentence.ordinal, sentence.text, sentence.label_bits) for sentence in sentences
            ]
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
