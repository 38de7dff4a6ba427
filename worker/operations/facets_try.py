"""What other facets change for an entity of files (`facets try`). Each text is embedded once."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, Self

from worker.errors import SetupError
from worker.events import Record
from worker.facets.definitions import read_definitions
from worker.operations.findings import Findings, first_names, warn_left_out
from worker.operations.summarize_run import FileSummarizer
from worker.processing.config import configured_engine, event_limits
from worker.processing.entity_view import EntityView, FacetsView, Source
from worker.settings import Settings
from worker.sources import ReviewFiles, judged
from worker.state.entity import EntityRows
from worker.state.facet_members import FacetMembers, rows_of
from worker.state.partition import read_criteria
from worker.storage.vectors import open_vector_store
from worker.view import output

AT_ONCE: Final = 100  # reviews between two updates of the progress


@dataclass(frozen=True, slots=True)
class Subjects(EntityView):
    """All sentences of an entity's facets, by label in the order of the definitions."""

    entity: EntityRows
    sentences: Mapping[str, set[bytes]]
    mentions: Mapping[str, int]  # reviews with the words of a facet that has any
    partition: int | None = None
    next_offset: int | None = None

    @classmethod
    def read(cls, source: Source) -> Self:
        entity, criteria = source.entity, read_criteria(source.entity.rows)
        counted = {
            facet.label: facet.mentions.review_count
            for facet in FacetsView.read(source).facets
            if facet.mentions
        }
        assert criteria is not None  # or there were no such view
        definitions, members = criteria.definitions, FacetMembers(criteria, entity.review_facts())
        labels = {number: definitions.summaries[number].label for number in definitions.visible}
        sentences: dict[str, set[bytes]] = {label: set() for label in labels.values()}
        for block in entity.blocks():
            bits = members.bits(block.vectors, block.places)
            for number, label in labels.items():
                sentences[label].update(map(block.id, rows_of(bits, number).tolist()))
        return cls(*source.counts, entity, sentences, counted)


def compared(
    before: Subjects, after: Subjects
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The counts of each facet, before and after (null: it has none); and the sentences that moved,
    by the facets that they left and came to, the most first.
    """
    counts, moved = [], defaultdict[bytes, tuple[list[str], list[str]]](lambda: ([], []))
    for label in dict.fromkeys([*after.sentences, *before.sentences]):
        sets = [view.sentences.get(label) for view in (before, after)]
        mentions = [view.mentions.get(label) for view in (before, after)]
        sizes = [None if found is None else len(found) for found in sets]
        counts.append({"facet": label, "mentions": mentions, "sentences": sizes})
        was, now = (found or set() for found in sets)
        for at, names in enumerate((was - now, now - was)):
            for name in names:
                moved[name][at].append(label)
    groups = defaultdict[tuple[tuple[str, ...], ...], dict[str, str]](dict)
    for name, (left, came) in sorted(moved.items()):
        groups[tuple(left), tuple(came)][name.decode()] = after.entity.text_and_details(name)[0]
    largest_first = sorted(groups.items(), key=lambda group: (-len(group[1]), group[0]))
    keys = ("from", "to", "sentences")
    return counts, [dict(zip(keys, (*way, texts), strict=True)) for way, texts in largest_first]


class TryRun:
    """Files of reviews, and what facets make of one of their entities."""

    def __init__(self, reviews: ReviewFiles, settings: Settings) -> None:
        """Reads the files."""
        self._reviews, self._settings = reviews, settings
        self._findings = Findings(reviews)
        self._events: dict[str, list[Record]] = defaultdict(list)
        entries = judged(reviews, event_limits(settings))
        for record in self._findings.usable(entries, reviews.unit):
            self._events[(record.key or b"").decode()].append(record)

    def subjects(self, entity: str | None, *facets: str) -> list[Subjects]:
        """Those of this entity, or of that with the most events, by each of these values of
        COVERSUMM_FACETS; none by an empty one, which may not be the last. Raises SetupError.
        """
        if not self._events:
            raise SetupError("no reviews in these files")
        most_first = sorted(self._events, key=lambda name: -len(self._events[name]))
        entity = most_first[0] if entity is None else entity
        if entity not in self._events:
            names = first_names(most_first)
            raise SetupError(f"no review of {entity!r} in these files; they have {names}")
        records = self._events[entity]
        views: list[Subjects] = []
        engine = configured_engine(self._settings)
        with TemporaryDirectory(prefix="coversumm-try-") as folder:
            store = self._settings.vector_store_dir or Path(folder)
            kept = open_vector_store(replace(self._settings, vector_store_dir=store), engine)
            with closing(kept) if kept is not None else nullcontext() as vectors:
                for value in filter(None, facets):
                    settings = replace(self._settings, facets=value)
                    summarizer = FileSummarizer(settings, self._reviews.topic, engine, vectors)
                    self._process(records, summarizer, is_first=not views)
                    if (view := summarizer.view(entity, Subjects)) is None:
                        raise SetupError(f"{entity!r} has no review at the end of these files")
                    views.append(view)
        nothing = replace(views[-1], sentences={}, mentions={})
        return views if all(facets) else [nothing, *views]

    def _process(
        self, records: Sequence[Record], summarizer: FileSummarizer, *, is_first: bool
    ) -> None:
        with output.file_progress(len(records), "reviews") as progress:
            for at in range(0, len(records), AT_ONCE):
                for fault in summarizer.take(records[at : at + AT_ONCE]).rejected:
                    if is_first:
                        self._findings.add(fault)
                progress.update(at, at)

    def finish(self) -> int:
        """Report; returns the number of lines that cannot be used."""
        warn_left_out(self._reviews)
        self._findings.complain()
        return self._findings.total


def check_different(before: str, after: str) -> None:
    """Raise SetupError for facets that are wrong, and if both are the same."""
    if read_definitions(after).identity == (before and read_definitions(before).identity):
        raise SetupError(
            f"{after} has the same facets as {before}: before you edit, keep a copy of the file "
            "that the worker uses, and name it with --before"
        )
