"""The measurement of mappings runs, and a mapped record costs microseconds, not more."""

from tests.bench.mapping import BOUND_US, measured


def test_a_mapped_record_costs_microseconds() -> None:
    found = measured()
    assert found["by the contract"] < found["Debezium, six fields"] < 4 * BOUND_US
    assert found["CloudEvents, binary"] < 4 * BOUND_US
