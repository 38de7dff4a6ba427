"""The plan of a replay: what is kept, and what is refused under a name that is taken."""

from __future__ import annotations

import pytest
from msgspec import structs

from worker.errors import SetupError
from worker.replay.plan import FORMAT, ReplayPlan, decode_plan, refuse_other
from worker.replay.ranges import Range

PLAN = ReplayPlan(
    begun="2026-11-22T20:00:00Z",
    request={"--from": "in", "--until": "latest"},
    made_with={"k": "5", "epoch": "2"},
    whole=True,
    topic="in",
    topic_id="abc",
    output_topic=None,
    ranges={"0": Range(0, 10, 0), "11": Range(4, 4, 4)},
)


def test_a_plan_comes_back_as_it_was() -> None:
    again = decode_plan(PLAN.encode(), "the topic")
    assert again == PLAN
    assert again.by_partition == {0: Range(0, 10, 0), 11: Range(4, 4, 4)}
    assert again.size == 10


@pytest.mark.parametrize(
    "value", [b"", b"{", b"[]", b"{}", PLAN.encode().replace(b'"end":10', b'"end":"10"')]
)
def test_what_is_no_plan_is_one_line(value: bytes) -> None:
    with pytest.raises(SetupError, match=r"the topic x holds no plan of a replay .*--restart"):
        decode_plan(value, "the topic x")


def test_a_plan_of_another_version_is_refused() -> None:
    value = PLAN.encode().replace(b'"format":%d' % FORMAT, b'"format":%d' % (FORMAT + 1))
    with pytest.raises(SetupError, match=r"written by another version.*--restart"):
        decode_plan(value, "the topic x")


def test_a_replay_keeps_to_its_mapping() -> None:
    plan = structs.replace(PLAN, made_with=PLAN.made_with | {"mapping": "none"})
    refuse_other("name", plan, PLAN.request, plan.made_with, {})
    with pytest.raises(SetupError, match="mapping was none and is 0a1b"):
        refuse_other("name", plan, PLAN.request, PLAN.made_with | {"mapping": "0a1b"}, {})


def test_a_replay_keeps_to_what_it_reads_with() -> None:
    read_with = {"COVERSUMM_MAX_TEXT_BYTES": "100", "--fields": "none"}
    plan = structs.replace(PLAN, read_with=read_with)
    refuse_other("name", plan, plan.request, plan.made_with, read_with)
    with pytest.raises(SetupError, match=r"--fields was none and is text=body\. Give"):
        refuse_other(
            "name", plan, plan.request, plan.made_with, read_with | {"--fields": "text=body"}
        )


@pytest.mark.parametrize(
    ("request_", "settings", "says"),
    [
        ({"--from": "in", "--until": "2026"}, PLAN.made_with,
         "--until was latest and is 2026. Give"),
        (PLAN.request, {"k": "4", "epoch": "2"}, "k was 5 and is 4. Give"),
        (PLAN.request | {"--new": "x"}, PLAN.made_with, "--new was unknown and is x. Give"),
        ({"--from": "other"}, {"epoch": "3"},
         "--from was in and is other; epoch was 2 and is 3. Give"),
    ],
)  # fmt: skip
def test_what_differs_is_named(
    request_: dict[str, str], settings: dict[str, str], says: str
) -> None:
    with pytest.raises(SetupError) as refused:
        refuse_other("name", PLAN, request_, settings, {})
    assert says in str(refused.value)
    assert str(refused.value).startswith(
        "the replay name was begun on 2026-11-22T20:00:00Z as another one: "
    )
    assert "--restart" in str(refused.value)
