"""Classic ways to rank sentences, each for a whole set of sentences at once.

SumBasic, LexRank, TextRank and `by_length_of_column` have the formulas of sumy 0.13, which are right but for the last, and in
pure Python take minutes for a hotel: here they are products of matrices, and a test holds them against sumy's.
"""
