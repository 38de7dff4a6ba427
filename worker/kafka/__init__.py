"""Kafka without Faust, for the worker and its tools.

- `clients`: creates every librdkafka client.
- `errors`: the errors by meaning, retries, and messages about them.
- `contact`: which client last heard from a broker.
- `topics`: the worker's topics, how they are created and checked.
- `topic_ids`: the ids that tell a topic from a later one of the same name.
- `offsets`: committed offsets, the bounds of a log, and offsets by time.
- `reader`: reads a topic to its end.
- `changelog`: restores and follows the changelog.
- `group`: the members of a consumer group, and the membership that a commit carries.
- `transactions`: Kafka transactions, one after the other under one transactional id.
- `producer`: the transactions of a worker.
- `agreement`: a record that many processes agree on.
"""
