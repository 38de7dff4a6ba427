"""A topic with fields of its own gives the summaries of the same events by the contract."""

from __future__ import annotations

import contextlib
import json
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.docs.test_connect import EXAMPLES, Example
from tests.harness.broker import KafkaBroker
from tests.harness.debezium import WITH_VECTORS, bodies, expected, steps, written
from tests.harness.eventually import eventually
from tests.harness.node import free_port
from tests.harness.patience import PATIENCE_SECONDS, TEST_SECONDS
from tests.harness.small_load import DIMENSION, SETTINGS
from tests.harness.topics import producer, read_topic
from tests.harness.workers import COMMAND, Pipeline, WorkerProcess, clean_environment, pipeline
from worker.kafka.topics import partition_of
from worker.mapping import load_mapping

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(TEST_SECONDS)]

PARTITIONS = 3
PRODUCTS = 7


def test_a_debezium_stream_keyed_by_entity(kafka: KafkaBroker, tmp_path: Path) -> None:
    file = written(tmp_path, WITH_VECTORS.replace("shop.public.reviews", "mapped.reviews"))
    history = list(steps(400, PRODUCTS, DIMENSION, seed=1))
    with pipeline(
        kafka,
        "mapped",
        tmp_path,
        partitions=PARTITIONS,
        settings={**SETTINGS, "COVERSUMM_MAPPING": str(file)},
    ) as site:
        client = producer(kafka.bootstrap_servers)
        for one in history:
            partition = partition_of(one.product, PARTITIONS)
            client.produce(site.input_topic, one.value, one.key, partition)
        stray = (partition_of(history[0].product, PARTITIONS) + 1) % PARTITIONS
        client.produce(site.input_topic, history[0].value, history[0].key, stray)
        client.produce(site.input_topic, b"no json", b"{}", 0)
        client.flush(60)
        site.start(2)
        site.wait_caught_up()
        site.stop()
        published = read_topic(kafka.bootstrap_servers, site.output_topic)
        assert bodies(one.value for one in published) == expected(history)
        assert all(
            one.partition == partition_of((one.key or b"").decode(), PARTITIONS)
            for one in published
        )
        assert replayed(site, tmp_path / "out.jsonl") == expected(history)
        letters = read_topic(kafka.bootstrap_servers, site.dlq_topic)
        assert {(one.key, one.value) for one in letters} == {
            (history[0].key, history[0].value),
            (b"{}", b"no json"),
        }
        details = {dict(one.headers)["dlq.reason"]: dict(one.headers) for one in letters}
        refused = details[b"key_mismatch"]["dlq.detail"]
        assert refused.startswith(b"rule 'published': entity_id ")
        assert f"bridge --mapping {file} --from {site.input_topic}`".encode() in refused
        assert details[b"bad_json"]["dlq.source.topic"] == site.input_topic.encode()


def replayed(site: Pipeline, target: Path) -> dict[str, list[Any]]:
    """What a replay of the input topic writes with the mapping, to a file."""
    arguments = ["replay", "--from", site.input_topic, "--to", str(target), "--json"]
    environment = {
        **site.environment,
        "COVERSUMM_DATA_DIR": str(target.parent / "replayed"),
        "COVERSUMM_WEB_PORT": str(free_port()),
    }
    done = subprocess.run(
        [*COMMAND, *arguments],
        env=clean_environment(environment),
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )
    assert done.returncode == 0, done.stderr
    return bodies(target.read_bytes().splitlines())


@pytest.mark.parametrize(
    "example", [one for one in EXAMPLES if one.printed], ids=lambda example: example.name
)
def test_an_example_of_the_page(kafka: KafkaBroker, tmp_path: Path, example: Example) -> None:
    """Its file and records, its commands in their order, and what the last one prints. The example
    with a registry prints nothing; test_registry.py reads records like its own.
    """
    file = written(tmp_path, example.mapping)
    (source,) = load_mapping(file)
    kafka.create_topic(source, PARTITIONS)
    send_samples(kafka, source, example.records)
    settings = {"COVERSUMM_EMBEDDER": "onnx"}
    with contextlib.closing(Commands(Pipeline(kafka, source, tmp_path, settings=settings))) as page:
        for line in example.commands.splitlines():
            page.run(line.partition("  #")[0].replace("mapping.toml", str(file)))
        eventually(lambda: page.printed() == example.printed, lambda: page.printed() + page.logs())


def send_samples(kafka: KafkaBroker, topic: str, lines: str) -> None:
    """Send records as the page writes them."""
    client = producer(kafka.bootstrap_servers)
    for line in lines.splitlines():
        record = json.loads(line)
        key, value = (
            one if one is None or isinstance(one, str) else json.dumps(one)
            for one in (record["key"], record["value"])
        )
        client.produce(topic, value, key, headers=record.get("headers"))
    client.flush(60)


class Commands:
    """Runs a page's commands with the settings of a pipeline, and in the end the last one again and
    again.
    """

    def __init__(self, site: Pipeline) -> None:
        self._site = site
        self._exported: dict[str, str] = {}
        self._last: list[str] = []

    def run(self, line: str) -> None:
        """Run a command, or start it if it runs until it is stopped."""
        command, _, after = line.partition(" | ")
        match shlex.split(command):
            case ["export", *settings]:
                self._exported = dict(one.split("=", 1) for one in settings)
            case [_, "run" | "bridge", *_] as words:
                name = f"process-{len(self._site.workers)}"
                process = WorkerProcess(
                    self._site.directory / name, self._environment, arguments=words[1:]
                )
                self._site.workers.append(process)
                process.start().wait_ready()
            case [_, *words] if after:
                assert after == "jq -c '[.added_texts, .removed_texts]'"
                self._last = words
            case [_, *words]:
                self._output(words)

    def printed(self) -> str:
        """What the last command prints now."""
        found = map(json.loads, self._output(self._last).splitlines())
        shown = ([one["added_texts"], one["removed_texts"]] for one in found)
        return "".join(json.dumps(one, separators=(",", ":")) + "\n" for one in shown)

    def logs(self) -> str:
        """Of the processes."""
        return self._site.logs()

    def close(self) -> None:
        """End the processes."""
        self._site.discard()

    @property
    def _environment(self) -> dict[str, str]:
        return self._site.environment | self._exported

    def _output(self, words: list[str]) -> str:
        done = subprocess.run(
            [*COMMAND, *words],
            env=clean_environment(self._environment),
            cwd=self._site.directory,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout
