"""`python -m tests.bench.quality [--data FOLDER] [--sample | --facets | --support]`; see
`tests.bench.quality` and docs/quality.md.

Exit status 2 where data are missing, 1 where published texts do not score what they are known to
score.
"""

import argparse
import os
import sys
from pathlib import Path

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = (
        "1"  # read when NumPy is loaded, here and in the processes that are started
    )

from docs.build import facets, quality, support  # noqa: E402
from tests.bench.paper.screen import Screen  # noqa: E402
from tests.bench.quality.calibration import NotCalibrated  # noqa: E402
from tests.bench.quality.data import DataError  # noqa: E402
from tests.bench.quality.facets_study import FacetStudy  # noqa: E402
from tests.bench.quality.study import Study, sample  # noqa: E402
from tests.bench.quality.support_study import SupportStudy  # noqa: E402


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.quality", description="What summaries are worth."
    )
    parser.add_argument(
        "--data",
        type=Path,
        default=Path(os.environ.get("QUALITY_DATA") or "data"),
        help="the folder with the data sets; by default QUALITY_DATA, or ./data",
    )
    parser.add_argument(
        "--sample", action="store_true", help="what the bundled sample alone can show"
    )
    parser.add_argument("--facets", action="store_true", help="the part with facets alone")
    parser.add_argument("--support", action="store_true", help="support and suggested facets alone")
    options = parser.parse_args(arguments)
    screen = Screen()
    try:
        if options.sample:
            print(quality.staleness_table({"staleness": sample(screen)}))
            return 0
        is_all = not (options.facets or options.support)
        found = Study(options.data, screen).run() if is_all else {}
        of_facets = {} if options.support else FacetStudy(options.data, screen).run()
        of_support = {} if options.facets else SupportStudy(options.data, screen).run()
    except DataError as error:
        print(error, file=sys.stderr)
        return 2
    except NotCalibrated as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        screen.say("stopped; nothing was recorded")
        return 130
    parts = (quality.TABLES, found), (facets.TABLES, of_facets), (support.TABLES, of_support)
    for tables_, of in parts:
        for name, table in tables_.items() if of else ():
            print(f"\n{name}\n\n{table(of)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
