"""The figures the paper reports, as printed there. They were not measured here and are shown beside
ours, marked as theirs.

Basu Roy Chowdhury et al., Incremental Extractive Opinion Summarization Using Cover Trees, TMLR
2024. Times are seconds for a whole stream on an Intel Xeon Silver 4214 (Python 3.6, a tree in C++),
means of five runs; accuracy is the percentage of steps with the right nearest neighbours in the
right order; k = 20. `space` and `amazon` are means an entity.
"""

from typing import NamedTuple

TABLE_1_SOURCE = "Table 1 of the paper and, adversarial, its appendix; Xeon Silver 4214"
THEIR_EVENTS = 10_000  # of the uniform, LDA and adversarial streams


class Figure(NamedTuple):
    seconds: float
    accuracy: float | None  # percent; None: not reported


def _column(**figures: tuple[float, float]) -> dict[str, Figure]:
    return {method.replace("_", "-"): Figure(*figure) for method, figure in figures.items()}


TABLE_1: dict[str, dict[str, Figure]] = {
    "uniform": _column(
        brute_force=(28.23, 100.0),
        naive_cover_tree=(26.37, 100.0),
        naive_faiss=(2.22, 100.0),
        coversumm_knn_range=(1.08, 100.0),
        coversumm_reservoir=(0.91, 100.0),
        coversumm_lazy=(0.87, 100.0),
        naive_hnsw=(5.35, 4.9),
        coversumm_random=(0.53, 0.2),
        coversumm_decay=(1.28, 1.0),
    ),
    "lda": _column(
        brute_force=(26.09, 100.0),
        naive_cover_tree=(25.21, 100.0),
        naive_faiss=(2.25, 100.0),
        coversumm_knn_range=(1.34, 100.0),
        coversumm_reservoir=(0.96, 100.0),
        coversumm_lazy=(0.92, 100.0),
        naive_hnsw=(4.44, 26.6),
        coversumm_random=(0.59, 0.2),
        coversumm_decay=(0.70, 8.9),
    ),
    "space": _column(
        brute_force=(7.78, 100.0),
        naive_cover_tree=(3.23, 100.0),
        naive_faiss=(1.30, 100.0),
        coversumm_knn_range=(1.43, 100.0),
        coversumm_reservoir=(1.25, 100.0),
        coversumm_lazy=(1.14, 100.0),
        naive_hnsw=(3.25, 72.3),
        coversumm_random=(1.02, 2.3),
        coversumm_decay=(1.35, 10.7),
    ),
    "amazon": _column(
        brute_force=(49.82, 100.0),
        naive_cover_tree=(17.53, 99.6),
        naive_faiss=(4.81, 99.6),
        coversumm_knn_range=(2.30, 99.7),
        coversumm_reservoir=(1.47, 99.7),
        coversumm_lazy=(1.36, 99.7),
        naive_hnsw=(7.07, 81.2),
        coversumm_random=(0.62, 0.5),
        coversumm_decay=(0.53, 2.3),
    ),
    # Of the appendix.
    "adversarial": {
        "brute-force": Figure(25.51, None),
        "naive-cover-tree": Figure(14.75, None),
        "coversumm-reservoir": Figure(15.36, None),
        "coversumm-lazy": Figure(15.39, None),
    },
    "drift": {},
}

# What the text says of the figures, which are pictures.
SEARCHES = (
    "theirs (Figure 6a): fewer than 150 searches at 10,000 points, uniform; more with more "
    "dimensions"
)
INTERVALS = "theirs (appendix): O(t) where the mean rests, O(sqrt(t log t)) where it drifts"
RESERVOIR = (
    "theirs (Figure 6b): fewer than 100 in the reservoir at 10,000 points, nearly linear in k"
)
MODES = "theirs (Figure 6c): the time grows gradually with the number of modes"


class Summaries(NamedTuple):
    """How good summaries are, against silver ones and averaged over time, and how long
    they take.
    """

    rouge: tuple[float, float, float]  # R1, R2, RL
    seconds: float  # for an entity


# Table 2 of the paper: SPACE, representations by SemAE, ROUGE against silver summaries.
ROUGE: dict[str, Summaries] = {
    "LSA": Summaries((25.04, 4.66, 15.34), 825.57),
    "Centroid-OPT": Summaries((27.74, 4.82, 16.39), 263.84),
    "TextRank": Summaries((30.84, 5.27, 17.40), 1147.89),
    "LexRank": Summaries((30.04, 5.70, 17.59), 160.63),
    "SumBasic": Summaries((31.55, 5.00, 15.66), 287.80),
    "naive-hnsw": Summaries((43.53, 14.61, 26.17), 3.25),
    "naive-faiss": Summaries((43.48, 14.51, 25.99), 1.30),
    "coversumm-random": Summaries((39.19, 11.64, 22.92), 1.02),
    "coversumm-decay": Summaries((41.03, 12.18, 24.03), 1.35),
    "coversumm-lazy": Summaries((42.46, 14.06, 25.15), 1.14),
}
RATING_ERROR = 0.42  # stars, in order of time, Amazon US reviews
ASPECT_ERROR = 0.32  # aspects, SPACE
# Percent of changes that people judged redundant and informative: the paper's human evaluation.
JUDGED = {
    "exact": {"Amazon": (8.8, 65.4), "SPACE": (24.1, 80.7)},
    "coversumm-random": {"Amazon": (28.2, 54.0), "SPACE": (21.6, 78.2)},
    "coversumm-decay": {"Amazon": (12.3, 63.4), "SPACE": (25.8, 79.9)},
}
