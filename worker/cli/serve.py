"""`serve`: reviews of files on the live page, without Kafka."""

from collections.abc import Mapping
from contextlib import nullcontext

import click

from worker.cli.group import new_command
from worker.cli.options import PATH_OR_PATTERN, facets_file_option, fields_option, found_files
from worker.settings import Settings


@new_command(
    "serve",
    ("serve", "the reviews that come with the worker"),
    (
        "coversumm-worker serve reviews.csv --fields entity_id=asin,review_id=id,text=body "
        "--facets preset:products",
        "a table of your own, with other column names",
    ),
    ("serve reviews.csv --facets facets.toml", "edit the file of facets: the page follows"),
)
@click.argument("files", metavar="[FILE]...", nargs=-1, type=PATH_OR_PATTERN)
@facets_file_option
@fields_option
def command(files: tuple[str, ...], facets: str | None, fields: Mapping[str, str]) -> None:
    """Open reviews on the live page: the worker on an embedded broker, until Ctrl-C. No Kafka.

    Files are as for `summarize`; without any, the reviews that come with the worker, with
    preset:stays. The page is at COVERSUMM_WEB_PORT of this machine, and fills while texts are
    embedded. Lines that cannot be used are named and left out.

    A file of facets that changes is read again, and the page follows. Each text is embedded once:
    vectors stay until the end, or in COVERSUMM_VECTOR_STORE_DIR. Settings of sets, embedding and
    the page count here, those of Kafka do not. Ctrl-C removes everything.
    """
    from worker.demo.reviews import FACETS, reviews_file
    from worker.demo.serving import ReviewSource, serve
    from worker.sources import STDIN, spooled
    from worker.web.server import check_port

    if not files:
        files, facets = (str(reviews_file()),), facets or FACETS
    settings = Settings.from_environment(facets=facets)
    paths = found_files(files)
    check_port("127.0.0.1", settings.web_port)
    with spooled() if STDIN in paths else nullcontext(STDIN) as stdin:
        serve(ReviewSource(paths, fields, stdin, settings), settings)
