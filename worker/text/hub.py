"""Models of the Hugging Face hub, always at a full commit hash: a branch or tag may change under
the state.
"""

import errno
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from worker.text.engine import EngineError

logger = logging.getLogger(__name__)

REACHABLE_SECONDS = 10
"""How long the hub may take to answer at all: the library tries for minutes where a network drops
what is sent.
"""

T = TypeVar("T")


class HubUnavailable(Exception):
    """The hub does not give what was asked for, and its cache does not have it. The message names
    the cause in a word.
    """


def hub_folder(name: str, revision: str, patterns: Sequence[str], cache_dir: Path | None) -> Path:
    """A local folder with the files of `OWNER/NAME` that match, downloaded where they are not there
    yet.
    """
    from huggingface_hub import snapshot_download

    return Path(
        _ask(
            lambda: snapshot_download(
                name, revision=revision, cache_dir=cache_dir, allow_patterns=list(patterns)
            )
        )
    )


def hub_files(name: str, revision: str, files: Sequence[str], cache_dir: Path | None) -> Path:
    """A local folder with exactly these files of `OWNER/NAME`; the hub is asked for those alone
    that are not there yet.
    """
    from huggingface_hub import get_session, hf_hub_download, hf_hub_url, try_to_load_from_cache

    def reach() -> None:
        get_session().head(hf_hub_url(name, files[0], revision=revision), timeout=REACHABLE_SECONDS)

    def get(file: str) -> Path:
        return Path(
            _ask(lambda: hf_hub_download(name, file, revision=revision, cache_dir=cache_dir))
        )

    cached = [
        try_to_load_from_cache(name, file, cache_dir=cache_dir, revision=revision) for file in files
    ]
    if not all(isinstance(path, str) for path in cached):
        logger.warning("getting %s from the Hugging Face hub, once", name)
        _ask(reach)
    (first, *_) = [get(file) for file in files]
    return first.parents[files[0].count("/")]


def _ask(download: Callable[[], T]) -> T:
    """What the library returns. Raises EngineError where there is no room for it, HubUnavailable
    for whatever else it raises: its own errors, httpx's, Python's.
    """
    try:
        with _told_once():
            return download()
    except Exception as error:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise EngineError(
                f"the model cannot be kept ({error.strerror}): make room in "
                "COVERSUMM_MODEL_CACHE_DIR, or name another folder there"
            ) from error
        raise HubUnavailable(type(error).__name__) from error


@contextmanager
def _told_once() -> Iterator[None]:
    """The library logs each attempt as a warning; the one line that tells of the failure is the
    caller's.
    """
    library = logging.getLogger("huggingface_hub")
    level = library.level
    library.setLevel(logging.ERROR)
    try:
        yield
    finally:
        library.setLevel(level)
