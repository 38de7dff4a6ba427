"""A deployment with a preset: how much its facets repeat, and how often `facets.changed` is
published.

The events go through the worker's own processor, one review each, in order of arrival.
"""

import base64
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from tests.bench.quality.data import Embed
from tests.bench.quality.entity import Entity
from tests.bench.quality.facets import central, groups_of
from tests.bench.quality.hotels import repeats
from worker.events import Record
from worker.events.outputs import FACETS_CHANGED, decode_facets
from worker.facets.definitions import PRESET, read_definitions
from worker.facets.membership import FacetCriteria
from worker.processing.config import ProcessorConfig, processor_config
from worker.processing.entity_view import THRESHOLD
from worker.processing.in_memory import ProcessorInMemory
from worker.settings import Settings

LEAST = (1, 2, 3)
BATCH = 200  # events processed at once


def preset_of(name: str, embed: Embed) -> FacetCriteria:
    """The facets of a preset."""
    definitions = read_definitions(PRESET + name)
    polarity = () if definitions.polarity is None else definitions.polarity.facets
    of = (*definitions.defined, *polarity)
    phrases = [phrase for facet in of for phrase in facet.phrases or ()]
    return FacetCriteria(definitions, embed(phrases))


class Shown(NamedTuple):
    """An entity at the end. Shares are from 0 to 1; `repeats` as in `hotels`."""

    members: float  # of all sentences, in a facet that is shown
    hidden: float  # of all sentences, in a hidden facet
    within: float  # repeats in a facet's set, mean of the facets
    across: float  # mean cosine of two shown sentences of different facets
    twins: float  # of the shown sentences, with one above the threshold in another facet
    plain: float  # repeats of the summary of everything


def look_at(entity: Entity, facets: FacetCriteria, k: int) -> Shown:
    """What readers of all facets get, and of the summary of everything."""
    groups = groups_of(entity, facets)
    visible = facets.definitions.visible
    sets = [central(entity, groups[n], facets.definitions.facets[n].k) for n in visible]
    owner = np.array([n for n, rows in enumerate(sets) for _ in rows])
    unit = entity.unit[[row for rows in sets for row in rows]]
    cosines = unit @ unit.T
    is_other = owner[:, None] != owner
    everything = central(entity, list(range(len(entity.sentences))), k)
    count = len(entity.sentences)
    shown = sum(len(groups[n]) for n in visible)
    return Shown(
        shown / count,
        (sum(map(len, groups)) - shown) / count,
        float(np.mean([repeats(entity, rows) for rows in sets if len(rows) > 1])),
        float(cosines[is_other].mean()) if is_other.any() else 0.0,
        float(((cosines > THRESHOLD) & is_other).any(axis=1).mean()),
        repeats(entity, everything),
    )


def shown_row(name: str, preset: str, of: Sequence[Shown]) -> dict[str, object]:
    """The means over entities."""
    means = np.mean(of, axis=0)
    fields = zip(Shown._fields, means, strict=True)
    return {"entities": name, "preset": preset} | {
        field: round(float(mean), 4) for field, mean in fields
    }


def published(entity: Entity, facets: FacetCriteria, least: int, k: int) -> dict[str, object]:
    """How many messages of both types the worker publishes with this EMIT_MIN_CHANGES, and how many
    facets a `facets.changed` names on average.
    """
    config = _config(facets, least, k)
    counts = {config.output_topic: 0, config.facets_topic: 0, config.dlq_topic: 0}
    named = 0
    events = list(_events(entity, config.input_topic))
    processor = ProcessorInMemory(config, None)
    for at in range(0, len(events), BATCH):
        for batch in processor.process(events[at : at + BATCH]):
            for message in batch.messages:
                counts[message.topic] += 1
                if message.topic == config.facets_topic and message.value is not None:
                    named += len(decode_facets(message.value).changed)
    if counts[config.dlq_topic]:
        raise RuntimeError(f"{entity.id}: {counts[config.dlq_topic]} events were refused")
    of_facets = counts[config.facets_topic]
    return {
        "m": least,
        "reviews": len(events),
        "summary.changed": counts[config.output_topic],
        FACETS_CHANGED: of_facets,
        "facets_named": round(named / of_facets, 2) if of_facets else None,
    }


def _config(facets: FacetCriteria, least: int, k: int) -> ProcessorConfig:
    """The default settings with these facets; events bring their embeddings."""
    settings = Settings(embedder="none", dimension=facets.dimension, k=k, emit_min_changes=least)
    config = processor_config(settings, 1, None)
    return replace(config, facets=facets, facets_topic=settings.facets_topic)


def _events(entity: Entity, topic: str) -> Iterator[Record]:
    rows = range(len(entity.sentences))
    by_review: dict[int, list[int]] = {}
    for row, review in zip(rows, entity.review_of.tolist(), strict=True):
        by_review.setdefault(review, []).append(row)
    for review, rating in enumerate(entity.ratings):
        body = {
            "type": "review.upserted",
            "entity_id": entity.id,
            "review_id": f"r{review}",
            "rating": rating,
            "sentences": [
                {
                    "text": entity.sentences[row],
                    "embedding": base64.b64encode(entity.unit[row].astype("<f4")).decode(),
                }
                for row in by_review.get(review, [])
            ],
        }
        value = json.dumps(body).encode()
        yield Record(topic, 0, review, 1_700_000_000_000 + review, entity.id.encode(), value)
