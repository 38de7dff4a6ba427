"""Logging to standard error, as text or JSON lines; libraries log from WARNING.

No line shows a secret of the settings, tracebacks included.
"""

import json
import logging
import sys
import time
from collections.abc import Iterable
from typing import Any

from worker.settings import Settings

PROTOCOL_LOGS = ("aiokafka.conn", "botocore", "boto3", "urllib3")
"""Loggers that write requests at DEBUG, with events, passwords and tokens."""
LIBRARIES = ("faust", "mode", "aiokafka", "kafka", "librdkafka", "aiohttp", "asyncio")


def set_up_logging(settings: Settings) -> None:
    """Log to standard error as the settings say."""
    handler = StderrHandler()
    formatter = JsonFormatter() if settings.log_format == "json" else TextFormatter()
    handler.setFormatter(Redacted(formatter, settings.secrets()))
    logging.basicConfig(level=settings.log_level, handlers=[handler], force=True)
    logging.captureWarnings(True)
    for name in PROTOCOL_LOGS:
        logging.getLogger(name).setLevel(
            logging.INFO if settings.log_level == "DEBUG" else logging.NOTSET
        )
    if settings.log_level != "DEBUG":
        for name in LIBRARIES:
            logging.getLogger(name).setLevel(
                max(logging.WARNING, logging.getLevelName(settings.log_level))
            )


class StderrHandler(logging.StreamHandler[Any]):
    """Writes to the present `sys.stderr`: while a progress bar is shown, that writes above it."""

    def emit(self, record: logging.LogRecord) -> None:
        self.stream = sys.stderr
        super().emit(record)


class Redacted(logging.Formatter):
    """The lines of another formatter with `***` for secrets: plain, or as in Python or JSON."""

    def __init__(self, formatter: logging.Formatter, secrets: Iterable[str]) -> None:
        super().__init__()
        self._formatter = formatter
        written = {
            form
            for secret in secrets
            for form in (
                secret,
                repr(secret)[1:-1],
                repr(secret.encode())[2:-1],
                json.dumps(secret)[1:-1],
            )
        }
        forms = written | {json.dumps(form, ensure_ascii=False)[1:-1] for form in written}
        self._forms = sorted(forms, key=len, reverse=True)  # a form may contain another

    def format(self, record: logging.LogRecord) -> str:
        line = self._formatter.format(record)
        for form in self._forms:
            line = line.replace(form, "***")
        return line


class TextFormatter(logging.Formatter):
    """Time (UTC), level, logger, message; a traceback follows on its own lines."""

    converter = staticmethod(time.gmtime)
    default_time_format, default_msec_format = "%Y-%m-%dT%H:%M:%S", "%s.%03dZ"

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")


class JsonFormatter(TextFormatter):
    """A JSON object a line; figures and names (the record's `facts`) are fields."""

    def format(self, record: logging.LogRecord) -> str:
        entry: dict[str, Any] = {
            "time": self.formatTime(record),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        for name, fact in getattr(record, "facts", {}).items():
            entry.setdefault(name, fact)
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return json.dumps(entry, ensure_ascii=False)
