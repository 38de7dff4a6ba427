"""docs/quality.md says in prose what its record says: every figure, and every order that a sentence
rests on.
"""

import copy
import inspect
import re
import statistics
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from docs.build.quality import OURS
from docs.build.render import ROOT
from tests.bench.paper import theirs
from tests.bench.quality.calibration import TOLERANCE
from tests.bench.quality.contenders import SHORT
from tests.bench.quality.hotels import EVERY, UNCUT, interval
from tests.bench.quality.support import COSINE, RARE
from tests.bench.quality.support_study import PEOPLE
from tests.bench.quality.tracking import FROM
from tests.bench.quality.views import THRESHOLD
from tests.bench.quality.walk import TOO_LIKE, WORDS
from tests.bench.tables import read_record
from worker.cli.facets import FACETS as DEFAULT_FACETS
from worker.facets.definitions import DEFAULT_THRESHOLD
from worker.processing.entity_view import THRESHOLD as ALIKE

PAGE = (ROOT / "docs" / "quality.md").read_text(encoding="utf-8")
PROSE = " ".join(re.sub(r"^<!-- (\w+) -->$.*?^<!-- /\1 -->$", "", PAGE, flags=re.M | re.S).split())
RECORD = read_record("quality.json")
FACETS = read_record("quality_facets.json")
SUPPORT = read_record("quality_support.json")

COUNTS = (
    "no",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
)
PARTS = {
    2: "half", 3: "third", 4: "quarter", 5: "fifth", 6: "sixth", 7: "seventh", 8: "eighth",
    9: "ninth", 10: "tenth", 11: "eleventh", 12: "twelfth", 20: "twentieth", 30: "thirtieth",
    40: "fortieth", 50: "fiftieth", 100: "hundredth",
}  # fmt: skip
NAMES = (
    "ROUGE-1.5.5", "ROUGE-1", "R1, mean of the references", "(R2 and RL)", "the script of 2005",
    "LSA** in sumy 0.13 keeps all topics",
    "SemAE's representations of 8,192 numbers", "Twenty sentences are not a text",
    "the mean cosine of two sentences of the summary",
    "(line 16)", "(lines 26 to 28)", "sentences are embedded (another five to ten, cached in",
    "Two baselines appear twice", "of Hercules is -61, and that of one-shot Mistral 7B +61",
    "read 60 pairs of sentences", "a precision of 0.57 and a recall of 0.23",
    "a cosine of 0.6 reached 0.66 and 0.65",
)  # fmt: skip
"""Numbers in prose that are no figures of a record."""


def count(value: float) -> str:
    """A number as prose has it, rounded."""
    return COUNTS[round(value)] if round(value) < len(COUNTS) else f"{value:,.0f}"


def part(share: float) -> str:
    """A share as prose has it: the nearest of those that have a name."""
    of = min(PARTS, key=lambda one: abs(1 / one - share))
    return f"{'an' if PARTS[of][0] == 'e' else 'a'} {PARTS[of]}"


