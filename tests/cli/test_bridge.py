"""`bridge` begins only with a mapping of its topic and a topic to write to."""

import pytest

from tests.harness.debezium import TOPIC, written
from worker.cli.group import execute


@pytest.fixture
def file(tmp_path, monkeypatch, embedded_broker):
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", embedded_broker.bootstrap_servers)
    monkeypatch.setenv("COVERSUMM_DATA_DIR", str(tmp_path / "data"))
    return str(written(tmp_path))


def refused(arguments, capsys):
    assert execute(["bridge", *arguments]) == 2
    return capsys.readouterr().err


def test_it_needs_a_mapping(file, capsys):
    assert "--mapping FILE is missing" in refused(["--from", TOPIC], capsys)
    other = refused(["--mapping", file, "--from", "other"], capsys)
    assert f'has no [topic."other"], only {TOPIC}' in other


def test_it_does_not_write_to_what_it_reads(file, capsys, monkeypatch):
    monkeypatch.setenv("COVERSUMM_INPUT_TOPIC", TOPIC)
    assert "it is COVERSUMM_INPUT_TOPIC" in refused(["--mapping", file, "--from", TOPIC], capsys)


def test_it_needs_both_topics(file, capsys, monkeypatch, embedded_broker):
    monkeypatch.setenv("COVERSUMM_MAPPING", file)
    assert "there is no such topic" in refused(["--from", TOPIC], capsys)
    embedded_broker.create_topic(TOPIC, 2)
    assert "marketplace.reviews.v1 does not exist" in refused(["--from", TOPIC], capsys)
