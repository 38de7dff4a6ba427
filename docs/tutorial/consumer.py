import contextlib, json, os
from confluent_kafka import Consumer

topic = os.environ.get("COVERSUMM_FACETS_TOPIC", "marketplace.review-facets.v1")
servers = os.environ.get("KAFKA_BOOTSTRAP_SERVERS", "localhost:9092")
start = {"bootstrap.servers": servers, "auto.offset.reset": "earliest"}
group = {"group.id": "product-pages", "isolation.level": "read_committed"}
with Consumer(start | group) as feed, contextlib.suppress(KeyboardInterrupt):
    feed.subscribe([topic])
    while True:
        message = feed.poll(1.0)
        if message and not message.error():
            now = json.loads(message.value() or "{}").get("facets", [])
            page = {f["name"]: [s["text"] for s in f["sentences"]] for f in now}
            print(message.key().decode(), page, flush=True)  # store; {}: gone
