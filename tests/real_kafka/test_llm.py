"""deploy/examples/llm on a real Kafka and a real HTTP endpoint: one result per change, after kills
too.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from tests.harness.broker import KafkaBroker
from tests.harness.eventually import eventually
from tests.harness.llm import Call, LanguageModel, content, good
from tests.harness.patience import PATIENCE_SECONDS, TEST_SECONDS
from tests.harness.process import Process
from tests.harness.small_load import DIMENSION, FACETS, events
from tests.harness.topics import Message, producer, read_topic
from tests.harness.workers import ROOT
from worker.events import Record
from worker.processing.config import processor_config
from worker.processing.in_memory import ProcessorInMemory
from worker.settings import Settings

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(TEST_SECONDS)]

PROGRAM = ROOT / "deploy" / "examples" / "llm" / "prose.py"
CHANGES = 20


def wordless(call: Call) -> str:
    """An answer whose sentences are null."""
    return re.sub('"text": "[^"]*"', '"text": null', good(call))


REFUSED: dict[int, Callable[[Call], str]] = {
    0: lambda _: content(["of nobody"], ["of nobody"], ["of nobody"]),
    1: lambda _: "no JSON",
    2: wordless,
    3: lambda _: content([], [], []),
}
"""By number of the call answers that are refused: all three of the first change, one of the
second.
"""
UNAVAILABLE = {5, 8, 9, 10}
"""Calls that are answered with 503: once, and until the program gives up."""
FILTERED = {11, 13, 14}
"""Calls that a content filter answers with 400: the first of a process, which then asks whether the
endpoint answers at all (12), and the next two about the same change.
"""
KILLED_BEFORE, KILLED_AFTER = 17, 20
"""Calls before and after whose answer the program is killed."""


def publish_changes(kafka: KafkaBroker, topic: str, *, of_facets: bool) -> list[Message]:
    """Changes of a worker's processor, and tombstones, in the topic; as they are there."""
    settings = Settings(
        embedder="none", dimension=DIMENSION, k=5, facets=FACETS["COVERSUMM_FACETS"], epoch=3
    )
    config = replace(processor_config(settings, 1, None), facets_topic="facets")
    processor = ProcessorInMemory(config, None)
    load = [
        Record("reviews", 0, i, 0, event.key, event.value) for i, event in enumerate(events(400))
    ]
    wanted = "facets" if of_facets else config.output_topic
    made = [
        message
        for batch in processor.process(load)
        for message in batch.messages
        if message.topic == wanted
    ]
    tombstones = [message for message in made if message.value is None]
    assert len(made) > CHANGES
    assert len(tombstones) > 1
    client = producer(kafka.bootstrap_servers)
    kafka.create_topic(topic, 2)
    for change in [*made[:CHANGES], *tombstones[:2]]:
        client.produce(topic, change.value, change.key, headers=change.headers)
    assert client.flush(PATIENCE_SECONDS) == 0
    return read_topic(kafka.bootstrap_servers, topic)


class Prose(Process):
    """`prose.py` as a process; `settings` are more variables."""

    def __init__(
        self,
        kafka: KafkaBroker,
        model: LanguageModel,
        source: str,
        folder: Path,
        settings: Mapping[str, str] = {},
    ):
        super().__init__(folder / "prose.log")
        self._environment = {
            **os.environ,
            "KAFKA_BOOTSTRAP_SERVERS": kafka.bootstrap_servers,
            "SOURCE_TOPIC": source,
            "TARGET_TOPIC": f"{source}.prose",
            "LLM_BASE_URL": model.url,
            "LLM_MODEL": "a-model",
            "LLM_API_KEY": "a-key",
            "INSTANCE": source,
            **settings,
        }

    def start(self) -> None:
        """Start it, or start it again after its end."""
        self.launch([sys.executable, str(PROGRAM)], self._environment)


