"""A Pathway application, as its documentation has them, with persistence switched on.

It keeps each review as a row of a table, by entity and review, and publishes an event for each. Its
free version is at least once. `PEER_SECONDS` are those between snapshots.

There is no brute force here. A reducer with state sees an entity's events of a mini-batch together
and publishes once for all of them, so that a ranking at each event is not among its results.
"""

import os

import pathway as pw

BATCH_MS = 100
"""Milliseconds of a mini-batch; the library's default is 1,500."""


class Review(pw.Schema):
    """What is kept of a review."""

    entity_id: str = pw.column_definition(primary_key=True)
    review_id: str = pw.column_definition(primary_key=True)
    review_version: int
    rating: float | None
    occurred_at: str | None
    sentences: pw.Json


def main(environment: dict[str, str]) -> None:
    """Run until the process is told to end."""
    servers = {"bootstrap.servers": environment["KAFKA_BOOTSTRAP_SERVERS"]}
    reviews = pw.io.kafka.read(
        servers
        | {
            "group.id": environment["COVERSUMM_APP_ID"],
            "auto.offset.reset": "earliest",
            "session.timeout.ms": "6000",
        },
        topic=environment["COVERSUMM_INPUT_TOPIC"],
        format="json",
        schema=Review,
        autocommit_duration_ms=BATCH_MS,
        name="reviews",
    )
    kept = reviews.select(pw.this.entity_id, pw.this.review_id, type="review.kept")
    pw.io.kafka.write(
        kept,
        servers,
        environment["COVERSUMM_OUTPUT_TOPIC"],
        format="json",
        key=kept.entity_id,
        name="kept",
    )
    snapshot_ms = round(1000 * float(environment["PEER_SECONDS"]))
    backend = pw.persistence.Backend.filesystem(environment["COVERSUMM_DATA_DIR"])
    pw.run(
        monitoring_level=pw.MonitoringLevel.NONE,
        persistence_config=pw.persistence.Config(backend, snapshot_interval_ms=snapshot_ms),
    )


if __name__ == "__main__":
    main(dict(os.environ))
