"""The tables of docs/quality.md, from the record of `make quality`, which prints them too."""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from docs.build.tables import markdown
from tests.bench.paper import theirs
from tests.bench.tables import machine_of, read_record

OURS = "ours"
ONE_ASPECT = ("building", "cleanliness", "food", "location", "rooms", "service")
TRACKERS = {
    OURS: "ours",
    "coversumm-random": "CoverSumm (random)",
    "coversumm-decay": "CoverSumm (decay)",
    "random": "20 drawn by chance",
}
VERDICTS = ("redundant", "informative")
JUDGED_NAMES = {
    "exact": "ours",
    "coversumm-random": "CoverSumm (random), tuned",
    "coversumm-decay": "CoverSumm (decay), tuned",
}
M_SHOWN = (1, 2, 3, 4, 6, 8, 10, 15, 20)


def calibration_table(record: Mapping[str, Any]) -> str:
    """Published texts, scored by three protocols."""
    return markdown(
        (
            "published texts",
            "ROUGE-1.5.5, quoted",
            "rouge-score, mean of the references",
            "jackknife of the best",
        ),
        (
            (row["system"], *(score(row[key]) for key in ("rouge_155", "mean", "jackknife")))
            for row in record["calibration"]
        ),
    )


def end_table(record: Mapping[str, Any]) -> str:
    """Every contender at the end, the best first, and published texts among them."""
    rows = record["at_the_end"]
    ours = next(row for row in rows if row["method"] == OURS)
    same = [row["method"] for row in rows if _same(row, ours) and row is not ours]
    shown = [row for row in rows if row["method"] not in same]
    lines = [
        (
            row["mean"],
            (
                row["method"],
                score(row["mean"]),
                score(row["jackknife"]),
                "" if row is ours else "{:+.1f} to {:+.1f}".format(*row["r1_from_ours"]),
                f"{row['words']:.0f}",
                f"{row['repeats']:.2f}",
                f"{row['near']:.2f}",
            ),
        )
        for row in shown
    ] + [
        (
            row["mean"],
            (
                f"*{row['system']}, published*",
                score(row["mean"]),
                score(row["jackknife"]),
                "",
                "",
                "",
                "",
            ),
        )
        for row in record["others"]
    ]
    table = markdown(
        (
            "method",
            "mean of the references",
            "jackknife of the best",
            "R1 from ours, 95 %",
            "words",
            "repeats",
            "near",
        ),
        (line for _, line in sorted(lines, key=lambda item: -item[0][0])),
    )
    return f"{table}\n\nThe same sets as ours, to the sentence: {', '.join(same)}."


def way_table(record: Mapping[str, Any]) -> str:
    """On the way: against silver summaries, against the human ones, with times, and what the paper
    reports.
    """
    lines = []
    for row in record["on_the_way"]:
        if row["method"] == "oracle":
            continue
        reported = theirs.ROUGE.get(row["method"])
        lines.append(
            (
                row["method"],
                score(row["silver_sentences"]),
                score(row["silver_reviews"]),
                score(row["mean"]),
                f"{row['ms']:,.2f}",
                f"{row['a_hotel']:,}",
                score(reported.rouge) if reported else "",
                f"{reported.seconds:,.2f}" if reported else "",
            )
        )
    return markdown(
        (
            "method",
            "silver, every 20 sentences",
            "silver, every 20 reviews",
            "human, every 20 sentences",
            "ms a summary",
            "summaries a hotel",
            "*paper: silver*",
            "*paper: s an entity*",
        ),
        lines,
    )


