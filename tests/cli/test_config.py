"""`config`: every setting with its value and origin; `--check`: what a broker has and allows."""

from __future__ import annotations

import json
import re
import shutil
import urllib.error
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AclOperation, ResourceType

import worker.kafka.topics
from tests.harness.authorized import PASSWORD, USER, AuthorizedBroker, Rule
from tests.harness.broker import KafkaBroker
from tests.harness.damage import write_rows
from tests.harness.eventually import eventually
from tests.harness.load import Sent, send
from tests.harness.long import one_of
from tests.harness.node import free_port
from tests.harness.patience import PATIENCE_SECONDS, TEST_SECONDS
from tests.harness.terminal import CONTROL
from tests.harness.topics import read_topic
from tests.harness.workers import Pipeline
from tests.real_kafka.test_damage import TINY_SEGMENTS
from worker.kafka.clients import KafkaClients
from worker.replay.promotion import Promotion
from worker.settings import Settings, settings_by_field

TOPIC, GROUP, TRANSACTION = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID


def rows(ended: Any) -> list[dict[str, Any]]:
    return [json.loads(line) for line in ended.out.splitlines()]


# -- settings --------------------------------------------------------------------------------------


def test_every_setting_has_its_value_and_origin(run: Any, monkeypatch: Any, tmp_path: Path) -> None:
    monkeypatch.setenv("COVERSUMM_K", "7")
    file = tmp_path / "prod.env"
    file.write_text("# prod\nCOVERSUMM_K=8\nexport COVERSUMM_CACHE_BYTES='1GiB'\n")
    ended = run("--env-file", file, "config")
    assert (ended.code, ended.err) == (0, "")
    found = {row["setting"]: (row["value"], row["origin"]) for row in rows(ended)}
    assert list(found) == [setting.variable for setting in settings_by_field().values()]
    assert found["COVERSUMM_K"] == (7, "environment")
    assert found["COVERSUMM_CACHE_BYTES"] == (2**30, f"{file}:3")
    assert found["COVERSUMM_EPOCH"] == (1, "default")
    assert found["COVERSUMM_DLQ_TOPIC"] == ("marketplace.reviews.v1.dlq", "computed")
    assert found["COVERSUMM_WEB_ADVERTISED_URL"] == ("http://127.0.0.1:8080", "computed")
    assert not (tmp_path / "data").exists()


def test_secrets_are_hidden(run: Any, monkeypatch: Any, terminal: Any) -> None:
    for name, value in {
        "SECURITY_PROTOCOL": "SASL_PLAINTEXT",
        "SASL_MECHANISM": "PLAIN",
        "SASL_USERNAME": "worker",
        "SASL_PASSWORD": "MARKER",
    }.items():
        monkeypatch.setenv(f"COVERSUMM_{name}", value)
    piped = run("config")
    found = {row["setting"]: (row["value"], row["origin"]) for row in rows(piped)}
    assert found["COVERSUMM_SASL_PASSWORD"] == ("***", "environment")
    assert found["COVERSUMM_SSL_KEY_PASSWORD"] == (None, "default")
    terminal()
    shown = run("config")
    assert re.search(r"^ ?COVERSUMM_SASL_PASSWORD +\*\*\* ", shown.out, flags=re.M)
    assert "MARKER" not in piped.out + shown.out


# -- the environment -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command", [["config"], ["verify"], ["demo", "--help"], ["dlq", "list", "--help"]]
)
def test_every_command_warns_of_what_is_no_setting(
    run: Any, monkeypatch: Any, command: list[str]
) -> None:
    monkeypatch.setenv("COVERSUMM_TOP_K", "3")
    monkeypatch.setenv("COVERSUMM_WORKER_SERVICE_HOST", "10.0.0.1")
    first = run(*command).err.splitlines()[0]
    assert (
        first
        == "warning: ignored, for there are no such settings: COVERSUMM_TOP_K (is it COVERSUMM_K?)"
    )


def test_a_bad_env_file_is_one_line(run: Any, tmp_path: Path) -> None:
    file = tmp_path / "prod.env"
    file.write_text("COVERSUMM_K=3\nCOVERSUMM_SASL_PASSWORD: MARKER\n")
    ended = run("--env-file", file, "config")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith(f"coversumm-worker: error: {file}:2: not of the form NAME=VALUE")
    assert ended.err.count("\n") == 1
    assert "MARKER" not in ended.err
    assert run("--env-file", tmp_path / "none.env", "config").code == 2


# -- the broker ------------------------------------------------------------------------------------


