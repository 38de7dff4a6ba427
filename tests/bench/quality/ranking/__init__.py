"""Classic ways to rank sentences, each for a whole set of sentences at once.

SumBasic, LexRank, TextRank and `lsa.by_length_of_column` have the formulas of sumy 0.13, which in
pure Python takes minutes for a hotel: here they are products of matrices. `by_sumy` holds them
against sumy's own.
"""