def by_key(messages: Iterable[Message]) -> dict[bytes | None, list[Any]]:
    """By key what a result has in common with its change, in order; None: a tombstone."""
    found = defaultdict(list)
    for message in messages:
        body = message.value and json.loads(message.value)
        build = ("entity_id", "epoch", "sequence")
        found[message.key].append(body and {name: body[name] for name in build})
    return dict(found)


def quotes_of(message: Message) -> set[str]:
    """The ids of the sentences of a change."""
    body = json.loads(message.value or b'{"facets": []}')
    return {
        sentence["sentence_id"]
        for each in body.get("facets", [body])
        for sentence in each["sentences"]
    }


def test_without_a_model_it_says_what_to_set() -> None:
    environment = {name: value for name, value in os.environ.items() if name != "LLM_MODEL"}
    done = subprocess.run(
        [sys.executable, PROGRAM], env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "LLM_MODEL is not set" in done.stderr


@pytest.mark.parametrize(
    "of_facets",
    [pytest.param(True, id="facets"), pytest.param(False, id="summaries", marks=pytest.mark.long)],
)
def test_one_result_per_change(kafka: KafkaBroker, tmp_path: Path, *, of_facets: bool) -> None:
    source = f"llm-{'facets' if of_facets else 'summaries'}"
    changes = publish_changes(kafka, source, of_facets=of_facets)
    with LanguageModel() as model:
        program = Prose(kafka, model, source, tmp_path)

        def answer(number: int, call: Call) -> str | int | None:
            if number == KILLED_BEFORE:
                program.kill()
            if number in FILTERED:
                return 400
            return None if number in UNAVAILABLE else REFUSED.get(number, good)(call)

        model.answer = answer
        model.after = lambda number: program.kill() if number == KILLED_AFTER else None
        ends = []

        def is_complete() -> bool:
            if (code := program.exit_code) is not None:
                ends.append(code)
                program.start()
            results = read_topic(kafka.bootstrap_servers, f"{source}.prose")
            return len(results) >= len(changes)

        program.start()
        try:
            topics = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
            target = f"{source}.prose"
            eventually(lambda: target in topics.list_topics().topics, program.log_text)
            assert len(topics.list_topics(target).topics[target].partitions) == 2
            eventually(is_complete, program.log_text, every_s=0.5)
        finally:
            program.discard()

    assert ends == [1, -signal.SIGKILL, -signal.SIGKILL], program.log_text()
    results = read_topic(kafka.bootstrap_servers, f"{source}.prose")
    assert by_key(results) == by_key(changes)
    check_grounded(changes, results)
    check_calls(model, changes)
    log = program.log_text()
    assert log.count("refused: ") == len(REFUSED) + len(FILTERED)
    assert log.count("HTTP Error 400") == len(FILTERED)
    assert "given: ['of nobody']" in log
    assert f"{model.url}/chat/completions: HTTP Error 503" in log


def check_grounded(changes: list[Message], results: list[Message]) -> None:
    """Each sentence rests on quotes of its change; without a good answer there is none."""
    known = {
        (change.key, json.loads(change.value)["sequence"]): quotes_of(change)
        for change in changes
        if change.value
    }
    bodies = [(result.key, json.loads(result.value)) for result in results if result.value]
    for key, body in bodies:
        quoted = known[key, body["sequence"]]
        assert {name for sentence in body["sentences"] for name in sentence["ids"]} <= quoted
        assert len(body["sentences"]) in ((0, 3) if quoted else (0,))
    refused = [
        body for key, body in bodies if known[key, body["sequence"]] and not body["sentences"]
    ]
    assert len(refused) == 2


def check_calls(model: LanguageModel, changes: list[Message]) -> None:
    """One call per change, and those that had to be repeated: at most one per kill."""
    repeated = len(model.calls) - sum(1 for change in changes if quotes_of(change))
    assert not model.calls[12].quoted
    assert repeated - (len(REFUSED) - 1) - len(UNAVAILABLE) - len(FILTERED) in (1, 2)
    for call in model.calls:
        assert call.headers["Authorization"] == "Bearer a-key"
        assert call.body["model"] == "a-model"
        assert {"role": "system"}.items() <= call.body["messages"][0].items()