class Found:
    """What a record says, as the sentences need it."""

    def __init__(self, record: Mapping[str, Any]) -> None:
        self.record = record
        self.end = {row["method"]: row for row in record["at_the_end"]}
        self.way = {row["method"]: row for row in record["on_the_way"]}
        self.trained = [
            row["mean"][0]
            for row in record["others"]
            if row["system"] in ("QT", "SemAE", "Hercules, extractive", "HIRO, extractive")
        ]
        self.large = {
            row["m"]: row for row in record["staleness"] if row["entities"] == "Amazon, a product"
        }
        self.hotel = {
            row["m"]: row for row in record["staleness"] if row["entities"] == "SPACE, a hotel"
        }
        self.space = record["sets"][0]

    def r1(self, method: str) -> float:
        """ROUGE-1 at the end."""
        return float(self.end[method]["mean"][0])

    def apart(self, method: str) -> str:
        """Whether 25 hotels tell it from ours: "behind", "level" or "ahead"."""
        low, high = self.end[method]["r1_from_ours"]
        return "behind" if high < 0 else "ahead" if low > 0 else "level"

    def aspects(self, method: str) -> dict[str, float]:
        """R1 by aspect."""
        return {
            row["aspect"]: row["mean"][0]
            for row in self.record["aspects"]
            if row["method"] == method
        }

    def error(self, what: str, order: str, method: str) -> float:
        """Mean absolute difference over the entities."""
        return statistics.fmean(self.errors(what, order, method))

    def errors(self, what: str, order: str, method: str) -> list[float]:
        """Of each entity, the largest first."""
        rows = [
            row for row in self.record["tracking"] if (row["what"], row["order"]) == (what, order)
        ]
        return [row["errors"][method] for row in sorted(rows, key=lambda row: -row["reviews"])]

    def shows_from(self) -> int:
        """The least m whose loss of ROUGE differs from zero."""
        return min(m for m, row in self.hotel.items() if row["r1_lost_interval"][0] > 0)


def figures(record: Mapping[str, Any]) -> list[str]:
    """Every piece of prose that has a figure in it, as it has to stand on the page."""
    found = Found(record)
    trained = [one - found.r1(OURS) for one in (min(found.trained), max(found.trained))]
    share = found.large[4]["changes"] / found.large[1]["changes"]
    aspects = [
        statistics.fmean(found.aspects(one).values()) for one in (OURS, "ours, the general set")
    ]
    on_the_way = [
        abs(found.way[method][silver][0] - found.way[OURS][silver][0])
        for method in ("coversumm-random", "coversumm-decay")
        for silver in ("silver_sentences", "silver_reviews")
    ]
    paper = [
        theirs.ROUGE["coversumm-lazy"].rouge[0] - theirs.ROUGE[method].rouge[0]
        for method in ("coversumm-random", "coversumm-decay")
    ]
    protocols = [
        max(scores) - min(scores)
        for row in record["calibration"]
        for scores in [[row[key][0] for key in ("rouge_155", "mean", "jackknife")]]
    ]
    k, m = record["parameters"]["k"], 4
    minutes = sum(record["seconds"].values()) / 60
    lsa = found.way["LSA"]["ms"] / found.way[OURS]["ms"]
    return [
        f"SumBasic is {count(found.r1('SumBasic') - found.r1(OURS))} points of ROUGE-1 ahead, "
        f"which {found.space['entities']} hotels can",
        f"are {count(trained[0])} to {count(trained[1])} points better. The best choice from the "
        f"same sentences is {count(found.r1('oracle') - found.r1(OURS))} points better",
        f"Cut to {WORDS} words, near-duplicates skipped, it scores "
        f"{count(found.r1(OURS) - found.r1(UNCUT))} points more of ROUGE-1 than",
        f"One change in {count(1 / share)} is enough",
        f"set to publish only when {m} of {k} sentences differ",
        f"which is {count(aspects[0] - aspects[1])} points better than looking for it in the "
        "summary of everything",
        f"The hotels are SPACE's {found.space['entities']} test hotels, with three human "
        "summaries each. The walk of the authors' published code cuts each method's "
        f"{k} best sentences to {WORDS} words",
        f"(TF-IDF cosine of {TOO_LIKE})",
        "R1 / R2 / RL. Protocols differ by up to " + count(max(protocols)) + " points",
        f"within {TOLERANCE} of the known one",
        f"The 95 % intervals below come from drawing the hotels again "
        f"{inspect.signature(interval).parameters['draws'].default:,} times",
        f"it is {count(found.r1('LSA') - found.r1('LSA as sumy has it'))} points better, and "
        "still no better than chance",
        f"a summary every {EVERY} steps",
        f"so every {EVERY} reviews are "
        f"{count(found.space['reviews'] / found.space['entities'] / EVERY)} looks",
        f"(here {WORDS} words, as any)",
        f"are within {part(max(on_the_way))} of a point of the exact sets on the way, where the "
        "paper loses "
        f"{count(min(paper))} to {count(max(paper))} points",
        f"ours is {part(found.way[OURS]['ms'] / found.way['SumBasic']['ms'])} of SumBasic's and "
        "less than "
        f"{part(1 / 10 ** int(np.log10(lsa)))} of LSA's",
        f"At the {round(found.space['sentences'] / found.space['entities'], -2):.0f} sentences of "
        "a hotel brute force is as fast",
        f"A centroid of its own is worth {count(aspects[0] - aspects[1])} points",
        f"from the {FROM}th review on",
        f"with {k} sentences drawn by chance",
        f"The short view has {k} sentences too, nearest first, but none with a cosine "
        f"above {THRESHOLD} to one before it",
        f"the walk to {WORDS} words leaves twins out anyway",
        f"at least `m` of its {k} sentences differ",
        f"At `m` = {m} readers get one change in {count(1 / share)} on large products, and "
        f"{part(found.large[m]['out_of_date'])} of their set is out of date",
        f"ROUGE-1 is not measurable; from {found.shows_from()} on it begins to show",
        f"takes {'ten to fifteen' if 10 <= minutes <= 15 else f'{minutes:.0f}'} minutes on two "
        "cores",
    ]  # fmt: skip


