"""The overview on a terminal: subjects with counts, sentences, reviews, pros and cons."""

import io
import json

from rich.console import Console

from worker.view.cards import cards, entity_counts, overview_table


def said(text, review):
    return {"text": text, "review_id": review}


def counts(reviews, mean=None):
    return {"review_count": reviews, "ratings": {"count": reviews, "mean": mean}}


OVERVIEW = {
    "entity_id": "e",
    "review_count": 871,
    "sentence_count": 2591,
    "ratings": {"count": 800, "mean": 4.266},
    "sentences": [
        said("Parking \x1b[31mwas\nfine.", "r1") | {"facet": "parking"},
        said("Dear.", "r4") | {"facet": "price"},
        said("It was easy to park.", "r2") | {"facet": "parking"},
    ],
    "facets": [
        {
            "name": "parking",
            **counts(30, 2.0),
            "mentions": counts(1234, 3.96),
            "pros": [said("It was easy to park.", "r2"), said("A garage!", "r3")],
            "cons": [
                said("No space.", "r5"),
                said("No space.", "r6"),
                said("We paid a fine.", "r7"),
                said("Never again.", "r8"),
            ],
        },
        {"name": "noise", **counts(12), "mentions": counts(20)},
        {"name": "price", **counts(1), "pros": [], "cons": []},
    ],
}


def shown(overview, width=80):
    console = Console(file=io.StringIO(), width=width)
    console.print(overview_table(overview))
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def test_a_card_has_each_text_once_and_no_blanks_at_ends():
    """The nearest of copies, whose number stands beside it."""
    texts = ["Great place.", "Great place.", "A long text that takes two lines of the card. " * 3]
    sentences = [
        {"rank": rank, "text": text.strip(), "support": 3 - rank} for rank, text in enumerate(texts)
    ]
    body = {"entity_id": "e", "review_count": 3, "sentence_count": 3, "sentences": sentences}
    (card,) = cards([json.dumps(body).encode()], styled=False)
    lines = card.decode().splitlines()
    assert lines[1].split() == ["1", "Great", "place.", "3", "alike"]
    assert lines[2].startswith("3  A long text")
    assert [line for line in lines if line != line.rstrip()] == []


def test_a_subject_has_its_counts_its_sentences_and_its_sides():
    """Mentions and their mean rating, or reviews if there are no words. The sentences of a
    side are marked; it has two texts that are not shown yet. A subject without a sentence has its
    mentions alone, or is left out.
    """
    assert entity_counts(OVERVIEW) == "871 reviews, rated 4.3, 2,591 sentences"
    assert shown(OVERVIEW) == [
        "parking  1,234 mentions  Parking [31mwas fine. [r1]",
        "         rated 4.0       + It was easy to park. [r2]",
        "                         + A garage! [r3]",
        "                         - No space. [r5]",
        "                         - We paid a fine. [r7]",
        "noise    20 mentions",
        "price    1 review        Dear. [r4]",
    ]


def test_without_ratings_nothing_is_said_of_them():
    """Of other views too, and of an overview in one language, whose facets go by their name."""
    unrated = OVERVIEW | {"ratings": {"count": 0, "mean": None}}
    assert entity_counts(unrated) == "871 reviews, 2,591 sentences"
    assert entity_counts({"review_count": 1, "sentence_count": 1}) == "1 review, 1 sentence"
    facets = [{"name": "price", "language": "fr", **counts(1)}]
    assert shown(unrated | {"facets": facets}) == []
    (line,) = shown(unrated | {"facets": facets, "language": "fr"})
    assert line == "price  1 review  Dear. [r4]"


def test_a_narrow_table_cuts_no_word():
    for width in (30, 45):
        lines = shown(OVERVIEW, width)
        assert max(map(len, lines)) <= width
        assert "We paid a fine." in " ".join(" ".join(lines).split())
