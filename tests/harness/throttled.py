"""The worker on a processor throttled to a tenth: `python -m tests.harness.throttled run` in place
of `python -m worker run`.

The engine is the real one; after each call it is waited for until the texts have taken as long as
they would at a tenth of a common speed. On a machine that is slower than that by itself nothing is
waited for. `THROTTLED_SECONDS` says otherwise how long a text takes: so long that the engine hangs,
for all that the worker can know. Where `THROTTLED_GATE` names a file, a text with the word `wait`
in it is waited with until the file is there; that it is, `*.waiting` tells.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

VARIABLE, GATE = "THROTTLED_SECONDS", "THROTTLED_GATE"
SECONDS = 0.02
"""Ten times what a short sentence takes on two common cores."""


def waiting_path(gate: Path) -> Path:
    """What is there while a text is waited with."""
    return gate.with_suffix(".waiting")


def throttle(seconds_a_text: float, gate: Path | None) -> None:
    """Make every call of the default engine take so long, and wait at the gate."""
    from worker.text.onnx import OnnxEngine

    embed = OnnxEngine.embed

    def slowly(self: OnnxEngine, texts: Sequence[str]) -> Any:
        until = time.monotonic() + seconds_a_text * len(texts)
        vectors = embed(self, texts)
        time.sleep(max(0.0, until - time.monotonic()))
        if gate is not None and any("wait" in text for text in texts):
            waiting_path(gate).touch()
            while not gate.exists():
                time.sleep(0.01)
        return vectors

    OnnxEngine.embed = slowly  # type: ignore[method-assign]


if __name__ == "__main__":
    from worker.cli import main
    from worker.settings.environment import limit_native_threads

    limit_native_threads()
    throttle(
        float(os.environ.get(VARIABLE, SECONDS)),
        Path(os.environ[GATE]) if GATE in os.environ else None,
    )
    main()
