"""The measurement of Avro runs, and Avro costs no more than twice as much as JSON."""

from tests.bench.avro import measured, ratio


def test_avro_costs_about_as_much_as_json() -> None:
    assert 0.3 < ratio(measured(rounds=3, events=1000)) < 2
