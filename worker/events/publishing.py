"""The topics of published sets, and when a set is due on one of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from worker.events.outputs import FACETS_CHANGED, SUMMARY_CHANGED


class HasTopics(Protocol):
    """Settings with the names of the output topics."""

    @property
    def output_topic(self) -> str:
        """The topic of summaries."""

    @property
    def facets_topic(self) -> str:
        """The topic of facets."""


@dataclass(frozen=True, slots=True, eq=False)
class OutputTopic:
    """An output topic: what it publishes of an entity, and the names that go with it."""

    name: str  # of its messages, for people
    setting: str  # has the name of the Kafka topic
    event_type: str  # of its changes
    id_suffix: str  # in the ids of its messages

    def of(self, settings: HasTopics) -> str:
        """The name of the Kafka topic."""
        return settings.output_topic if self is SUMMARIES else settings.facets_topic


SUMMARIES: Final = OutputTopic("summaries", "COVERSUMM_OUTPUT_TOPIC", SUMMARY_CHANGED, "")
"""The entity's summary: one set, of all sentences."""
FACETS: Final = OutputTopic("facets", "COVERSUMM_FACETS_TOPIC", FACETS_CHANGED, ":facets")
"""The entity's facets that are not hidden: a set for each."""
TOPICS: Final = (SUMMARIES, FACETS)


def are_mentions_due(published: int, now: int, percent: int) -> bool:
    """True if a facet must be published for the number of reviews that mention it, which was
    `published`: with `percent` above 0, if it differs by at least so much.
    """
    return percent > 0 and now != published and 100 * abs(now - published) >= percent * published


def is_due(
    published: Mapping[bytes, bytes],
    now: Mapping[bytes, bytes],
    min_changes: int,
    deleted: Collection[bytes] = (),
) -> bool:
    """True if a set, as `{sentence id: text digest}`, must be published after the last published
    one.

    It must if at least `min_changes` of its sentences are new or edited, or as many are gone; if
    one of the two sets is empty; or if it removes a published sentence of `deleted`, those taken
    down since.
    """
    if min_changes == 1 or not published or not now:
        return now != published
    if any(facet in published and now.get(facet) != published[facet] for facet in deleted):
        return True
    come = sum([published.get(facet) != digest for facet, digest in now.items()])
    gone = sum([now.get(facet) != digest for facet, digest in published.items()])
    return max(come, gone) >= min_changes
