"""The settings of commands that are about the vector store: there has to be one."""

from pathlib import Path

from worker.errors import SurroundingsError
from worker.settings import Settings


def store_settings() -> tuple[Settings, Path]:
    """The settings, and the store's folder. Raises SurroundingsError where none is set."""
    settings = Settings.from_environment()
    if settings.vector_store_dir is None:
        raise SurroundingsError(
            "COVERSUMM_VECTOR_STORE_DIR is not set: set it to the folder of the vector store"
        )
    return settings, settings.vector_store_dir