def test_no_answer_is_no_failed_check(run: Any, monkeypatch: Any) -> None:
    address = f"127.0.0.1:{free_port()}"
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", address)
    monkeypatch.setattr(worker.kafka.topics, "TIMEOUT_SECONDS", 1)
    ended = run("config", "--check")
    assert ended.code == 2
    assert f"KAFKA_BOOTSTRAP_SERVERS={address}" in ended.err


def settings_of(broker: AuthorizedBroker, directory: Path) -> tuple[Pipeline, dict[str, str]]:
    """A worker group with names of its own, and the settings of a worker that comes in
    as the user.
    """
    site = Pipeline(broker, f"site-{uuid.uuid4().hex[:8]}", directory, partitions=2)
    access = {
        "KAFKA_BOOTSTRAP_SERVERS": broker.addresses["SASL_PLAINTEXT"],
        "COVERSUMM_SECURITY_PROTOCOL": "SASL_PLAINTEXT",
        "COVERSUMM_SASL_MECHANISM": "PLAIN",
        "COVERSUMM_SASL_USERNAME": USER,
        "COVERSUMM_SASL_PASSWORD": PASSWORD,
        "COVERSUMM_INSTANCE_ID": "one",
        "COVERSUMM_DIMENSION": "3",
    }
    return site, {**site.environment, **access}


@pytest.fixture(scope="module")
def authorized(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AuthorizedBroker]:
    with AuthorizedBroker(tmp_path_factory.mktemp("authorized")) as broker:
        yield broker


def use(monkeypatch: Any, settings: Mapping[str, str]) -> None:
    for name, value in settings.items():
        monkeypatch.setenv(name, value)


def failed(ended: Any) -> dict[str, str]:
    """What the failed checks were of, with what was found."""
    return {
        row["of"]: f"{row['check']}: {row['found']}"
        for row in rows(ended)
        if row.get("status") == "failed"
    }


@pytest.mark.kafka
@pytest.mark.timeout(TEST_SECONDS)
def test_permissions_are_those_that_a_worker_needs(
    run: Any, monkeypatch: Any, authorized: AuthorizedBroker, tmp_path: Path
) -> None:
    """Without any all are named; with exactly those that are named a worker runs; without any one
    of them it is named.
    """
    site, settings = settings_of(authorized, tmp_path)
    use(monkeypatch, settings)
    for topic in (site.input_topic, site.output_topic, site.dlq_topic, site.changelog_topic):
        authorized.create_topic(topic, 2)
    needed = {
        f"input topic {site.input_topic}": [Rule(TOPIC, site.input_topic, AclOperation.READ)],
        f"output topic {site.output_topic}": [Rule(TOPIC, site.output_topic, AclOperation.WRITE)],
        f"dead letters topic {site.dlq_topic}": [Rule(TOPIC, site.dlq_topic, AclOperation.WRITE)],
        f"changelog topic {site.changelog_topic}": [
            Rule(TOPIC, site.changelog_topic, AclOperation.READ),
            Rule(TOPIC, site.changelog_topic, AclOperation.WRITE),
        ],
        f"group {site.name}": [Rule(GROUP, site.name, AclOperation.READ)],
    }
    nothing = run("config", "--check", "--json")
    assert nothing.code == 1
    assert failed(nothing) == {
        of: f"permissions: missing: {', '.join(rule.operation.name for rule in rules)}"
        for of, rules in needed.items()
    }
    assert (
        nothing.err.count("coversumm-worker: error: ")
        == len(nothing.err.splitlines())
        == len(needed)
    )
    assert (
        f"kafka-acls.sh --add --allow-principal User:{USER} --operation READ --topic "
        f"{site.input_topic}" in nothing.err
    )
    assert PASSWORD not in nothing.out + nothing.err

    transaction = Rule(TRANSACTION, f"{site.name}-one", AclOperation.WRITE)
    authorized.allow([transaction, *(rule for rules in needed.values() for rule in rules)])
    enough = until(lambda: run("config", "--check", "--json"), lambda ended: ended.code == 0)
    assert enough.err == ""
    (unasked,) = [
        row for row in rows(enough) if row.get("of") == f"transactional id {site.name}-one"
    ]
    assert unasked["status"] == "not checked"
    assert "--operation WRITE --transactional-id" in unasked["remedy"]
    worker = site.worker()
    worker.environment |= settings
    worker.start().wait_ready()
    assert worker.terminate() == 0, worker.log_end()
    assert PASSWORD not in worker.log_text()

    ends = {f"group {site.name}", f"changelog topic {site.changelog_topic}"}
    for of, rules in needed.items():
        for rule in rules:
            authorized.take_back([rule])
            ended = until(lambda: run("config", "--check", "--json"), lambda ended: ended.code == 1)
            assert failed(ended) == {of: f"permissions: missing: {rule.operation.name}"}
            if of in ends and rule.operation is AclOperation.READ:
                assert worker.start().wait() == 2, worker.log_end()
                last = worker.log_text().splitlines()[-1]
                assert (
                    f"allow it READ on the {of.replace('changelog ', '')}; `coversumm-worker config"
                    in last
                )
            authorized.allow([rule])
            until(lambda: run("config", "--check", "--json"), lambda ended: ended.code == 0)


