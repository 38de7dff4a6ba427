"""The broker under test."""

from tests.embedded import embedded_broker

__all__ = ["embedded_broker"]
