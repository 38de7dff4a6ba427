"""The frozen contract: what the worker publishes and stores for given streams, and its commands."""
