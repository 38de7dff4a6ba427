"""Logging as the settings say: to standard error, text or JSON lines; libraries speak up from WARNING."""

import json
import logging
import sys
from datetime import UTC, datetime

from worker.settings import Settings

LIBRARIES = ("faust", "mode", "aiokafka", "kafka", "librdkafka", "aiohttp", "asyncio")


def set_up_logging(settings: Settings) -> None:
    """Send everything to standard error; the libraries' information only at DEBUG."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if settings.log_format == "json" else TextFormatter())
    logging.basicConfig(level=settings.log_level, handlers=[handler], force=True)
    logging.captureWarnings(True)
    if settings.log_level != "DEBUG":
        for name in LIBRARIES:
            logging.getLogger(name).setLevel(max(logging.WARNING, logging.getLevelName(settings.log_level)))


def _time(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


class TextFormatter(logging.Formatter):
    """Time (UTC), level, logger, message; a traceback on the lines after it."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:
        """See `logging.Formatter`."""
        return _time(record)


class JsonFormatter(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        """See `logging.Formatter`."""
        entry = {
            "time": _time(record),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return json.dumps(entry, ensure_ascii=False)
