"""The limits of the default settings, with changes: limits have no defaults of their own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from worker.events import Limits
from worker.processing.config import BatchLimits, processor_config
from worker.processing.config import event_limits as event_limits_of
from worker.settings import Settings

_SETTINGS = Settings()


def event_limits(**changes: Any) -> Limits:
    """What one event may bring and an entity hold."""
    return replace(event_limits_of(_SETTINGS), **changes)


def batch_limits(**changes: int) -> BatchLimits:
    """What a micro-batch may come to."""
    return replace(processor_config(_SETTINGS, 1, None).batch, **changes)
