"""Whether scores are what they should be: texts that others published, scored again, beside what
they are known to score.

Everything that is measured here rests on it; so it comes first, and where it fails nothing else is
done.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tests.bench.quality.rouge import PROTOCOLS, Rouge, average, rounded, scored

TOLERANCE = 0.05  # of a point: what rounding to two places and the order of sums may come to


class Known(NamedTuple):
    """A published system, and what its summaries score by each protocol; `perl` is ROUGE-1.5.5's,
    quoted.
    """

    system: str  # its name among the published texts
    title: str
    perl: Rouge
    mean: Rouge
    jackknife: Rouge


ROUGE_155 = "ROUGE-1.5.5 -c 95 -2 -1 -U -r 1000 -n 4 -w 1.2 -a -m"
KNOWN = (
    Known("lexrank_stefanos", "LexRank (QT's authors)", perl=Rouge(31.43, 5.05, 18.07),
          mean=Rouge(30.80, 5.00, 17.83), jackknife=Rouge(33.24, 6.16, 19.22)),
    Known("qt_stefanos", "QT", perl=Rouge(37.38, 8.82, 20.86), mean=Rouge(36.98, 8.63, 20.69),
          jackknife=Rouge(39.69, 11.03, 22.43)),
    Known("semae", "SemAE", perl=Rouge(37.77, 9.42, 21.85), mean=Rouge(37.17, 9.22, 21.62),
          jackknife=Rouge(40.11, 11.13, 23.48)),
    Known("hercules_ext", "Hercules, extractive", perl=Rouge(38.47, 10.66, 22.19),
          mean=Rouge(37.90, 10.44, 21.92), jackknife=Rouge(41.72, 13.15, 24.43)),
    Known("oracle", "oracle (published)", perl=Rouge(52.35, 29.84, 38.10),
          mean=Rouge(52.66, 30.38, 38.71), jackknife=Rouge(62.64, 45.02, 53.29)),
)  # fmt: skip


class NotCalibrated(Exception):
    """Scores are not what they are known to be."""


def system_score(
    texts: Mapping[str, str], references: Mapping[str, Sequence[str]]
) -> dict[str, Rouge]:
    """The mean over the entities that have references, by each protocol. A text that is missing
    scores nothing.
    """
    scores = [scored(texts.get(entity, ""), of) for entity, of in references.items()]
    return {protocol: average(score[protocol] for score in scores) for protocol in PROTOCOLS}


def calibrate(
    texts: Mapping[str, Mapping[str, str]],
    references: Mapping[str, Sequence[str]],
    known: Sequence[Known] = KNOWN,
) -> list[dict[str, object]]:
    """The published systems scored again, a row each. Raises NotCalibrated where one is more than
    TOLERANCE off.
    """
    rows: list[dict[str, object]] = []
    wrong = []
    for row in known:
        if row.system not in texts:
            wrong.append(f"{row.title}: no texts of the system {row.system!r}")
            continue
        found = system_score(texts[row.system], references)
        rows.append(
            {"system": row.title, "rouge_155": list(row.perl)}
            | {protocol: rounded(score) for protocol, score in found.items()}
        )
        for protocol in PROTOCOLS:
            wanted: Rouge = getattr(row, protocol)
            if max(abs(a - b) for a, b in zip(found[protocol], wanted, strict=True)) > TOLERANCE:
                wrong.append(
                    f"{row.title}, {protocol}: {shown(found[protocol])} in place of {shown(wanted)}"
                )
    if wrong:
        raise NotCalibrated(
            "published texts do not score what they are known to score, so no other score would be "
            "worth anything:\n  "
            + "\n  ".join(wrong)
            + "\nLook at the version of rouge-score (pyproject.toml has it) and at the files of "
            "texts and references."
        )
    return rows


def shown(score: Rouge) -> str:
    """`R1/R2/RL`."""
    return "/".join(f"{value:.2f}" for value in score)
