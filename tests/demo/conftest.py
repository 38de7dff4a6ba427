"""The broker under test."""

from tests.harness.embedded import embedded_broker

__all__ = ["embedded_broker"]
