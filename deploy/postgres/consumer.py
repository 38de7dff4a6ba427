"""consumer.py summaries=TOPIC facets=TOPIC: rows and offsets change in one transaction."""

import json
import re
import sys

import psycopg
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, TopicPartition
from kafka_env import connected_options  # deploy/examples/kafka_env.py: take it along

TABLES = {topic: table for table, topic in (pair.split("=") for pair in sys.argv[1:])}
POSITION = "SELECT next_offset FROM kafka_offsets WHERE topic = %s AND partition = %s"
ADVANCE = """INSERT INTO kafka_offsets AS known VALUES (%s, %s, %s) ON CONFLICT (topic, partition)
DO UPDATE SET next_offset = excluded.next_offset WHERE known.next_offset = %s"""
DELETE = "DELETE FROM {} WHERE entity_id = %s AND (epoch, sequence) <= (%s, %s)"
INSERT = "INSERT INTO {0} SELECT * FROM jsonb_populate_record(NULL::{0}, %s) ON CONFLICT DO NOTHING"
LAST = {"epoch": 2**31 - 1, "sequence": 2**63 - 1}  # a tombstone deletes any row
NUL = re.compile(r"(?<!\\)((?:\\\\)*)\\u0000")  # a character that PostgreSQL does not have
CONFIG = {
    **connected_options(),
    "group.id": "coversumm-postgres",  # shows the lag; what counts is kafka_offsets
    "auto.offset.reset": "error",
}


def positions():
    """Each partition of the topics, from the offset in the database."""
    for topic in TABLES:
        found = consumer.list_topics(topic, timeout=30).topics[topic]
        if found.error:
            raise KafkaException(found.error)
        for place in ((topic, partition) for partition in found.partitions):
            (offset,) = database.execute(POSITION, place).fetchone() or (OFFSET_BEGINNING,)
            yield TopicPartition(*place, offset)


def store(messages):
    """Write the last message of each key, and the offsets."""
    if error := next((message.error() for message in messages if message.error()), None):
        raise KafkaException(error)
    ends = {(message.topic(), message.partition()): message.offset() + 1 for message in messages}
    with database.transaction():
        for place, end in ends.items():
            if not database.execute(ADVANCE, (*place, end, known[place])).rowcount:
                sys.exit(f"another consumer writes {place}: run one process for a topic")
        for latest in {(message.topic(), message.key()): message for message in messages}.values():
            table, key = TABLES[latest.topic()], latest.key().decode().replace("\0", "\ufffd")
            body = latest.value() and NUL.sub(r"\1\\ufffd", latest.value().decode())
            change = json.loads(body) if body else LAST
            database.execute(DELETE.format(table), (key, change["epoch"], change["sequence"]))
            if body:
                database.execute(INSERT.format(table), (body,))
    known.update(ends)


with psycopg.connect(autocommit=True) as database, Consumer(CONFIG) as consumer:
    consumer.assign(assigned := list(positions()))
    known = {(partition.topic, partition.partition): partition.offset for partition in assigned}
    while True:
        store(consumer.consume(1000, timeout=0.5))