@pytest.mark.kafka
@pytest.mark.timeout(TEST_SECONDS)
def test_promote_does_not_take_a_plan_that_is_hidden_for_none(
    monkeypatch: Any, authorized: AuthorizedBroker, tmp_path: Path
) -> None:
    """The replay that has it may be partial."""
    use(monkeypatch, settings_of(authorized, tmp_path)[1])
    present = Settings.from_environment()
    promotion = Promotion(present, replace(present, app_id="next"), KafkaClients(present))
    what, passed, found = promotion._is_over()
    assert not passed
    assert "--operation READ --topic next-plan" in found
    authorized.allow([Rule(TOPIC, "next-plan", AclOperation.READ)])
    until(promotion._is_over, lambda check: check == (what, True, "next"))


@pytest.mark.long
@pytest.mark.kafka
@pytest.mark.timeout(TEST_SECONDS)
def test_a_revoked_permission_is_named_and_its_topic_never_taken_for_gone(
    run: Any, monkeypatch: Any, authorized: AuthorizedBroker, tmp_path: Path
) -> None:
    """By a worker that runs, by one that starts, and by `reset`."""
    site, settings = settings_of(authorized, tmp_path)
    use(monkeypatch, settings)
    topics = {
        site.input_topic: ["READ"],
        site.output_topic: ["WRITE"],
        site.dlq_topic: ["WRITE"],
        site.changelog_topic: ["READ", "WRITE"],
    }
    for topic in topics:
        authorized.create_topic(topic, 2)
    rules = {
        topic: [Rule(TOPIC, topic, AclOperation[operation]) for operation in operations]
        for topic, operations in topics.items()
    }
    authorized.allow(rule for of in rules.values() for rule in of)
    authorized.allow([Rule(GROUP, site.name, AclOperation.READ)])
    authorized.allow([Rule(TRANSACTION, f"{site.name}-one", AclOperation.WRITE)])

    def check(code: int) -> list[Any]:
        checked = until(
            lambda: run("config", "--check", "--json"), lambda alert: alert.code == code
        )
        return [row["remedy"] for row in rows(checked) if row.get("status") == "failed"]

    worker = site.worker()
    worker.environment |= settings
    for number, (topic, operations) in enumerate(topics.items()):
        check(0)
        worker.start().wait_ready()
        send(authorized.bootstrap_servers, site.input_topic, _review_and_nonsense(number))
        site.wait_caught_up()
        authorized.take_back(rules[topic])
        (remedy,) = check(1)
        send(authorized.bootstrap_servers, site.input_topic, _review_and_nonsense(number + 100))
        missing = f"missing: {' and '.join(operations)} on the topic {topic}: {remedy};"
        running = worker.refused(missing, code=3)
        worker.log_path.unlink()
        starting = worker.start().refused(f"may not describe the topic {topic} ", f": {remedy};")
        reset = run("reset", "--changelog", "--dry-run") if topic == site.changelog_topic else None
        assert reset is None or (reset.code, reset.out) == (2, ""), reset
        assert not re.search("reset|gone|not exist|create", running + starting)
        worker.log_path.unlink()
        authorized.allow(rules[topic])


