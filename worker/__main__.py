"""`python -m worker`: the command line without its console script."""

from worker.cli import main

if __name__ == "__main__":
    main()
