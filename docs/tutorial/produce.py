import csv, json, os, sys
from confluent_kafka import Producer

servers = os.environ["KAFKA_BOOTSTRAP_SERVERS"]
producer = Producer({"bootstrap.servers": servers, "partitioner": "murmur2_random"})
for row in csv.DictReader(open(sys.argv[1])):
    row["id"], row["stars"] = int(row["id"]), int(row["stars"])
    producer.produce("shop.reviews", json.dumps(row), row["product"])
producer.flush()
