"""What the demo makes of summary changes, and how it draws it."""

import gzip
import io
import json
import re
import time
from pathlib import Path
from unittest.mock import MagicMock

import pytest
from msgspec import structs
from rich.console import Console

from tests.view.changes import body, facets_body, facets_changed
from worker.demo import closing as closings
from worker.demo import play as pace
from worker.demo.closing import closing_lines
from worker.demo.reviews import ATTRIBUTION, bundled_reviews, reviews_file, stay_names
from worker.demo.story import Phase, Story
from worker.events import Ratings, Record
from worker.events.json_codec import encode
from worker.events.outputs import Mentions
from worker.settings import Settings
from worker.view.board import EntityNames
from worker.view.viewer import make_viewer

PARKING = {"parking": {"a#0": "Easy \x1b[31mparking."}, "noise": {}}
TEXTS = {"b#0": "Near \x1b[31mthe park. [bold]", "c#0": "Quiet."}


@pytest.fixture
def story():
    names = EntityNames({"stay": "Earl's loft"})
    story = Story(k=2, reviews=4, facets_topic="facets", names=names)
    story.started_at = 0.0
    tell(
        story,
        body("stay", 0, {"a#0": "Lovely\nplace."}, ["a#0"], review="a", previous=None, k=2),
        1.0,
    )
    tell(
        story,
        body("stay", 3, TEXTS, ["b#0", "c#0"], ["a#0"], "review.deleted", review="a", k=2),
        2.0,
    )
    return story


def tell(story, value, now):
    return story.take(Record("out", 0, 0, 0, b"stay", value), now)


def tell_facets(story, facets, **more):
    value = facets_body("stay", 9, facets, list(facets), **more)
    story.take(Record("facets", 0, 0, 0, b"stay", value), 2.0)


class Screen(io.StringIO):
    def isatty(self):
        return True


def drawn(story, as_json=False, terminal=False, width=140, height=24, close=False, **options):
    console = Console(
        file=Screen() if terminal else io.StringIO(),
        force_terminal=terminal,
        width=width,
        height=height,
        markup=False,
        emoji=False,
        **options,
    )
    with make_viewer(console, story, as_json=as_json) as viewer:
        viewer.update()
    if close:
        viewer.end(story.figures(), lambda height: closing_lines(console, story, height))
    return console.file.getvalue()


