"""Checks whether consumers can switch from one build of the summaries to another.

It changes nothing: consumers then read another topic. Switching back is the same with the builds
exchanged.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from typing import NamedTuple

from worker.errors import SetupError, many
from worker.events.publishing import FACETS
from worker.kafka.clients import Clients
from worker.kafka.errors import broker_errors
from worker.kafka.group import REBALANCING, STABLE, read_group
from worker.kafka.offsets import committed_offsets
from worker.kafka.permissions import READ
from worker.kafka.topics import Topics, TopicSpec, policy_complaint, topic_specs
from worker.published.comparison import Comparison
from worker.published.published import published_epochs
from worker.replay.plan import shown_gone
from worker.replay.ranges import gone_before
from worker.replay.request import plan_topic
from worker.replay.run import check_resumable, stored_plan
from worker.settings import Settings

PAUSE_SECONDS = 0.5  # pause between two looks at the offsets of the new build


class PromotionCheck(NamedTuple):
    """A condition, whether it holds, and the finding, or what to do."""

    what: str
    passed: bool
    found: str


@dataclass(frozen=True, slots=True)
class Promotion:
    """A promotion from the build of `present`, which consumers read now, to that of `next`."""

    present: Settings
    next: Settings
    clients: Clients
    facets_topic: str | None = None  # of the new build; None: it has none, as far as is known

    def checks(
        self,
        wait_seconds: float,
        compared: Callable[[], Comparison],
        bound: Callable[[Comparison], float | None],
    ) -> Iterator[PromotionCheck]:
        """The checks in order; the new build has `wait_seconds` for a rebalance, and to catch up.

        `bound` returns how many entities may differ; None: any number. Raises SetupError if no
        broker answers.
        """
        yield self._is_over()
        yield self._is_running(wait_seconds)
        output = topic_specs(self.next)["output"]
        yield self._is_own("it has a topic of its own", output, self.present.output_topic)
        if self.facets_topic is not None or self.present.facets:
            yield self._has_facets_topic()
        yield self._has_caught_up(wait_seconds)
        yield self._has_own_epoch()
        yield _agrees(compared(), bound)

    def _is_over(self) -> PromotionCheck:
        what = "the new build is whole"
        try:
            # a plan that this client may not describe is not in the list of topics
            Topics(self.next, self.clients).exists(plan_topic(self.next.app_id), READ)
            check_resumable(self.next, self.clients)
        except SetupError as error:
            return PromotionCheck(what, False, str(error))
        plan = stored_plan(self.next.app_id, self.clients)
        gone = {} if plan is None else gone_before(plan.by_partition)
        without = f", without the records of {shown_gone(gone)}" if gone else ""
        return PromotionCheck(what, True, f"{self.next.app_id}{without}")

    def _is_running(self, wait_seconds: float) -> PromotionCheck:
        what = "it is kept current"
        admin, give_up = self.clients.admin(), time.monotonic() + wait_seconds
        while (group := read_group(admin, self.next.app_id)).state == REBALANCING:
            if time.monotonic() > give_up:
                break
            time.sleep(PAUSE_SECONDS)
        workers = many(len(group.members), "workers")
        if group.state == STABLE and group.members:
            return PromotionCheck(what, True, workers)
        advice = "start `coversumm-worker run` with its settings"
        if group.state == REBALANCING:
            advice = "run this command again when it is stable"
        found = f"the group {self.next.app_id} is {group.state} with {workers}: {advice}"
        return PromotionCheck(what, False, found)

    def _has_facets_topic(self) -> PromotionCheck:
        what = "its facets have a topic of their own"
        if self.facets_topic is None:
            found = (
                "the present build has facets, and no topic of the new one's is known: give "
                "--facets-topic TOPIC, or --facets-topic none if it has no facets"
            )
            return PromotionCheck(what, False, found)
        output = topic_specs(self.next)["output"]
        facets = replace(output, role="facets", name=self.facets_topic)
        present = self.present.facets_topic if self.present.facets else None
        return self._is_own(what, facets, present)

    def _is_own(self, what: str, spec: TopicSpec, present: str | None) -> PromotionCheck:
        if spec.name == present:
            return PromotionCheck(what, False, f"{spec.name} is the present one")
        topics = Topics(self.next, self.clients)
        if not topics.exists(spec.name, READ):
            return PromotionCheck(what, False, f"there is no topic {spec.name}")
        config = topics.config(spec)
        complaint = policy_complaint(spec, config) if config else "its configuration is unknown"
        return PromotionCheck(what, complaint is None, complaint or spec.name)

    def _has_caught_up(self, wait_seconds: float) -> PromotionCheck:
        """Check that the new build has read everything that the present one has."""
        what = "it has caught up"
        wanted = self._committed(self.present)
        if not wanted:
            found = (
                f"the group {self.present.app_id} has committed nothing of "
                f"{self.present.input_topic}: set COVERSUMM_APP_ID and COVERSUMM_INPUT_TOPIC to "
                "those of the present workers"
            )
            return PromotionCheck(what, False, found)
        give_up = time.monotonic() + wait_seconds
        while True:
            reached = self._committed(self.next)
            missing = {p: offset - reached.get(p, 0) for p, offset in wanted.items()}
            behind = {p: count for p, count in missing.items() if count > 0}
            if not behind:
                return PromotionCheck(what, True, f"with {self.present.app_id}, in all partitions")
            if time.monotonic() > give_up:
                counts = ", ".join(
                    f"partition {partition} by {many(count, 'records')}"
                    for partition, count in behind.items()
                )
                found = f"it is behind {self.present.app_id}: {counts}"
                return PromotionCheck(what, False, found)
            time.sleep(PAUSE_SECONDS)

    def _committed(self, settings: Settings) -> dict[int, int]:
        partitions = Topics(settings, self.clients).input_partitions
        with (
            closing(
                self.clients.standalone_consumer(settings.app_id, "read_committed")
            ) as consumer,
            broker_errors(f"could not fetch the committed offsets of the group {settings.app_id}"),
        ):
            found = committed_offsets(consumer, settings.input_topic, range(partitions))
        return {partition: committed.offset for partition, committed in found.items()}

    def _has_own_epoch(self) -> PromotionCheck:
        """Consumers tell two builds apart by it."""
        following = self.next
        if self.facets_topic is not None:
            following = replace(following, facets_topic=self.facets_topic)
        present = _epochs(self.present, has_facets=bool(self.present.facets))
        found = _epochs(following, has_facets=self.facets_topic is not None)
        shown = [f"{_listed(epochs)} in {topic}" for topic, epochs in (*present, *found)]
        is_known = all(epochs is not None for _, epochs in (*present, *found))
        before, after = (
            {epoch for _, epochs in side for epoch in epochs or ()} for side in (present, found)
        )
        is_own = is_known and not before & after
        return PromotionCheck("it has an epoch of its own", is_own, ", ".join(shown))


Epochs = list[tuple[str, set[int] | None]]  # topics with the epochs in them; see `published_epochs`


def _epochs(settings: Settings, *, has_facets: bool) -> Epochs:
    found = [(settings.output_topic, published_epochs(settings))]
    if has_facets:
        found.append((settings.facets_topic, published_epochs(settings, kind=FACETS)))
    return found


def _listed(epochs: set[int] | None) -> str:
    if epochs is None:
        return "messages without an epoch"
    return ", ".join(map(str, sorted(epochs))) or "nothing"


def _agrees(found: Comparison, bound: Callable[[Comparison], float | None]) -> PromotionCheck:
    allowed = bound(found)
    share = 100 * found.beyond / found.entities if found.entities else 0.0
    entities = many(found.entities, "entities")
    changed = f"{found.beyond:,} of {entities} are changed or missing ({share:.2f} %)"
    passed = found.entities > 0 and (allowed is None or found.beyond <= allowed)
    shown = changed if found.entities else "there is no summary in either topic"
    return PromotionCheck("it says what it should", passed, shown)
