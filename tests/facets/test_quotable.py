"""Quotable sentences: examples, and the definition told otherwise."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.harness.words import can_be_quoted, names_a_person
from worker.facets.quotable import has_personal_name, is_quotable

WORDS = [
    *("The", "it", "but", "room", "quiet", "very", "hotel", "shit", "Shitty", "☐", "[b]", "wi-fi"),
    *("und", "Küche", "sauber", "sehr", "et", "propre", "très", "muy", "limpio", "y", "日本語の宿"),
]


@pytest.mark.parametrize(
    ("text", "language", "expected"),
    [
        ("The place was very quiet, clean and cozy - just as described!", None, True),
        ("The food is good.", "en", False),  # one word that is not generic
        ("The bed and the pillows were soft.", "en", True),
        ("Bed, pillows, towels soft.", "en", False),  # four words
        ("It was quiet, clean and cozy at night.", "en-GB", False),
        ("They kept our luggage at the desk.", "en", False),
        ("They kept our luggage at the desk.", "fr", True),  # its list is English
        ("[h1]Graphics[/h1] of the old game look good", "en", False),
        ("☐ Bad graphics, ☑ good graphics of a game", "en", False),
        ("The room wasnâ€™t clean and smelled of smoke", "en", False),
        ("See https://example.org for rates of the rooms.", "en", False),
        ("Rooms [not suites] have a kettle and two cups.", "en", True),
        ("The manager treated all guests like shit.", "en", False),
        ("The manager treated guests like scheiße.", "en", False),  # of any language
        ("Die Küche war sauber und das Bad groß.", "de", True),
        ("Es war sauber, ruhig und zentral gelegen.", "de", False),
        ("部屋はとても清潔で駅からも近いです。", "ja", True),
        ("部屋は清潔", "ja", False),
        (" ".join(["word"] * 32), "en", True),
        (" ".join(["word"] * 33), "en", False),
        ("very long words " + "x" * 484, "en", False),
        ("four very long words " + "x" * 479, "en", True),
    ],
)
def test_examples(text, language, expected):
    assert is_quotable(text, language) is can_be_quoted(text, language) is expected


@given(
    st.lists(st.sampled_from(WORDS), max_size=40).map(" ".join),
    st.sampled_from([None, "en", "de-AT", "fr", "es", "ja", "und"]),
)
def test_it_is_the_definition(text, language):
    assert is_quotable(text, language) is can_be_quoted(text, language)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Mr. Oyelaran never answered us.", True),
        ("mr oyelaran never answered us.", False),
        ("MRS OYELARAN NEVER ANSWERED", True),
        ("We wrote to Mr", False),
        ("Sarah was rude.", True),
        ("We liked Sarah's rooms.", True),
        ("sarah was rude.", False),
        ("We met SARAH.", True),
        ("The manager Oyelaran was rude.", False),  # no first name of the list
        ("Near St. Mark's Square.", False),
        ("Mark met us near St. Mark's Square.", True),
        ("We were in Paris in June.", False),
    ],
)
def test_names_of_persons(text, expected):
    assert has_personal_name(text) is names_a_person(text) is expected