@pytest.mark.long
@pytest.mark.kafka
@pytest.mark.timeout(TEST_SECONDS)
@pytest.mark.parametrize("may_describe_configs", one_of([False, True]))
def test_a_deletion_does_not_return_from_an_old_volume(
    run: Any,
    monkeypatch: Any,
    authorized: AuthorizedBroker,
    tmp_path: Path,
    may_describe_configs: bool,
) -> None:
    """The changelog has forgotten the deletion, and its user may not know how early it does."""
    site, settings = settings_of(authorized, tmp_path)
    use(monkeypatch, settings)
    authorized.create_topic(site.input_topic, 2)
    authorized.create_topic(site.dlq_topic, 2)
    authorized.create_topic(site.output_topic, 2, {"cleanup.policy": "compact"})
    forgetful = {**TINY_SEGMENTS, "delete.retention.ms": "100"}
    authorized.create_topic(site.changelog_topic, 2, forgetful)
    operations = [AclOperation.READ, AclOperation.WRITE]
    if may_describe_configs:
        operations.append(AclOperation.DESCRIBE_CONFIGS)
    names = site.input_topic, site.output_topic, site.dlq_topic, site.changelog_topic
    authorized.allow(Rule(TOPIC, name, operation) for name in names for operation in operations)
    authorized.allow([Rule(GROUP, site.name, AclOperation.READ)])
    authorized.allow([Rule(TRANSACTION, f"{site.name}-one", AclOperation.WRITE)])
    worker = site.worker()
    worker.environment |= settings
    worker.start().wait_ready()
    send(authorized.bootstrap_servers, site.input_topic, _review_and_nonsense(0))
    site.wait_caught_up()
    assert worker.terminate() == 0
    old = shutil.copytree(worker.data_dir, tmp_path / "old")
    worker.start().wait_ready()
    send(authorized.bootstrap_servers, site.input_topic, [Sent(b"e", None)])
    site.wait_caught_up()
    assert worker.terminate() == 0

    def forgotten() -> bool:
        records = read_topic(authorized.bootstrap_servers, site.changelog_topic)
        padding = [
            record._replace(key=b"padding", value=None) for record in records[:1] + records[-1:]
        ]
        write_rows(site, padding, site.changelog_topic)
        return not any(record.value is None and record.key != b"padding" for record in records)

    eventually(forgotten, lambda: "its tombstones are still there", every_s=1)
    worker.wipe()
    shutil.copytree(old, worker.data_dir)
    worker.start().wait_ready()
    with pytest.raises(urllib.error.HTTPError, match="404"):
        worker.get("/entities/e/summary")
    assert worker.terminate() == 0
    log = worker.log_text()
    assert "KafkaException(" not in log
    assert ("may not read delete.retention.ms" in log) is not may_describe_configs
    found = rows(run("config", "--check", "--json"))
    (check,) = [
        (row["check"], row["status"], row["found"])
        for row in found
        if row.get("of") == f"changelog topic {site.changelog_topic}"
        and row["check"] in ("life of deletions", "cleanup policy")
        and row["status"] != "ok"
    ]
    if may_describe_configs:
        assert check == ("life of deletions", "failed", "100")
        assert "has delete.retention.ms=100, less than" in run("topics", "--dry-run").err
    else:
        assert check[:2] == ("cleanup policy", "not checked")
        assert f"--operation DESCRIBE_CONFIGS --topic {site.changelog_topic}" in check[2]


def _review_and_nonsense(number: int) -> list[Sent]:
    body = {"text": "Good.", "embedding": [1.0, 0.5, 0.1]}
    event = {"type": "review.upserted", "entity_id": "e", "review_id": f"{number}"}
    return [Sent(b"e", json.dumps(event | {"sentences": [body]}).encode()), Sent(b"e", b"nonsense")]


@pytest.mark.kafka
@pytest.mark.timeout(TEST_SECONDS)
def test_on_a_terminal_the_last_line_is_the_verdict(
    run: Any, monkeypatch: Any, terminal: Any, kafka: KafkaBroker, tmp_path: Path
) -> None:
    """Below it only what is checked, and settings that were set: a screen of 80 by 24."""
    site = Pipeline(kafka, f"verdict-{uuid.uuid4().hex[:8]}", tmp_path, partitions=2)
    use(monkeypatch, {"KAFKA_BOOTSTRAP_SERVERS": kafka.bootstrap_servers})
    use(monkeypatch, {"COVERSUMM_INPUT_TOPIC": site.input_topic, "COVERSUMM_APP_ID": site.name})
    terminal()
    monkeypatch.setenv("COLUMNS", "80")
    missing = run("config", "--check")
    assert missing.code == 1
    assert "cannot start with these settings" in missing.out.splitlines()[-1]
    assert missing.err.startswith(f"coversumm-worker: error: input topic {site.input_topic}: ")
    site.create_input()
    ended = run("config", "--check")
    assert (ended.code, ended.err) == (0, "")
    assert f"transactional id {site.name}-" in ended.out
    checks = [row["status"] for row in rows(run("config", "--check", "--json")) if "check" in row]
    assert set(checks) == {"ok"}, "without an authorizer everything is allowed"
    lines = CONTROL.sub("", ended.out).splitlines()
    assert re.fullmatch("[0-9]+ checks passed: `run` can start with these settings", lines[-1])
    assert len(lines) <= 36
    assert max(map(len, lines)) <= 80
    assert not any("COVERSUMM_K " in line for line in lines)


