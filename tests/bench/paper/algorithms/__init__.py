"""The ways to keep the k nearest to a moving centroid that the paper compares, and ours, on one
interface.

For comparison alone: the worker never imports this. All take the same int16 vectors and rank by the
same exact keys, ties by id, so that where two differ it is the algorithm and not rounding; only
drift and lambda are float64.

    module            name                 searches everything          a new sentence joins R if
                      exact
    brute_force       brute-force          at every step                -
                      always
    naive_cover_tree  naive-cover-tree     at every step                -
                      always
    knn_range         coversumm-knn-range  drift >= lambda/2, R full    within the radius r
                      under assumptions
    reservoir         coversumm-reservoir  the same, in one traversal   within the radius r
                      the same
    lazy              coversumm-lazy       the same, inserting late     within the radius r
                      the same
    random_admission  coversumm-random     as coversumm-lazy            a coin says so
                      no
    decay             coversumm-decay      as coversumm-lazy            drift <= c1 exp(-c2 t)
                      no
    exact             exact                when nothing proves the set  within the radius
                      always

Lines are those of the paper's algorithms as printed, comments counted: Algorithm 1 (CoverSumm) is
in `coversumm`, Algorithm 2 (ReservoirSearch) in `tree`, Algorithm 3
(Delete) in `delete`. Equation 4 is the reservoir's radius, d_k + lambda.

Where the printed algorithms err, and why:

- Algorithm 1, line 16, sets r to the distance of the farthest member of R, not to d_k + lambda,
  within which R is known to be complete. A new sentence between the two is turned away by line 20
  though it may become one of the k nearest before the next search. The proof of exactness speaks
  only of sentences that were there at the search. Dense data leave a narrow gap; a reservoir that
  ends at an edge of the data loses neighbours.
- The same at the start: the first search knows one sentence, so r = 0. With a lambda so large that
  the drift stays below half of it nothing joins, and R stays smaller than k: line 9, unlike
  Algorithm 3, does not ask for |R| >= k. A generous alpha therefore costs accuracy in the first
  steps, and all of it if it is too generous. (The authors' published code searches at each of the
  first 100 steps; the paper does not say so.)
- Line 9, |R| >= c_max: nothing cuts what a search returns, so a search that brings c_max or more is
  repeated at every step until it brings less. That is exact, and as slow as a naive cover tree.
- Algorithm 3, line 11, searches if |R| < k, but the loss of near members widens d_k: after j of
  them the k-th in R may be anywhere up to d_k + lambda from the last centroid, sentences outside R
  begin right behind it, and drift below lambda/2 no longer separates the two.
- Algorithm 3 sets no r: after its search the r of Algorithm 1 stands, now around another centroid.

Exact otherwise: with drift below lambda/2 every sentence that the search left out is farther than
d_k + lambda/2, and k of R are within that. It takes no probability; Hoeffding's bound only says
that searches will be rare.

The published code differs: it takes log2 and alpha/2 without b^2 and delta = 100/t; searches at
each step up to t = 100; admits by dist < the largest distance in R (by dist < d_k in its variant
without a range search); knows neither deletions nor an order among ties.
"""
