"""coversumm-worker: the exact extractive summary of every entity's reviews, kept current on Kafka,
exactly once.
"""

__version__ = "0.1.0"
