import json, os
from contextlib import suppress
from confluent_kafka import Consumer

topic = os.environ.get("COVERSUMM_FACETS_TOPIC", "marketplace.review-facets.v1")
servers = os.environ.get("KAFKA_BOOTSTRAP_SERVERS", "localhost:9092")
start = {"bootstrap.servers": servers, "auto.offset.reset": "earliest"}
group = {"group.id": "product-pages", "isolation.level": "read_committed"}
with Consumer(start | group) as consumer, suppress(KeyboardInterrupt):
    consumer.subscribe([topic])
    while True:
        message = consumer.poll(1.0)
        if not message or message.error():
            continue
        facets = json.loads(message.value() or "{}").get("facets", [])
        page = {f["name"]: [s["text"] for s in f["sentences"]] for f in facets}
        print(message.key().decode(), page, flush=True)  # store it; {}: gone
