"""Batches of messages of Amazon SQS, each with the body of a review as JSON in a text.

A message that came through SNS has a second envelope. A batch counts completely, or becomes a dead
letter as a whole, with the number of the event that it names.
"""

import json


def events(record):
    """The events of all messages."""
    for message in (record.value or {}).get("Records", []):
        body = json.loads(message["body"])
        if body.get("Type") == "Notification":
            body = json.loads(body["Message"])
        found = {
            "entity_id": body["sku"],
            "review_id": body["id"],
            "review_version": message["attributes"]["SentTimestamp"],  # milliseconds
        }
        if body["action"] == "delete":
            yield {"type": "review.deleted", **found}
        elif body["action"] == "upsert":
            yield {"type": "review.upserted", **found, "text": body["text"]}
        else:
            raise ValueError(f"action {body['action']!r} of message {message['messageId']}")