@pytest.mark.kafka
@pytest.mark.timeout(TEST_SECONDS)
def test_a_state_of_other_settings_is_found_before_a_worker_meets_it(
    run: Any, monkeypatch: Any, kafka: KafkaBroker, tmp_path: Path
) -> None:
    name, settings = f"state-{uuid.uuid4().hex[:8]}", {"COVERSUMM_DIMENSION": "2"}
    site = Pipeline(kafka, name, tmp_path, partitions=2, settings=settings)
    use(monkeypatch, site.create_input().environment)
    of = f"state in {site.changelog_topic}"

    def check() -> Any:
        ended = run("config", "--check", "--json")
        (row,) = [row for row in rows(ended) if row.get("of") == of]
        return ended.code, row["status"], row["found"]

    assert check() == (0, "ok", "there is none yet")
    try:
        site.start()
        assert check() == (0, "ok", "there is none yet")
        body = {"text": "Good.", "embedding": [1.0, 0.5]}
        event = {"type": "review.upserted", "entity_id": "e", "review_id": "r", "sentences": [body]}
        send(kafka.bootstrap_servers, site.input_topic, [Sent(b"e", json.dumps(event).encode())])
        site.wait_caught_up()
        assert check() == (0, "ok", "in 1 partition")
        for variable, value in (("COVERSUMM_K", "7"), ("COVERSUMM_DIMENSION", "3")):
            with monkeypatch.context() as other:
                other.setenv(variable, value)
                assert check()[:2] == (1, "failed")
                assert variable in check()[2]
        with monkeypatch.context() as other:
            other.setenv("COVERSUMM_EMBEDDER", f"onnx:{tmp_path}")
            assert check()[:2] == (0, "not checked")
    finally:
        site.discard()


@pytest.mark.kafka
@pytest.mark.timeout(TEST_SECONDS)
def test_topics_that_are_missing_or_wrong(
    run: Any, monkeypatch: Any, authorized: AuthorizedBroker, tmp_path: Path
) -> None:
    site, settings = settings_of(authorized, tmp_path)
    use(monkeypatch, settings)
    monkeypatch.setenv("COVERSUMM_DATA_DIR", str(tmp_path / "data"))
    written = (site.input_topic, site.output_topic, site.dlq_topic)
    everything = [Rule(TOPIC, name, AclOperation.ALL) for name in written]
    authorized.allow([*everything, Rule(GROUP, site.name, AclOperation.READ)])
    authorized.allow([Rule(TOPIC, site.changelog_topic, AclOperation.DESCRIBE)])

    def check() -> Any:
        return run("config", "--check", "--json")

    before = set(authorized.admin().list_topics(timeout=PATIENCE_SECONDS).topics)
    ended = until(check, lambda ended: len(failed(ended)) == 2)
    assert failed(ended)[f"input topic {site.input_topic}"] == "exists: there is none"
    assert failed(ended)[f"changelog topic {site.changelog_topic}"].startswith("may be created: ")
    may = {row["of"]: row["status"] for row in rows(ended) if row.get("check") == "may be created"}
    assert may[f"output topic {site.output_topic}"] == "ok"
    after = set(authorized.admin().list_topics(timeout=PATIENCE_SECONDS).topics)
    assert after - {"__consumer_offsets"} == before - {"__consumer_offsets"}
    assert not (tmp_path / "data").exists()

    authorized.create_topic(site.input_topic, 2, {"cleanup.policy": "compact"})
    authorized.create_topic(site.output_topic, 3, {"cleanup.policy": "compact"})
    ended = check()
    assert ended.code == 1
    assert failed(ended)[f"input topic {site.input_topic}"] == "cleanup policy: compact"
    assert failed(ended)[f"output topic {site.output_topic}"] == "partitions: 3"
    assert "set cleanup.policy=delete" in ended.err


def until(ask: Any, holds: Any) -> Any:
    """What `ask` gives once it holds: a broker takes a moment to act on its own permissions."""
    given: list[Any] = []

    def answer() -> bool:
        given[:] = [ask()]
        return holds(given[0])

    eventually(answer, lambda: given)
    return given[0]
