"""Records of a topic as an archive has them."""

from __future__ import annotations

import json

from tests.harness.topics import Message


def archived(message: Message) -> str:
    """A record as a line of an archive."""
    return (
        json.dumps(
            {
                "topic": message.topic,
                "partition": message.partition,
                "offset": message.offset,
                "timestamp": message.timestamp_ms,
                "key": None
                if message.key is None
                else message.key.decode(errors="surrogateescape"),
                "value": None
                if message.value is None
                else message.value.decode(errors="surrogateescape"),
            }
        )
        + "\n"
    )