def aspects_table(record: Mapping[str, Any]) -> str:
    """R1 aspect by aspect, and the mean of all six by both protocols."""
    rows = record["aspects"]
    of = {(row["method"], row["aspect"]): row for row in rows}
    lines = []
    for method in dict.fromkeys(row["method"] for row in rows):
        each = [of[method, aspect] for aspect in ONE_ASPECT if (method, aspect) in of]
        means = [
            score(
                [
                    statistics.fmean(values)
                    for values in zip(*(row[protocol] for row in each), strict=True)
                ]
            )
            for protocol in ("mean", "jackknife")
        ]
        lines.append(
            (
                each[0]["mean"][0] if len(each) == len(ONE_ASPECT) else 0.0,
                (method, *(f"{row['mean'][0]:.1f}" for row in each), *means),
                statistics.fmean(row["mean"][0] for row in each),
            )
        )
    budgets = ", ".join(f"{aspect} {record['budgets'][aspect]}" for aspect in ONE_ASPECT)
    table = markdown(
        ("method", *(f"{aspect}, R1" for aspect in ONE_ASPECT), "all, mean", "all, jackknife"),
        (line for _, line, _ in sorted(lines, key=lambda item: -item[2])),
    )
    return (
        f"{table}\n\nWords of a summary at most: {budgets}; those of published texts are their own."
    )


def tracking_table(record: Mapping[str, Any]) -> str:
    """Mean absolute differences between what all reviews say and what a summary says."""
    rows = record["tracking"]
    kinds = list(dict.fromkeys((row["what"], row["order"]) for row in rows))
    named = {
        "rating": "stars, Amazon's products",
        "polarity": "polarity (-1 to 1), SPACE's hotels",
        "aspects": "aspects (0 to 6), SPACE's hotels",
    }
    papers = {
        ("rating", "temporal"): theirs.RATING_ERROR,
        ("aspects", "aspect by aspect"): theirs.ASPECT_ERROR,
    }
    lines = []
    for what, order in kinds:
        errors = [row["errors"] for row in rows if (row["what"], row["order"]) == (what, order)]
        paper = papers.get((what, order))
        lines.append(
            (
                f"{named[what]} ({len(errors)})",
                order,
                *(f"{statistics.fmean(error[name] for error in errors):.3f}" for name in TRACKERS),
                f"{paper:.2f}" if paper else "",
            )
        )
    table = markdown(("followed", "order", *TRACKERS.values(), "*paper*"), lines)
    return f"{table}\n\n{_polarity(rows)}"


def _polarity(rows: Sequence[Mapping[str, Any]]) -> str:
    """How polarity ends, beside that of the human summaries."""
    ends = [row for row in rows if row["what"] == "polarity"]
    human = statistics.fmean(row["human"] for row in ends)
    means = {name: statistics.fmean(row["last"][name] for row in ends) for name in ("all", OURS)}
    apart = {
        name: statistics.fmean(abs(row["last"][name] - row["human"]) for row in ends)
        for name in ("all", OURS)
    }
    return (
        f"At the end of a hotel the mean polarity of all its sentences is {means['all']:.2f}, of "
        f"ours {means[OURS]:.2f}, of "
        f"its human summaries {human:.2f}: ours is {apart[OURS]:.2f} from the human ones, all "
        "sentences are "
        f"{apart['all']:.2f} from them."
    )


def views_table(record: Mapping[str, Any]) -> str:
    """The published set and the short view: what they say again, what they stand for."""
    return markdown(
        ("of", "view", "with a twin above 0.8", "repeats", "near", "sentences it stands for"),
        (
            (
                row["entities"],
                row["view"],
                f"{100 * row['twins']:.0f} %",
                f"{row['repeats']:.2f}",
                f"{row['near']:.2f}",
                f"{100 * row['stands_for']:.1f} %",
            )
            for row in record["views"]
        ),
    )


