"""Kafka without Faust, for the worker and for the tools.

clients       the one place that makes librdkafka clients     membership    under which a worker
commits transaction   one transaction, whoever commits                producer      the transactions
of a worker offsets       what is committed, where a log begins and ends  changelog     restore and
standby first_rows    with what a state was made                offsets_by_time  the first record at
or past a time logs          input and changelog of a worker                 reader        a topic
read to its end topics        the topics of a worker                          provisioning  found,
created and checked at a start topic_ids     a topic, or another one of its name
recreation    a topic deleted and created again contact       which clients hear of a broker
connection_errors  what is no news to it reach         the first question to a broker retry,
diagnosis, partitioner
"""
