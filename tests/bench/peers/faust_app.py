"""Stands in for the worker's command: a Faust application as Faust's documentation has them.

It keeps each review in a table of RocksDB, whose changes go to a changelog, and sends an event for
each. Nothing ties what it wrote and sent to the offsets that it commits: what is on its way when it
ends is lost or done twice, however it is set up.
"""

import os
import sys
from pathlib import Path
from typing import Any

import faust


def application(environment: dict[str, str]) -> faust.App:
    """The application, by the environment of a worker."""
    app = faust.App(
        environment["COVERSUMM_APP_ID"],
        broker=f"kafka://{environment['KAFKA_BOOTSTRAP_SERVERS']}",
        store="rocksdb://",
        datadir=environment["COVERSUMM_DATA_DIR"],
        topic_partitions=int(environment["PEER_PARTITIONS"]),
        consumer_auto_offset_reset="earliest",
    )
    source = app.topic(environment["COVERSUMM_INPUT_TOPIC"], key_type=str, value_serializer="json")
    kept = app.topic(environment["COVERSUMM_OUTPUT_TOPIC"], key_type=str, value_serializer="json")
    reviews = app.Table("reviews")

    @app.agent(source)
    async def keep(events: Any) -> None:
        async for entity, event in events.items():
            reviews[f"{entity}/{event['review_id']}"] = event
            await kept.send(
                key=entity, value={"type": "review.kept", "review_id": event["review_id"]}
            )

    return app


if __name__ == "__main__":
    given = dict(os.environ)
    data = Path(given["COVERSUMM_DATA_DIR"])
    data.mkdir(parents=True, exist_ok=True)
    os.chdir(data)
    sys.argv[1:] = ["worker", "--loglevel", "warn", "--web-bind", "127.0.0.1"]
    sys.argv += ["--web-port", given["COVERSUMM_WEB_PORT"]]
    application(given).main()