def facet_figures(record: Mapping[str, Any]) -> list[str]:
    """The same of the part about facets."""
    of = {row["method"]: row for row in record["overviews"]}
    facets, plain, rival = of["facets"], of[OURS], of[record["rival"]]
    best = max((row for row in of.values() if row["published"]), key=lambda row: row["mean"][0])
    more, beside, behind, phrase = (
        facets["mean"][0] - plain["mean"][0],
        facets["mean"][0] - rival["mean"][0],
        best["mean"][2] - facets["mean"][2],
        facets["mean"][0] - of["facets, nearest to the phrase"]["mean"][0],
    )
    r1 = [row["r1"] for row in record["phrasings"] if row["threshold"] == DEFAULT_THRESHOLD]
    aspects: dict[str, dict[str, float]] = {}
    for row in record["aspects"]:
        aspects.setdefault(row["aspect"], {})[row["method"]] = row["mean"][0]
    ahead = [max(one, key=lambda name: one[name]) == "facets" for one in aspects.values()]
    members = [row["members"] for row in record["shown"]]
    left = {
        row["entities"].split(",")[0]: row["facets.changed"] / first["facets.changed"]
        for first, row in zip(record["changes"][::3], record["changes"][1::3], strict=True)
    }
    return [
        f"scores {more:.1f} points of ROUGE-1 more than the summary of everything and "
        f"{count(beside)} more than the best published extractive system",
        f"{count(behind)} points behind it in ROUGE-L",
        f"the mean cosine of two of its sentences is {facets['repeats']:.2f} instead of "
        f"{plain['repeats']:.2f}",
        f"Each of SPACE's {count(len(aspects))} aspects is a facet with one phrase",
        f"and {count(phrase)} points from the centroid",
        f"At the default threshold of {DEFAULT_THRESHOLD} the first three phrasings are level; "
        f"single words lose {count(max(r1) - r1[-1])} points",
        f"ahead of both published systems in {count(sum(ahead))} of {count(len(ahead))} aspects",
        f"(cosine above {ALIKE})",
        f"A preset's facets hold {part(min(members))} to {part(max(members))} of the sentences",
        f"leaves {part(left['Airbnb'])} of the changes of the stay and {part(left['Amazon'])} of "
        "those of the product",
    ]


