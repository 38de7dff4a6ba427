"""Full stops by language: abbreviations end no sentence there, and English ones do."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.text.abbreviations import _NEVER_END, marked
from worker.text.splitting import split_sentences

SPLIT = {
    "de": [
        ["Die Küche hatte alles, z.B. Töpfe und Pfannen.", "Sehr gut."],
        ["Am 3. Mai sind wir angekommen.", "Es war schön."],
        ["Die Wohnung ist im 2. Stock.", "Sie ist ruhig."],
        ["Wir waren vom 3. bis 5. Mai dort.", "Super."],
        ["Alles war super.", "Möglichkeit zu waschen ist da."],
        ["Der Check-in war um 15.", "Alles gut."],
        ["Nur 5 Min. Fußweg.", "Gern wieder."],
    ],
    "es": [
        ["El Sr. García fue muy amable.", "La Sra. López también."],
        ["Fui por un curso de verano.", "Es exactamente lo que busco."],
    ],
    "fr": [
        ["Mme. Martin nous a accueillis.", "Tout est bien.", "Communication impeccable."],
        ["Il y a du sucre, du café, etc.", "Je recommande."],
    ],
    "it": [["Il Sig. Rossi è gentile.", "L'avv. Bianchi pure."]],
    "nl": [["Dhr. Jansen was erg vriendelijk.", "Dat is bijv. heel fijn."]],
    "pl": [["Mieszkanie przy ul. Długiej jest czyste.", "Polecam, tj. bardzo dobrze."]],
    "pt": [["A Dra. Silva foi ótima.", "O Sr. João também."]],
    "ru": [["На ул. Ленина, д. 5 очень тихо.", "Хорошо."]],
    "sv": [["Kl. 15 var vi där.", "Bra."]],
}
CASES = [(language, sentences) for language, every in SPLIT.items() for sentences in every]
TEXTS = st.lists(
    st.sampled_from("Sr. z.B. super. Mai 3. Stock 5 Min. etc. Très (ul. Gut! l'avv. A b".split())  # noqa: SIM905
).map(" ".join)


@pytest.mark.parametrize(("language", "sentences"), CASES)
def test_each_language_has_its_abbreviations(language: str, sentences: list[str]) -> None:
    assert split_sentences(" ".join(sentences), 2000, language) == sentences


@given(TEXTS | st.text(max_size=80), st.sampled_from([None, "en", "ja", "xx"]))
def test_other_languages_and_none_split_as_before(text: str, language: str | None) -> None:
    assert split_sentences(text, 2000, language) == split_sentences(text, 2000)


@given(TEXTS | st.text(max_size=80), st.sampled_from(sorted(_NEVER_END)))
def test_marks_change_no_character_but_full_stops(text: str, language: str) -> None:
    found = marked(text, language)
    assert len(found) == len(text)
    assert all(a == b or (a == "." and b in ",!") for a, b in zip(text, found, strict=True))


@given(TEXTS, st.sampled_from(sorted(_NEVER_END)))
def test_a_language_moves_ends_and_loses_nothing(text: str, language: str) -> None:
    assert " ".join(split_sentences(text, 2000, language)) == " ".join(split_sentences(text, 2000))


@pytest.mark.parametrize("part", ["a.", "sr. ", "3. ", "(", "'", "l'", "é.é", "ul. (", "\u0301."])
def test_the_time_is_linear(part: str) -> None:
    def seconds(times: int) -> float:
        started = time.process_time()
        marked(part * times, "de")
        return time.process_time() - started

    seconds(1000)
    assert seconds(200_000) < 40 * max(min(seconds(20_000) for _ in range(3)), 0.002)
