"""Stands in for the worker's command, and becomes that of the checkout that `BENCH_CHECKOUT` names:
same Python and libraries.
"""

import os
import sys

CHECKOUT = "BENCH_CHECKOUT"

if __name__ == "__main__":
    checkout = os.environ[CHECKOUT]
    os.chdir(checkout)
    os.environ["PYTHONPATH"] = checkout
    os.execv(sys.executable, [sys.executable, "-m", "worker", *sys.argv[1:]])
