"""Kafka without Faust: clients, topics, transactions and readers, for the worker and for the tools."""