def support_figures(record: Mapping[str, Any]) -> list[str]:
    """The same of support and suggested facets."""
    of = {row["summary"]: row for row in record["support"]}
    said = {name: f"{100 * row['of_a_sentence']:.0f} %" for name, row in of.items()}
    hercules = of["Hercules, abstractive"]
    rare = [count(1 / of[name]["rare"]) for name in ("facets", hercules["summary"], PEOPLE)]
    assert rare[1] == rare[2]
    made = record["suggested"]
    (default,) = (row for row in made["overviews"] if row["asked"] == DEFAULT_FACETS)
    r1 = default["mean"][0]
    best = of["Hercules, extractive"]["mean"][0]
    return [
        f"is {count(hercules['mean'][0] - MISTRAL)} points of ROUGE-1 ahead",
        f"a cosine of {COSINE} or more to it",
        f"less than {100 * RARE:.0f} % of the hotel's reviews",
        f"{said['facets']} of the reviews support a sentence of the overview, {said[OURS]} one of "
        f"the summary of everything, and {said[PEOPLE]} one that people wrote",
        f"One of {rare[0]} sentences of the overview is rare, and one of {rare[1]} of those of "
        "Hercules and of people",
        f"from {made['reviews']} reviews of {count(made['hotels'])} other hotels",
        f"The default, {count(default['asked'])} facets of which {count(default['shown'])} are not "
        f"hidden, is {count(of['facets']['mean'][0] - r1)} points of ROUGE-1 behind",
        f"and {count(r1 - best)} points ahead of the best published extractive system. The more",
    ]


MISTRAL = 34.78
"""ROUGE-1 of the texts of Mistral 7B that HIRO's authors published, by the mean of references."""


def test_the_order_of_suggested_facets() -> None:
    r1 = [row["mean"][0] for row in SUPPORT["suggested"]["overviews"]]
    assert r1 == sorted(r1, reverse=True)


def test_the_figures_of_support_are_those_of_the_other_record() -> None:
    other = {row["method"]: row["mean"] for row in FACETS["overviews"]}
    for row in SUPPORT["support"]:
        if row["summary"] in other:
            assert row["mean"] == other[row["summary"]]


@pytest.mark.parametrize(
    "piece", [*figures(RECORD), *facet_figures(FACETS), *support_figures(SUPPORT)]
)
def test_a_figure_is_that_of_the_record(piece: str) -> None:
    assert piece in PROSE


def test_no_figure_is_left_unchecked() -> None:
    rest = PROSE
    pieces = (*figures(RECORD), *facet_figures(FACETS), *support_figures(SUPPORT), *NAMES)
    for piece in sorted(pieces, key=len, reverse=True):
        assert piece in PROSE
        rest = rest.replace(piece, "")
    rest = re.sub(r"\]\([^)]*\)|`[^`]*`", "", rest)
    numbers = "|".join([*COUNTS[2:], *PARTS.values(), "twenty", "fifteen"])
    assert re.findall(rf".{{0,40}}(?:\d|\b(?:{numbers})s?\b).{{0,20}}", rest, flags=re.I) == []


def test_another_record_asks_for_other_prose() -> None:
    other = copy.deepcopy(RECORD)
    (ours,) = (row for row in other["at_the_end"] if row["method"] == OURS)
    ours["mean"][0] -= 3
    asked = {piece for piece in figures(other) if piece not in PROSE}
    assert len(asked) == 3
    assert "SumBasic is five points of ROUGE-1 ahead, which 25 hotels can" in asked


def test_facets_among_published_texts() -> None:
    of = {row["method"]: row for row in FACETS["overviews"]}
    facets, rival = of["facets"], of[FACETS["rival"]]
    assert facets["from_plain"][0] > 0
    assert facets["from_rival"][0] > 0
    better = [name for name, row in of.items() if row["mean"][0] > facets["mean"][0]]
    assert all("abstractive" in name for name in better), better
    extractive = [
        row["mean"][0] for name, row in of.items() if row["published"] and "abstr" not in name
    ]
    assert rival["mean"][0] == max(one for one in extractive if one < facets["mean"][0])
    at = {
        row["phrasing"]: row["r1"]
        for row in FACETS["phrasings"]
        if row["threshold"] == DEFAULT_THRESHOLD
    }
    good, both, about, *_ = at.values()
    assert max(good, both, about) - min(good, both, about) < 0.5


