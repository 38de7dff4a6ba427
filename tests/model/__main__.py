"""Search the model of the commit protocol, and have it accept the simulator's runs.

    python -m tests.model [--seeds 1000]

Ends with 1 when an invariant does not hold, when one holds without a rule, or when a run is
refused. Needs cargo.
"""

from __future__ import annotations

import subprocess
import sys

from tests.bench.machine import command_line
from tests.model.run import PROGRAM, accepted, build, simulated


def main() -> int:
    """The command; its exit code."""
    parser = command_line(__doc__)
    parser.add_argument("--seeds", type=int, default=1000, help="runs to accept (1000)")
    given = parser.parse_args()
    try:
        build()
    except FileNotFoundError:
        print("cargo is missing: install Rust 1.88 or newer (https://rustup.rs)", file=sys.stderr)
        return 1
    except subprocess.CalledProcessError:
        return 1  # cargo has said why
    holds = subprocess.run([PROGRAM]).returncode == 0
    is_accepted, said = accepted(simulated(given.seeds))
    print(said, end="")
    return 0 if holds and is_accepted else 1


if __name__ == "__main__":
    sys.exit(main())
