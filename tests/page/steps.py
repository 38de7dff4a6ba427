"""Steps of an entity's history, made by hand."""

from tests.view.changes import body
from worker.events import Record
from worker.published.history import steps
from worker.published.publication import publications


def steps_of(*summaries, entity="e", **more):
    """Each summary is a text by sentence id, None a tombstone; what came and went follows from
    them.
    """
    return list(steps(_publications(summaries, entity, more)))


def _publications(summaries, entity, more):
    before = {}
    previous = None
    for number, shown in enumerate(summaries):
        after = shown or {}
        value = None
        if shown is not None:
            added = [one for one in after if before.get(one) != after[one]]
            removed = [one for one in before if before[one] != after.get(one)]
            value = body(
                entity, number, after, added, removed, previous=previous, **at(more, number)
            )
        yield from publications(
            Record("t", 0, number, more.get("stamp", -1), entity.encode(), value)
        )
        before, previous = after, None if shown is None else number


def at(more, number):
    """The keywords of one body: a list has a value for each."""
    mine = {
        name: value[number] if isinstance(value, list) else value for name, value in more.items()
    }
    mine.pop("stamp", None)
    return mine
