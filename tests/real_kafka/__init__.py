"""The worker against a real Apache Kafka: broker, worker processes, load, faults and an independent
verifier.
"""
