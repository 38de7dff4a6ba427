"""Models of the Hugging Face hub at a full commit hash: branches and tags may change."""

import errno
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from worker.text.engine import EngineError

logger = logging.getLogger(__name__)

REACHABLE_SECONDS = 10
"""Time limit for the hub's first answer: the library retries for minutes if a network drops
packets.
"""

T = TypeVar("T")


class HubUnavailable(Exception):
    """Neither hub nor cache has the requested files. The message is a one-word cause."""


def hub_folder(name: str, revision: str, patterns: Sequence[str], cache_dir: Path | None) -> Path:
    """A local folder with the matching files of `OWNER/NAME`, downloaded if needed."""
    from huggingface_hub import snapshot_download

    return Path(
        _ask(
            lambda: snapshot_download(
                name, revision=revision, cache_dir=cache_dir, allow_patterns=list(patterns)
            )
        )
    )


def hub_files(name: str, revision: str, files: Sequence[str], cache_dir: Path | None) -> Path:
    """A local folder with these files of `OWNER/NAME`; only missing ones are downloaded."""
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
    """The library's result. Raises EngineError if the disk is full, HubUnavailable for any other
    error.
    """
    library = logging.getLogger("huggingface_hub")
    level = library.level
    library.setLevel(logging.ERROR)  # no warning for each attempt: the caller reports the failure
    try:
        return download()
    except Exception as error:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise EngineError(
                f"the model cannot be kept ({error.strerror}): make room in "
                "COVERSUMM_MODEL_CACHE_DIR, or name another folder there"
            ) from error
        raise HubUnavailable(type(error).__name__) from error
    finally:
        library.setLevel(level)
