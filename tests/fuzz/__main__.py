"""`python -m tests.fuzz --seconds 60 [--seed N]`: fuzz for so long; `--again FILE`: try a saved
input.

Exit code 1 where something failed.
"""

from __future__ import annotations

import argparse
import random
import resource
import sys
from pathlib import Path

from tests.fuzz.run import again, fuzz

MEMORY_BYTES = 4 * 2**30
"""A decoder that wants more for 16 KiB fails with a MemoryError."""


def main() -> int:
    """Fuzz, or try a saved input; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--again", type=Path)
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    if options.again is not None:
        why = again(options.again)
        print(why or "it does not fail")
        return int(why is not None)
    seed = random.SystemRandom().randrange(2**32) if options.seed is None else options.seed
    return int(fuzz(options.seconds, seed, lambda words: print(words, flush=True)) > 0)


if __name__ == "__main__":
    sys.exit(main())
