"""The paper's evaluation, ours beside it: `python -m tests.bench.paper [--quick] [--data FILE]`.

Runtime and accuracy (the paper's Table 1) with the adversarial stream and the drift of Proposition
6, reservoir searches against n and D, the events between two of them, reservoir size against k,
time against the modes of a mixture, time per event as n grows, what a deletion costs, and one
summary at several times. Of other reviews than the bundled ones runtime and accuracy alone. Tables
in the terminal, figures and JSON in tests/bench/results. Exit status 1 if a method that is proved
exact ever differed from the oracle.

Parameters of the paper's methods: k = 20; delta = 1/t; c_max as `tests.bench.paper.algorithms` has
it; b the width of the held-out stream's coordinates; alpha by a grid search on the held-out stream
with the lazy variant (as they search at the same steps, the others share its alpha). `random` and
`decay` have the constants of `tests.bench.paper.algorithms` and, tuned, those of another grid
search there.
"""

import argparse
import os
import sys
from pathlib import Path

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"  # read when NumPy is loaded

from tests.bench import streams  # noqa: E402
from tests.bench.paper.evaluation import Evaluation  # noqa: E402
from tests.bench.paper.plan import FULL, QUICK  # noqa: E402
from tests.bench.paper.screen import Screen  # noqa: E402


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.paper", description="The paper's evaluation, ours beside it."
    )
    parser.add_argument("--quick", action="store_true", help="smaller streams, minutes in all")
    parser.add_argument(
        "--data",
        type=Path,
        default=streams.BUNDLED,
        help="reviews, JSONL(.gz); its largest entities are taken",
    )
    options = parser.parse_args(arguments)
    screen = Screen()
    plan = QUICK if options.quick else FULL
    try:
        return Evaluation(plan, options.data, screen).run()
    except KeyboardInterrupt:
        screen.say("stopped; nothing was recorded")
        return 130


if __name__ == "__main__":
    sys.exit(main())
