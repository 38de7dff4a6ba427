"""What other facets change for an entity of files (`facets try`). Each text is embedded once."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
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
from worker.sources import Faulty, ReviewFiles, judged
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
    for label in [*after.sentences, *(before.sentences.keys() - after.sentences.keys())]:
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


def events_of(reviews: ReviewFiles, settings: Settings) -> tuple[dict[str, list[Record]], int]:
    """The events by entity, and the number of lines that cannot be used, which are named."""
    findings, lines = Findings(reviews), 0
    events: dict[str, list[Record]] = defaultdict(list)
    for entry in judged(reviews, event_limits(settings)):
        lines += entry.lines if isinstance(entry, Faulty) else 1
        if isinstance(entry, Faulty):
            findings.add(entry)
        else:
            events[(entry.key or b"").decode()].append(entry)
    warn_left_out(reviews)
    findings.complain(lines, reviews.unit)
    return events, findings.total


def chosen(events: Mapping[str, Sequence[Record]], entity: str | None) -> str:
    """The entity, or that with the most events. Raises SetupError if it has none."""
    most_first = sorted(events, key=lambda name: (-len(events[name]), name))
    if entity in events or (entity is None and events):
        return entity or most_first[0]
    what = "no reviews" if entity is None else f"no review of {entity!r}"
    others = f"; they have {first_names(most_first)}" if events else ""
    raise SetupError(f"{what} in these files{others}")


def tried(
    entity: str, records: Sequence[Record], settings: Settings, after: str
) -> tuple[Subjects, Subjects]:
    """The entity's subjects by the settings' facets, which may be none, and by others. Raises
    SetupError.
    """
    views: list[Subjects] = []
    engine = configured_engine(settings)
    with TemporaryDirectory(prefix="coversumm-try-") as folder:
        store = settings.vector_store_dir or Path(folder)
        vectors = open_vector_store(replace(settings, vector_store_dir=store), engine)
        for facets in filter(None, (settings.facets, after)):
            by = replace(settings, facets=facets)
            summarizer, refused = FileSummarizer(by, records[0].topic, engine, vectors), []
            with output.file_progress(len(records), "reviews") as progress:
                for at in range(0, len(records), AT_ONCE):
                    refused += summarizer.take(records[at : at + AT_ONCE]).rejected
                    progress.update(at, at)
            if (view := summarizer.view(entity, Subjects)) is None:
                why = f": {refused[0].detail}" if refused else ""
                raise SetupError(f"{entity!r} has no review at the end of these files{why}")
            views.append(view)
        if vectors is not None:
            vectors.close()
    before = views[0] if settings.facets else replace(views[0], sentences={}, mentions={})
    return before, views[-1]


def check_different(before: str, after: str) -> None:
    """Raise SetupError for facets that are wrong, and if both are the same."""
    if before and read_definitions(before).identity == read_definitions(after).identity:
        raise SetupError(
            f"{after} has the same facets as {before}: before you edit, keep a copy of the file "
            "that the worker uses, and name it with --before"
        )
