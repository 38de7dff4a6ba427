"""The rankings beside sumy's own, on a few sentences: it takes minutes for many."""

from collections.abc import Sequence

import numpy as np

from tests.bench.quality.ranking import lex_rank, lsa, sum_basic, text_rank
from tests.bench.quality.words import Words, words_of

MOST = 60  # sentences


def differing(sentences: Sequence[Sequence[str]]) -> list[str]:
    """The methods that do not rank these sentences, lists of words, as sumy does; ImportError where
    there is no sumy.

    Sentences of the same words are one to sumy, so each is taken once.
    """
    from sumy.models.dom import ObjectDocumentModel, Paragraph, Sentence
    from sumy.summarizers.lex_rank import LexRankSummarizer
    from sumy.summarizers.lsa import LsaSummarizer
    from sumy.summarizers.sum_basic import SumBasicSummarizer
    from sumy.summarizers.text_rank import TextRankSummarizer

    taken = [list(words) for words in dict.fromkeys(tuple(words) for words in sentences if words)][
        :MOST
    ]
    theirs = [Sentence(" ".join(words), _Blanks) for words in taken]
    document = ObjectDocumentModel([Paragraph(theirs)])
    words = words_of(taken)

    basic = SumBasicSummarizer()._compute_ratings(theirs)
    by_basic = sorted(range(len(taken)), key=lambda row: -basic[theirs[row]])
    ranker = LexRankSummarizer()
    frequencies, inverse = ranker._compute_tf(taken), ranker._compute_idf(taken)
    central = ranker.power_method(
        ranker._create_matrix(taken, ranker.threshold, frequencies, inverse), ranker.epsilon
    )
    ranks = TextRankSummarizer().rate_sentences(document)
    latent = LsaSummarizer()
    matrix = words.counts.toarray().T
    _, sigma, v = np.linalg.svd(latent._compute_term_frequency(matrix), full_matrices=False)
    same = {
        "SumBasic": _each_the_best(words, by_basic),
        "LexRank": np.allclose(lex_rank.scores(words), central),
        "TextRank": np.allclose(text_rank.scores(words), [ranks[their] for their in theirs]),
        "LSA as sumy has it": np.allclose(
            lsa.column_lengths(words), latent._compute_ranks(sigma, v)
        ),
    }
    return [name for name, right in same.items() if not right]


def _each_the_best(words: Words, order: Sequence[int]) -> bool:
    """Whether each sentence of SumBasic's order is a best one when it is taken: which of equal
    ones, sums of reals decide.
    """
    likely = sum_basic.Likely(words)
    for row in order:
        scores = likely.scores()
        if scores[row] < scores.max() - 1e-12:
            return False
        likely.take(row)
    return True


class _Blanks:
    """What sumy asks for words."""

    @staticmethod
    def to_words(text: str) -> tuple[str, ...]:
        return tuple(text.split(" "))
