"""The worker keeps the exact extractive summary of every entity's reviews on Kafka."""

__version__ = "0.1.0"