def staleness_table(record: Mapping[str, Any]) -> str:
    """Changes published against m, and what is out of date."""
    rows = record["staleness"]
    groups = list(dict.fromkeys(row["entities"] for row in rows))
    of = {(row["entities"], row["m"]): row for row in rows}
    lines = []
    for m in M_SHOWN:
        cells = [str(m)]
        for group in groups:
            row = of[group, m]
            share = row["changes"] / of[group, 1]["changes"]
            cells.append(
                f"{row['changes']:,.0f} ({100 * share:.0f} %); {100 * row['out_of_date']:.0f} %"
            )
        lost = next((of[group, m] for group in groups if "r1_lost" in of[group, m]), None)
        if lost:
            cells.append(
                f"{lost['r1_lost']:+.2f} ({lost['r1_lost_interval'][0]:+.2f} to "
                f"{lost['r1_lost_interval'][1]:+.2f})"
            )
        lines.append(tuple(cells))
    headings = [f"{group}, of {of[group, 1]['reviews']:,.0f} reviews" for group in groups]
    lost_heading = ("R1 lost on SPACE, 95 %",) if any("r1_lost" in row for row in rows) else ()
    return markdown(("`m`", *headings, *lost_heading), lines)


def pairs_table(record: Mapping[str, Any]) -> str:
    """By data set and method how many of the changes one judge found redundant and informative,
    with 95 % intervals, beside the paper's percentages.
    """
    lines = []
    for reviews in ("Amazon", "SPACE"):
        for method, name in JUDGED_NAMES.items():
            drawn = {at for at, of in enumerate(record["key"]) if of == [reviews, method]}
            cells = []
            for verdict, paper in zip(VERDICTS, theirs.JUDGED[method][reviews], strict=True):
                count = len(drawn & set(record[verdict]))
                low, high = wilson(count, len(drawn))
                cells += [
                    f"{count} of {len(drawn)} ({100 * low:.0f} to {100 * high:.0f} %)",
                    f"{paper} %",
                ]
            lines.append((reviews, name, *cells))
    heads = (head for verdict in VERDICTS for head in (f"{verdict}, 95 %", "*paper*"))
    return markdown(("reviews", "method", *heads), lines)


def wilson(count: int, of: int) -> tuple[float, float]:
    """The 95 % interval of a share."""
    squared = statistics.NormalDist().inv_cdf(0.975) ** 2
    width = math.sqrt(squared * (count * (1 - count / of) + squared / 4))
    low, high = (count + squared / 2 + side for side in (-width, width))
    return low / (of + squared), high / (of + squared)


def sets_line(record: Mapping[str, Any]) -> str:
    """What was looked at, where and when."""
    sets = ", ".join(
        f"{data['set']} ({data['entities']} entities, {data['reviews']:,} reviews, "
        f"{data['sentences']:,} sentences)"
        for data in record["sets"]
    )
    given = record["parameters"]
    return (
        f"{sets}. Of the paper's methods b = {given['b']:,.0f} and alpha = {given['alpha']:g}, "
        f"found on {given['found_on']}. "
        f"`make quality` took {sum(record['seconds'].values()) / 60:.0f} minutes with vectors "
        "that were kept, on "
        f"{machine_of(record)}.{_again(record)}"
    )


def _again(record: Mapping[str, Any]) -> str:
    """The parts that were measured again, where only they could differ."""
    again = record.get("again")
    if again is None:
        return ""
    return (
        f" With the splitter of {again['date']} the products and stays were measured again; the "
        "hotels bring their own sentences."
    )


def score(of: Any) -> str:
    """R1, R2 and RL."""
    return " / ".join(f"{value:.2f}" for value in of)


def _same(row: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether summaries are those of the other: equal by all that was measured."""
    return all(row[key] == other[key] for key in ("mean", "jackknife", "words", "repeats", "near"))


TABLES: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "quality_sets": sets_line,
    "calibration": calibration_table,
    "at_the_end": end_table,
    "on_the_way": way_table,
    "by_aspect": aspects_table,
    "tracking": tracking_table,
    "views": views_table,
    "staleness": staleness_table,
}


def _recorded(table: Callable[[Mapping[str, Any]], str]) -> str:
    return table(read_record("quality.json"))


RECORDED: dict[str, Callable[[], str]] = {
    name: partial(_recorded, table) for name, table in TABLES.items()
} | {"pairs_judged": lambda: pairs_table(read_record("pairs_judged.json"))}
