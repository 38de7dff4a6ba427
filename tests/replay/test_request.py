"""What a replay is asked for, and what it has of its own: nothing of it is the live worker's."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from worker.errors import SetupError
from worker.kafka.topics import changelog_topic, topic_specs
from worker.processing.config import ALL, RecordSelection
from worker.replay.request import ReplayIdentity, Request, default_topic, plan_topic
from worker.settings import Settings

LIVE = Settings(
    app_id="live",
    input_topic="in",
    output_topic="out",
    dlq_topic="dead",
    data_dir=Path("/data"),
    k=4,
    epoch=2,
)
PLAIN = Request(name="two", topic="in", to_topic="out.two")


def test_all_of_it_is_its_own() -> None:
    names = ReplayIdentity(LIVE, PLAIN)
    settings = names.settings
    mine = {
        settings.app_id,
        settings.output_topic,
        settings.dlq_topic,
        changelog_topic(settings),
        names.plan_topic,
    }
    assert len(mine) == 5
    assert not mine & {"live", "in", "out", "dead", changelog_topic(LIVE)}
    assert settings.transactional_id != LIVE.transactional_id
    assert settings.data_dir == Path("/data/replay-two")
    assert settings.input_topic == "in"
    own = {"app_id", "input_topic", "output_topic", "dlq_topic", "data_dir"}
    assert {f: v for f, v in vars_of(settings).items() if f not in own} == {
        f: v for f, v in vars_of(LIVE).items() if f not in own
    }


def test_plain_files_are_not_mapped() -> None:
    live = replace(LIVE, mapping=Path("/mapping.toml"))
    assert ReplayIdentity(live, PLAIN).settings.mapping == live.mapping
    assert ReplayIdentity(live, replace(PLAIN, topic="")).settings.mapping is None


def test_facets_have_a_topic_of_their_own() -> None:
    live = replace(LIVE, facets="preset:stays")
    names = ReplayIdentity(live, PLAIN)
    assert names.settings.facets_topic != live.facets_topic
    assert "facets" in names.specs
    assert names.published_topics == ["out.two", f"{live.facets_topic}.two"]
    assert "facets" not in ReplayIdentity(LIVE, PLAIN).specs
    with pytest.raises(SetupError, match="the replay's facets go to that topic"):
        ReplayIdentity(live, replace(PLAIN, to_topic=names.facets_topic))


def test_facets_for_a_file_are_all_kept() -> None:
    """Each change is wanted, however late the file is written."""
    live = replace(LIVE, facets="preset:stays")
    names = ReplayIdentity(live, replace(PLAIN, to_topic=None, to_file=Path("x.jsonl")))
    config = names.specs["facets"].config
    assert names.published_topics == ["live-replay-two-output", "live-replay-two-facets"]
    assert (config["cleanup.policy"], config["retention.ms"]) == ("delete", "-1")
    assert "facets" not in ReplayIdentity(live, replace(PLAIN, to_topic=None)).specs


def vars_of(settings: Settings) -> dict[str, Any]:
    return {name: getattr(settings, name) for name in Settings.__dataclass_fields__}


@pytest.mark.parametrize("name", ["", "a/b", "a b", "é", "x" * 61, "../x", "a\n"])
def test_a_name_that_no_topic_can_have_is_refused(name: str) -> None:
    with pytest.raises(SetupError, match=r"--name .*: up to 60 letters"):
        ReplayIdentity(LIVE, replace(PLAIN, name=name))


@pytest.mark.parametrize(
    "topic", ["in", "out", "dead", LIVE.facets_topic, changelog_topic(LIVE), "archive"]
)
def test_a_topic_that_is_somebody_s_is_no_output(topic: str) -> None:
    with pytest.raises(SetupError, match=f"--to {topic}: that"):
        ReplayIdentity(LIVE, replace(PLAIN, topic="archive", to_topic=topic))


def test_topics_are_those_that_are_needed() -> None:
    def output(request: Request) -> Any:
        return ReplayIdentity(LIVE, request).specs.get("output")

    assert output(PLAIN).name == "out.two"
    assert output(PLAIN).config == topic_specs(LIVE)["output"].config
    assert output(replace(PLAIN, to_topic=None)) is None
    to_file = output(replace(PLAIN, to_topic=None, to_file=Path("x.jsonl")))
    assert to_file.name == "live-replay-two-output"
    # Of every change each is wanted, however late the file is written.
    assert (to_file.config["cleanup.policy"], to_file.config["retention.ms"]) == ("delete", "-1")


def test_its_names_are_made_of_the_live_worker_s() -> None:
    assert default_topic(LIVE, "two") == "out.two"
    assert (
        ReplayIdentity(LIVE, PLAIN).plan_topic
        == plan_topic("live-replay-two")
        == "live-replay-two-plan"
    )


ASKED = {
    "to_topic": None,
    "emit": "final",
    "since_ms": 1,
    "until_ms": 2,
    "by": "occurred_at",
    "entities": frozenset({"a"}),
    "partitions": frozenset({1, 0}),
    "topic": "archive",
}


@pytest.mark.parametrize("field", ASKED)
def test_whatever_is_asked_for_otherwise_is_another_replay(field: str) -> None:
    facts, other = PLAIN.facts(), replace(PLAIN, **{field: ASKED[field]}).facts()
    assert facts.keys() == other.keys()
    assert sum(facts[name] != other[name] for name in facts) == 1


@pytest.mark.parametrize(
    ("asked", "selection", "is_whole"),
    [
        ({}, ALL, True),
        ({"until_ms": 5}, ALL, True),  # a prefix: what comes then can be gone on with
        ({"since_ms": 5}, ALL, False),
        ({"partitions": frozenset({0})}, ALL, False),
        ({"entities": frozenset({"é"})}, RecordSelection(entities=frozenset({"é".encode()})),
         False),
        ({"until_ms": 5, "by": "occurred_at"}, RecordSelection(until_ms=5), False),
        ({"since_ms": 3, "until_ms": 5, "by": "occurred_at"},
         RecordSelection(since_ms=3, until_ms=5), False),
        ({"by": "occurred_at"}, ALL, True),
    ],
)  # fmt: skip
def test_what_is_selected_and_whether_a_worker_may_go_on(
    asked: dict[str, Any], selection: RecordSelection, is_whole: bool
) -> None:
    request = replace(PLAIN, **asked)
    assert (request.selection, request.is_whole) == (selection, is_whole)