def test_the_order_of_methods() -> None:
    found = Found(RECORD)
    apart = {method: found.apart(method) for method in found.end}
    for method in (
        "random",
        "LSA",
        "TextRank",
        "Centroid-OPT",
        "LSA as sumy has it",
        "Centroid-OPT as published",
        UNCUT,
    ):
        assert apart[method] == "behind", method
    for method in ("LexRank", "SumBasic", SHORT):
        assert apart[method] == "level", method
    ours, sum_basic, chance = (found.end[one] for one in (OURS, "SumBasic", "random"))
    assert ours["mean"][1] > sum_basic["mean"][1]
    assert ours["mean"][2] > sum_basic["mean"][2]
    assert sum_basic["repeats"] <= chance["repeats"]
    assert found.r1("Centroid-OPT as published") < found.r1("random") < found.r1("Centroid-OPT")
    assert found.r1("LSA as sumy has it") < found.r1("LSA") < found.r1("random")
    for method in (
        "brute-force",
        "naive-faiss",
        "coversumm-lazy",
        "coversumm-reservoir",
        "coversumm-knn-range",
    ):
        assert found.end[method]["mean"] == ours["mean"]


def test_the_order_on_the_way() -> None:
    found = Found(RECORD)
    silver = {
        method: row["silver_sentences"][0]
        for method, row in found.way.items()
        if method in theirs.ROUGE
    } | {OURS: found.way[OURS]["silver_sentences"][0]}
    assert min(silver, key=lambda one: silver[one]) == "LSA"
    assert max(silver["TextRank"], silver["Centroid-OPT"]) < silver[OURS] < silver["SumBasic"]
    assert silver["LexRank"] == pytest.approx(silver[OURS], abs=0.5)
    steps = [row["ms"] for row in RECORD["on_the_way"] if row["kind"] == "CentroidRank"]
    assert found.way["brute-force"]["ms"] <= 1.1 * min(steps)


def test_the_order_of_aspects() -> None:
    found = Found(RECORD)
    ours, chance = found.aspects(OURS), found.aspects("random")
    assert [aspect for aspect in ours if chance[aspect] > ours[aspect]] == ["building"]
    for aspect in ("cleanliness", "service"):
        others = [
            one
            for one in RECORD["aspects"]
            if one["aspect"] == aspect and one["method"] != "oracle"
        ]
        assert max(others, key=lambda one: one["mean"][0])["method"] == OURS


def test_what_is_followed() -> None:
    found = Found(RECORD)
    for order in ("temporal", "falling", "rising"):
        assert found.error("rating", order, OURS) < theirs.RATING_ERROR
        stars = found.errors("rating", order, OURS)
        assert statistics.fmean(stars[:3]) < statistics.fmean(stars[-3:])
    ours, chance = (found.errors("rating", "temporal", method) for method in (OURS, "random"))
    assert statistics.fmean(ours) == pytest.approx(statistics.fmean(chance), abs=0.02)
    assert [ours[at] < chance[at] for at in (0, -1)] == [True, False]
    for what, order in (("polarity", "temporal"), ("aspects", "aspect by aspect")):
        assert found.error(what, order, "random") < found.error(what, order, OURS) / 2
    ends = [row for row in RECORD["tracking"] if row["what"] == "polarity"]
    ours_at_the_end, everything, people = (
        statistics.fmean(values)
        for values in zip(
            *((row["last"][OURS], row["last"]["all"], row["human"]) for row in ends), strict=True
        )
    )
    assert ours_at_the_end == pytest.approx(people, abs=0.05)
    assert ours_at_the_end > everything + 0.1


def test_the_short_view_stands_for_hardly_more() -> None:
    views = {(row["entities"], row["view"]): row for row in RECORD["views"]}
    for entities in {entities for entities, _ in views}:
        ours, short = views[entities, OURS], views[entities, SHORT]
        assert short["twins"] == 0.0 < ours["twins"]
        assert abs(short["stands_for"] - ours["stands_for"]) < 0.01
