"""What the demo makes of summary changes, and how it draws it."""

import io
import json

import pytest
from rich.console import Console

from worker.demo.display import make_display
from worker.demo.reviews import bundled_reviews, take_down
from worker.demo.story import Story, one_line
from worker.events import Cause, SummaryChanged, SummarySentence
from worker.events.codecs.json import encode


def change(entity_id, offset, texts, added, removed, cause="review.upserted"):
    """A summary of these texts by sentence id."""
    sentences = [
        SummarySentence(
            rank=rank,
            sentence_id=identifier,
            review_id=identifier.partition("#")[0],
            text=text,
            rating=None,
            distance=0.5,
            support=1,
        )
        for rank, (identifier, text) in enumerate(texts.items())
    ]
    body = SummaryChanged(
        entity_id=entity_id,
        epoch=1,
        sequence=offset,
        previous_sequence=None,
        sentences=sentences,
        added=added,
        removed=removed,
        review_count=len(texts),
        sentence_count=10 * len(texts),
        k=2,
        cause=Cause(type=cause, topic="t", partition=0, offset=offset, review_id="r"),
        occurred_at=None,
        embedding_model="m",
    )
    return encode(body)


@pytest.fixture
def story():
    story = Story(k=2, total=4)
    story.started_at = 0.0
    story.take_change(change("stay", 0, {"a#0": "Lovely\nplace."}, ["a#0"], []), 1.0)
    texts = {"b#0": "Near \x1b[31mthe park. [bold]", "c#0": "Quiet."}
    story.take_change(change("stay", 3, texts, ["b#0", "c#0"], ["a#0"], "review.deleted"), 2.0)
    return story


def drawn(story, as_json=False, terminal=False, width=140, height=24, close=False):
    console = Console(
        file=io.StringIO(), force_terminal=terminal, width=width, height=height, markup=False, emoji=False
    )
    display = make_display(console, story, as_json)
    with display:
        display.update()
    if close:
        display.close()
    return console.file.getvalue()


def test_a_story_follows_the_changes(story):
    (entity,) = story.in_order()
    assert (entity.review_count, entity.sentence_count, entity.changes) == (2, 20, 2)
    assert story.latest[-1].added == ("Near [31mthe park. [bold]", "Quiet.")
    assert story.latest[-1].removed == ("Lovely place.",)


def test_caught_up_means_processed_and_seen(story):
    story.sent = 4
    counts = {
        "coversumm_events_total": 3.0,
        "coversumm_summary_changes_total": 2.0,
        "coversumm_embedded_sentences_total": 9.0,
        "coversumm_dead_letters_total": 0.0,
    }
    story.take_counts(counts)
    assert not story.caught_up
    story.take_counts({})
    assert story.processed == 3
    story.take_counts(counts | {"coversumm_events_total": 4.0, "coversumm_summary_changes_total": 3.0})
    assert not story.caught_up
    story.take_counts(counts | {"coversumm_events_total": 4.0})
    assert story.caught_up


def test_the_picture_shows_status_entities_and_changes(story):
    picture = drawn(story, terminal=True)
    for part in ("CC BY 4.0", "0 of 4 events", "stay", "Near [31mthe park. [bold]", "- Lovely place."):
        assert part in picture


@pytest.mark.parametrize(("width", "height"), [(40, 8), (20, 3), (300, 100)])
def test_the_picture_fits_any_terminal(story, width, height):
    assert "coversumm-worker" in drawn(story, terminal=True, width=width, height=height)


def test_lines_are_plain(story):
    lines = drawn(story, close=True)
    assert '(review taken down) + "Near [31mthe park. [bold]" - "Lovely place."' in lines
    assert "\x1b" not in lines


def test_the_last_json_line_has_the_figures(story):
    story.ended_at, story.processed = 2.0, 4
    figures = json.loads(drawn(story, as_json=True, close=True))
    assert figures["events_per_second"] == 2.0
    assert figures["entities"][0]["first_sentence"] == "Near [31mthe park. [bold]"


def test_one_line_is_one_line():
    assert one_line(" a\r\n\tb\x00\x9b\u2028c ") == "a b c"
    assert one_line("Très bien 👍🏼, e\u0301té ❤\ufe0f 日本!") == "Très bien , été 日本!"


def test_reviews_are_events_in_the_order_of_their_days():
    events = [json.loads(review.value) for review in bundled_reviews()]
    assert len(events) == 4771
    assert {event["type"] for event in events} == {"review.upserted"}
    days = [event["occurred_at"] for event in events]
    assert days == sorted(days)
    assert all(
        review.key.decode() == event["entity_id"]
        for review, event in zip(bundled_reviews(), events, strict=True)
    )


def test_taking_down_names_entity_and_review():
    event = take_down("é", "r")
    assert event.key == "é".encode()
    assert json.loads(event.value) == {
        "type": "review.deleted",
        "entity_id": "é",
        "review_id": "r",
        "reason": "taken down",
    }
