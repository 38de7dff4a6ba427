"""Tests of the demo and its broker."""
