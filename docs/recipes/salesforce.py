"""An object of Salesforce by Change Data Capture, whose updates have the changed fields alone.

An upsert replaces the complete review. So enrich the channel with Product__c, Body__c and Stars__c:
Salesforce then adds them to updates and deletions that did not change them. Without the text an
update would empty the review: such a record becomes a dead letter. An enriched field that is
missing, or null and not in `nulledFields`, is empty in Salesforce.
"""

from datetime import UTC, datetime, timedelta

START = datetime(1970, 1, 1, tzinfo=UTC)
CHANGES = ("CREATE", "UPDATE", "UNDELETE")


def events(record):
    """The events of a change, which may be of several objects."""
    value = record.value
    if value is None:
        return
    change = value.get("data", value)
    change = change.get("payload", change)
    header = change["ChangeEventHeader"]
    if header["entityName"] != "Review__c":
        return
    kind = header["changeType"]
    if kind not in (*CHANGES, "DELETE"):
        raise ValueError(f"{kind}: changes are missing: read the objects again and send them")
    for name in header["recordIds"]:
        found = {
            "entity_id": change["Product__c"],
            "review_id": name,
            "review_version": header["commitNumber"] * 10_000 + header["sequenceNumber"],
            "occurred_at": START + timedelta(milliseconds=header["commitTimestamp"]),
        }
        if kind == "DELETE":
            yield {"type": "review.deleted", **found}
        elif change.get("Body__c") is None and "Body__c" not in header.get("nulledFields", []):
            raise ValueError("no Body__c: enrich the channel with it")
        else:
            text, stars = change.get("Body__c"), change.get("Stars__c")
            yield {"type": "review.upserted", **found, "text": text, "rating": stars}
