"""The command with a fault: it raises for each mapped record of a review whose id begins with
`odd`.

python -m tests.harness.faulty run
"""

from __future__ import annotations

from worker.cli import main
from worker.events.inputs import Body
from worker.mapping import topic

check_ids = topic.check_ids


def failing(body: Body, value: bytes | None) -> None:
    """Raise for such a review."""
    if getattr(body, "review_id", "").startswith("odd"):
        raise LookupError(body.entity_id)
    check_ids(body, value)


if __name__ == "__main__":
    topic.check_ids = failing
    main()
