"""Tests of what people see of summaries."""
