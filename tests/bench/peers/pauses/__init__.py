"""The mark to beat: a Kafka Streams application beside the worker, under the same faults of the
same cluster.
"""