def plain(text):
    """Without what moves cursors and makes colours."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)


def test_caught_up_means_processed_and_seen(story):
    story.sent = 4
    counts = {
        "coversumm_events_total": 3.0,
        "coversumm_summary_changes_total": 2.0,
        "coversumm_facets_changes_total": 0.0,
        "coversumm_embedded_sentences_total": 9.0,
        "coversumm_dead_letters_total": 0.0,
    }
    story.take_counts(counts)
    assert not story.caught_up
    story.take_counts({})
    assert story.processed == 3
    story.take_counts(
        counts | {"coversumm_events_total": 4.0, "coversumm_summary_changes_total": 3.0}
    )
    assert not story.caught_up
    story.take_counts(counts | {"coversumm_events_total": 4.0})
    assert story.caught_up
    counts |= {"coversumm_events_total": 4.0}
    story.take_counts(counts | {"coversumm_facets_changes_total": 1.0})
    assert not story.caught_up
    tell_facets(story, PARKING)
    assert story.caught_up


def test_the_picture_of_the_start_says_what_will_be_seen():
    picture = " ".join(plain(drawn(Story(k=5, reviews=1000), terminal=True, width=80)).split())
    for part in (
        Phase.STARTING.value,
        "Real reviews of Airbnb stays",
        "the 5 sentences closest to what most guests say",
        ATTRIBUTION,
    ):
        assert part in picture


def test_the_picture_has_a_line_for_each_facet_of_the_stay(story):
    tell_facets(story, PARKING)
    picture = plain(drawn(story, terminal=True))
    assert "  parking, 10 sentences: Easy [31mparking." in picture
    assert "noise, " not in picture


def test_a_facet_with_words_is_shown_with_its_mentions(story):
    body = facets_changed("stay", 9, {"parking": PARKING["parking"]}, ["parking"])
    mentions = Mentions(93, Ratings(0, None))
    parking = structs.replace(body.facets[0], mentions=mentions)
    value = encode(structs.replace(body, facets=[parking]))
    story.take(Record("facets", 0, 0, 0, b"stay", value), 2.0)
    assert "  parking, 93 mentions: Easy [31mparking." in plain(drawn(story, terminal=True))


OVERVIEW = {
    "entity_id": "stay",
    "review_count": 871,
    "sentence_count": 2591,
    "ratings": {"count": 0, "mean": None},
    "facets": [
        {"name": name, "review_count": 100, "mentions": {"review_count": 1547}}
        for name in ("parking", "noise", *"abcdefg")
    ],
    "sentences": [
        {"facet": name, "review_id": f"r-{name}", "text": f"Of {name}: {'rather ' * 12}long."}
        for name in ("parking", "noise", *"abcdefg")
    ],
}


def test_the_closing_of_many_stays_is_above_the_prompt_of_a_small_terminal(story, monkeypatch):
    """It has subjects of the overview, each complete; rankings are for larger terminals."""
    # longer paths, of another directory, would take lines of their own
    monkeypatch.setattr(closings, "own_command", lambda: ".venv/bin/coversumm-worker")
    monkeypatch.setattr(closings, "typed_path", lambda _: "worker/demo/data/reviews.jsonl.gz")
    story.overview = OVERVIEW
    for number in range(7):
        value = body(f"stay {number}", 4, {"d#0": "So."}, ["d#0"], previous=None, k=2)
        tell(story, value, 3.0)
    picture = plain(drawn(story, terminal=True, width=80, close=True))
    lines = ("".join(picture.rpartition("What guests say of")[1:])).splitlines()
    assert len(lines) < 24
    assert max(map(len, lines)) <= 80
    assert lines[0].split() == (
        ["What", "guests", "say", "of", "Earl's", "loft", "871", "reviews,", "2,591", "sentences"]
    )
    said = " ".join(" ".join(lines).split())
    assert f"parking 1,547 mentions Of parking: {'rather ' * 12}long. [r-parking]" in " ".join(
        said.split()
    )
    assert said.count("long.") == said.count("[r-") < 9
    assert "ranking" not in said
    large = plain(drawn(story, terminal=True, width=100, height=60, close=True))
    closing = "".join(large.rpartition("What guests say of")[1:])
    assert closing.count("[r-") == 9
    assert re.search(r"^Each stay also has a ranking", closing, re.M)
    rows = re.findall(r"^  (stay \d|Earl's loft) +\d+  \S", closing, re.M)
    assert len(rows) == 8


@pytest.mark.parametrize(("width", "height"), [(40, 8), (20, 3), (300, 100)])
def test_the_picture_fits_any_terminal(story, width, height):
    tell_facets(story, PARKING)
    lines = plain(drawn(story, terminal=True, width=width, height=height)).split("\n")
    assert len(lines) <= height
    assert max(map(len, lines)) <= width


@pytest.mark.parametrize("dumb", ["dumb", "unknown"])
def test_a_terminal_that_cannot_redraw_gets_lines(story, monkeypatch, dumb):
    monkeypatch.setenv("TERM", dumb)
    assert "\x1b[?" not in drawn(story, terminal=True, width=80)


def test_without_colours_marks_and_words_are_left(story):
    story.doomed = frozenset({"b"})
    picture = drawn(story, terminal=True, no_color=True)
    assert not re.search(r"\x1b\[(?:\d+;)*3[0-7]", picture)
    assert "1 ! Near" in plain(picture)


def test_lines_are_plain(story):
    story.phase, story.processed = Phase.ARRIVING, 3
    lines = drawn(story, close=True)
    assert "3 reviews in, 2 changes out\n" in lines
    assert (
        "  Earl's loft: review a was taken down: its sentence is gone, 2 others entered\n" in lines
    )
    assert "    - Lovely place.\n" in lines
    assert "    + Near [31mthe park. [bold]\n" in lines
    assert "\x1b" not in lines


def test_in_a_pipe_each_change_is_printed_once(story):
    story.phase = Phase.ARRIVING
    printed = []
    for story.processed in (3, 4):
        story.next_line_at = 0.0
        printed += story.lines((), 1.0)
    assert [line for line in printed if "reviews in" in line] == [
        "3 reviews in, 2 changes out",
        "4 reviews in, 2 changes out",
    ]
    assert sum("its sentence is gone" in line for line in printed) == 1


@pytest.mark.parametrize("width", [40, 80, 160])
def test_the_closing_has_the_overview_in_full(story, width):
    story.overview = OVERVIEW
    closing = drawn(story, close=True, width=width).partition("What guests say")[2]
    words = " ".join(closing.split())
    assert len(re.findall(r"long\. \[r-\w+\]", words)) == 9
    assert max(map(len, closing.partition("Next, ")[0].splitlines())) <= width
    assert ATTRIBUTION in words


def test_without_an_overview_the_closing_begins_with_the_rankings(story):
    closing = drawn(story, close=True)
    assert "What guests say" not in closing
    assert re.search(r"^  Earl's loft +\d+  Near", closing, re.M)


def test_the_last_json_line_has_the_figures(story):
    story.ended_at, story.processed = 2.0, 4
    figures = json.loads(drawn(story, as_json=True, close=True))
    assert figures["events_per_second"] == 2.0
    assert figures["entities"][0]["entity_id"] == "stay"
    assert figures["entities"][0]["first_sentence"] == "Near [31mthe park. [bold]"


def test_an_end_by_ctrl_c_during_the_reviews_has_a_time(story, monkeypatch):
    monkeypatch.setattr(pace, "verify_data_dir", lambda _: [])
    monkeypatch.setattr(pace, "TopicWatch", MagicMock())
    story.started_at = time.monotonic() - 3.0
    pace.Play(story, MagicMock(), MagicMock(), Settings(data_dir=Path("."))).verify()
    assert 3.0 <= story.seconds() < 60.0


def test_the_pace_is_for_readers_first_and_then_for_the_worker():
    moments = [pace.due(number) for number in range(1000)]
    assert moments[0] == 0.0
    assert moments == sorted(moments)
    assert sum(moment < 2.0 for moment in moments) < 15
    assert moments[-1] < 12.0
    hurried = [pace.is_hurried(number) for number in range(1000)]
    assert not hurried[0]
    assert hurried[-1]
    assert hurried == sorted(hurried)


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


def test_a_stay_is_called_what_its_guests_call_it():
    """The host is the one whose place they say it is, and at least one in twelve uses the word for
    the place.
    """
    reviews = [
        json.loads(line) for line in gzip.decompress(reviews_file().read_bytes()).splitlines()
    ]
    names = stay_names()
    assert {review["entity_id"] for review in reviews} == set(names.entities)
    for entity_id, name in names.entities.items():
        texts = [review["text"].lower() for review in reviews if review["entity_id"] == entity_id]
        host, _, place = name.lower().partition("'s ")
        assert sum(place in text for text in texts) >= len(texts) / 12, name
        own = {other.lower().partition("'s ")[0] for other in names.entities.values()}
        said = {one: sum(bool(re.search(rf"\b{one}\b", text)) for text in texts) for one in own}
        assert max(said, key=said.get) == host, name
    assert len(set(names.entities.values())) == len(names.entities)
