"""TLS and SASL against a broker that asks for them: both client libraries get in, and who cannot is
refused with the reason in one line. Tokens expire and are renewed under load.

Every secret is a marker, and nothing that a worker writes may contain one.
"""

from __future__ import annotations

import contextlib
import json
import socket
import sys
import time
import urllib.error
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from docs.build.schemas import PUBLISHED
from tests.harness.debezium import deletions, written
from tests.harness.eventually import eventually
from tests.harness.llm import LanguageModel
from tests.harness.load import batched_lists
from tests.harness.long import one_of
from tests.harness.patience import PATIENCE_SECONDS, TEST_SECONDS
from tests.harness.postgres import Postgres
from tests.harness.secured import WAYS, Secured, command, wrong
from tests.harness.small_load import SETTINGS as SMALL
from tests.harness.small_load import check, events, feed
from tests.harness.topics import Message, producer, read_topic
from tests.harness.workers import ROOT, Pipeline, WorkerProcess, run_command
from tests.real_kafka.test_bridge import wait_bridged
from tests.real_kafka.test_llm import Prose
from tests.real_kafka.test_postgres import Consumer
from worker.credentials.files import LOOK_SECONDS

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(TEST_SECONDS)]

SETTINGS = {"COVERSUMM_LOG_LEVEL": "DEBUG", "COVERSUMM_DIMENSION": "2"}
LIFE_SECONDS = 20.0
"""Of a token under load. librdkafka looks once a second whether its token is to be renewed."""
IMPATIENT = {
    "COVERSUMM_BROKER_TIMEOUT_MS": "3000",
    "COVERSUMM_TRANSACTION_TIMEOUT_MS": "5000",
    "COVERSUMM_COMMIT_TIMEOUT_MS": "10000",
    "COVERSUMM_STALL_TIMEOUT_MS": "45000",
}
NO_TOKEN = "gives no token (status 503)"
EXAMPLES = {
    "consumer.py": ROOT / "deploy" / "postgres" / "consumer.py",
    "prose.py": ROOT / "deploy" / "examples" / "llm" / "prose.py",
}
BODY = {"text": "Good.", "embedding": [1.0, 0.5]}
EVENT = {"type": "review.upserted", "entity_id": "e", "sentences": [BODY]}
(CHANGE,) = (
    published.examples[0] for published in PUBLISHED if published.name == "summary.changed"
)


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    made = Secured(tmp_path_factory.mktemp("secured"))
    with made.identity, made.broker:
        made.add_users()
        yield made


@pytest.fixture
def site(secured: Secured, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Pipeline]:
    """A pipeline whose own look at the broker is by PLAINTEXT; its workers get their settings from
    the test.
    """
    name = "".join(
        sign if sign.isalnum() else "-" for sign in request.node.name.removeprefix("test_")
    )
    site = Pipeline(secured.broker, name, tmp_path, partitions=2, settings=SETTINGS)
    try:
        yield site
    finally:
        site.discard()


def listening(pid: int) -> set[tuple[str, int]]:
    """Addresses that a process listens on, by the kernel's tables."""
    inodes = set()
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            inodes.add(str(link.readlink()).removeprefix("socket:[").removesuffix("]"))
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            local, state, inode = (line.split()[column] for column in (1, 3, 9))
            if state == "0A" and inode in inodes:
                address, port = local.split(":")
                packed = bytes.fromhex(address)
                shown = (
                    socket.inet_ntop(socket.AF_INET, packed[::-1]) if len(packed) == 4 else address
                )
                found.add((shown, int(port, 16)))
    return found


def check_commands(site: Pipeline, settings: Mapping[str, str]) -> None:
    """What the commands write that read or rebuild, all at once."""
    given = (
        ("status",),
        ("config", "--check"),
        ("history", "e"),
        ("replay",),
        ("dlq", "list"),
        ("dlq", "send", "--dry-run"),
    )
    with ThreadPoolExecutor(len(given)) as pool:
        outputs = pool.map(lambda words: command(site, settings, *words), given)
        status, _, history, replay, *_ = outputs
    (report,) = (line for line in replay.splitlines() if line.startswith('{"type": "report"'))
    assert json.loads(report)["applied"] == 3
    assert "ready" in status
    assert "review.deleted" in history


@pytest.mark.long
@pytest.mark.parametrize("way", one_of(WAYS, short=1))
def test_a_worker_end_to_end(secured: Secured, site: Pipeline, tmp_path: Path, way: str) -> None:
    """Both client libraries: librdkafka makes topics, produces and restores, aiokafka reads the
    input. Commands and a bridge log in by the same settings.
    """
    settings = secured.settings(way) | {"COVERSUMM_CLIENT_OPTIONS": "compression.type=lz4"}
    command(site, settings, "topics", "--partitions", "2")
    events = tmp_path / "events.jsonl"
    events.write_text(
        "".join(json.dumps(EVENT | {"review_id": identifier}) + "\n" for identifier in ("r", "s"))
    )
    command(site, settings, "send", str(events))
    bridge = bridged(site, settings)
    worker = site.worker(
        **{name.removeprefix("COVERSUMM_").lower(): value for name, value in settings.items()}
    )
    worker.environment |= settings
    worker.start().wait_ready()
    assert "MARKER" not in Path(f"/proc/{worker.pid}/cmdline").read_text()
    assert listening(worker.pid) == {("127.0.0.1", worker.web_port)}
    site.wait_caught_up()
    shown = command(site, settings, "inspect", "e", "--url", f"http://127.0.0.1:{worker.web_port}")
    assert "Good." in shown
    with worker.get("/metrics") as page:
        assert b"MARKER" not in page.read()
    *_, change = read_topic(secured.broker.bootstrap_servers, site.output_topic)
    assert [sentence["review_id"] for sentence in json.loads(change.value)["sentences"]] == ["r"]
    if way in WAYS[:2]:  # by a token, and by a certificate
        check_commands(site, settings | {"COVERSUMM_DATA_DIR": str(tmp_path / "rebuilt")})
    for process in (worker, bridge):
        assert process.terminate() == 0, process.log_end()
        assert "DEBUG" in process.log_text()
        assert "MARKER" not in process.log_text()
        assert not any(token in process.log_text() for token in secured.identity.tokens)


def bridged(site: Pipeline, settings: Mapping[str, str]) -> WorkerProcess:
    """A bridge that has read its source, a record that deletes the review s."""
    source = f"{site.name}.source"
    site.broker.create_topic(source, 1)
    client = producer(site.broker.bootstrap_servers)
    client.produce(source, b'{"product": "e", "id": "s"}', b"s")
    assert client.flush(PATIENCE_SECONDS) == 0
    file = written(site.directory, deletions(source))
    arguments = ("bridge", "--mapping", str(file), "--from", source)
    bridge = WorkerProcess(
        site.directory / "bridge", {**site.environment, **settings}, arguments=arguments
    )
    site.workers.append(bridge)
    bridge.start()
    wait_bridged(site, source)
    return bridge


def publish_change(secured: Secured, name: str) -> Message:
    """A topic of this name with one change, and one for results; the change."""
    for topic in (name, f"{name}.prose"):
        secured.broker.create_topic(topic, 1)
    client = producer(secured.broker.bootstrap_servers)
    client.produce(name, json.dumps(CHANGE), CHANGE["entity_id"])
    assert client.flush(PATIENCE_SECONDS) == 0
    (message,) = read_topic(secured.broker.bootstrap_servers, name)
    return message


def test_the_language_model_example(secured: Secured, tmp_path: Path) -> None:
    """One way to log in: the consumer of the next example reads the same settings in every way."""
    way, name = WAYS[0], "llm"
    change = publish_change(secured, name)
    with LanguageModel() as model:
        program = Prose(secured.broker, model, name, tmp_path, secured.settings(way))
        program.start()
        try:
            found = eventually(
                lambda: read_topic(secured.broker.bootstrap_servers, f"{name}.prose"),
                program.log_text,
            )
        finally:
            program.discard()
    assert [message.key for message in found] == [change.key]
    assert "MARKER" not in program.log_text()


@pytest.mark.postgres
@pytest.mark.parametrize("way", one_of(["SCRAM-SHA-512", "SSL"]))
def test_the_postgres_example(secured: Secured, tmp_path: Path, way: str) -> None:
    name = f"postgres-{way}"
    publish_change(secured, name)
    with Postgres() as server, server.connect() as database:
        database.execute((EXAMPLES["consumer.py"].parent / "schema.sql").read_text())
        log = tmp_path / "log"
        program = Consumer(server, secured.broker, {name: "summaries"}, log, secured.settings(way))
        try:
            stored = "SELECT entity_id, sequence FROM summaries"
            rows = eventually(lambda: database.execute(stored).fetchall(), program.log_text)
        finally:
            program.discard()
    assert rows == [(CHANGE["entity_id"], CHANGE["sequence"])]
    assert "MARKER" not in program.log_text()


@pytest.mark.long
def test_tokens_are_renewed_under_load_and_nothing_is_lost(
    secured: Secured, site: Pipeline
) -> None:
    """The broker closes a session with its token. The provider is away too, longer than that."""
    site = replace(site, settings=SMALL)
    site.create_input()
    secured.identity.life_seconds = LIFE_SECONDS
    try:
        workers = [site.worker(name) for name in ("one", "two")]
        for worker in workers:
            worker.environment |= secured.oauth()
            worker.start()
        for worker in workers:
            worker.wait_ready()
        load = events(1000)
        parts = batched_lists(load, 30)
        given, began = len(secured.identity.tokens), time.monotonic()
        while time.monotonic() - began < 2 * LIFE_SECONDS:
            feed(site, next(parts))
            time.sleep(2)
        # 70 % of a life after the other, in two processes
        assert len(secured.identity.tokens) >= given + 4
        secured.identity.status = 503
        eventually(lambda: all(NO_TOKEN in worker.log_text() for worker in workers), site.logs)
        assert not any(worker.ready() for worker in workers)
        for rest in parts:
            feed(site, rest)
        secured.identity.status = 200
        site.wait_caught_up()
    finally:
        secured.identity.life_seconds, secured.identity.status = 600.0, 200
    report = check(site)
    assert report["ok"], report
    assert report["records"] == len(load)
    for worker in workers:
        assert "Traceback" not in worker.log_text(), worker.log_text()
        assert not any(token in worker.log_text() for token in secured.identity.tokens)


@pytest.mark.long
def test_passwords_and_certificates_change_twice_under_load_and_nothing_is_lost(
    secured: Secured, site: Pipeline, tmp_path: Path
) -> None:
    """Each time the broker refuses the old password, the old certificate has expired, and no old
    connection is left. The file with the password changes before the broker, then after it.
    """
    site = replace(site, settings={**SMALL, "COVERSUMM_LOG_LEVEL": "DEBUG"})
    site.create_input()
    password, parts = tmp_path / "password", batched_lists(load := events(1000), 8)

    def issue(number: int, life_seconds: float) -> dict[str, str]:
        steps = [
            lambda: password.write_text(f"MARKER-{number}\n"),
            lambda: secured.set_password("rotated", f"MARKER-{number}"),
        ]
        for step in steps if number % 2 else reversed(steps):
            step()
            feed(site, next(parts))
            time.sleep(2 * LOOK_SECONDS)  # so that a worker uses the one without the other
        certificate, key = secured.authority.issue("rotated", seconds=life_seconds)
        return {
            "COVERSUMM_SASL_USERNAME": "rotated",
            "COVERSUMM_SASL_PASSWORD_LOCATION": str(password),
            "COVERSUMM_SSL_CERTIFICATE_LOCATION": str(certificate),
            "COVERSUMM_SSL_KEY_LOCATION": str(key),
        }

    settings = {**secured.sasl(), **issue(0, LIFE_SECONDS * 3)}
    del settings["COVERSUMM_SASL_PASSWORD"]
    ends = time.monotonic() + LIFE_SECONDS * 3
    workers = [site.worker(name) for name in ("one", "two")]
    for worker in workers:
        worker.environment |= settings
        worker.start()
    for worker in workers:
        worker.wait_ready()
    for number, life_seconds in ((1, LIFE_SECONDS * 3), (2, 86_400.0)):
        while time.monotonic() < ends:
            feed(site, next(parts))
            time.sleep(2)
        issue(number, life_seconds)
        ends = time.monotonic() + life_seconds
        secured.broker.stop()
        secured.broker.start()
        feed(site, next(parts))
        site.wait_caught_up()
        for worker in workers:
            worker.wait_ready()
    for rest in parts:
        feed(site, rest)
    site.wait_caught_up()
    assert all(worker.alive and not worker.exit_codes for worker in workers), site.logs()
    report = check(site)
    assert report["records"] == len(load)
    for worker in workers:
        assert "Traceback" not in worker.log_text(), worker.log_text()
        assert "MARKER" not in worker.log_text()


@pytest.mark.long
def test_a_login_that_stays_refused_ends_with_the_reason_and_a_restart_helps(
    secured: Secured, site: Pipeline, tmp_path: Path
) -> None:
    site = replace(site, settings={**SMALL, **IMPATIENT})
    site.create_input()
    secured.set_password("refused", "MARKER-old")
    certificate, key = secured.authority.issue("refused", seconds=LIFE_SECONDS * 2)
    ends = time.monotonic() + LIFE_SECONDS * 2
    files = {
        "COVERSUMM_SSL_CERTIFICATE_LOCATION": str(certificate),
        "COVERSUMM_SSL_KEY_LOCATION": str(key),
    }
    tls = {n: value for n, value in secured.tls().items() if "KEY_PASSWORD" not in n} | files
    user = {"COVERSUMM_SASL_USERNAME": "refused", "COVERSUMM_SASL_PASSWORD": "MARKER-old"}
    settings = {"password": {**secured.sasl(), **user}, "certificate": tls}
    workers = {name: site.worker(name) for name in settings}
    for name, worker in workers.items():
        worker.environment |= settings[name]
        worker.start()
    bridge = bridged(site, tls)
    for worker in workers.values():
        worker.wait_ready()
    site.wait_caught_up()
    secured.set_password("refused", "MARKER-new")
    time.sleep(max(0.0, ends - time.monotonic()))
    secured.broker.stop()
    secured.broker.start()
    words = {"password": "COVERSUMM_SASL_USERNAME=refused", "certificate": "which expired on "}
    for name, worker in workers.items():
        eventually(lambda w=worker, n=name: words[n] in why_unready(w), worker.log_end)  # type: ignore[misc]
        assert worker.metrics()["coversumm_login_refused"] == 1
    for name, worker in workers.items():
        worker.refused(words[name], "start again")
        assert words[name] in worker.log_text().partition("coversumm-worker: error:")[0]
    bridge.refused(words["certificate"])
    secured.authority.issue("refused")
    workers["password"].environment["COVERSUMM_SASL_PASSWORD"] = "MARKER-new"
    for worker in workers.values():
        worker.start()
    for worker in workers.values():
        worker.wait_ready()
        assert worker.metrics()["coversumm_login_refused"] == 0


def why_unready(worker: WorkerProcess) -> str:
    """What `/readyz` says while it says no."""
    with contextlib.suppress(OSError):
        try:
            worker.get("/readyz").close()
        except urllib.error.HTTPError as refused:
            return refused.read().decode()
    return ""


@pytest.mark.long
def test_who_cannot_get_in_is_told_the_settings(secured: Secured, site: Pipeline) -> None:
    """In one line, with exit code 2 and within a bounded time; all at once, for each waits for the
    broker.
    """
    site.create_input()
    cases = wrong(secured)
    for case, (settings, _) in cases.items():
        worker = site.worker(case)
        worker.environment |= settings
        worker.start()
    for worker, (_, names) in zip(site.workers, cases.values(), strict=True):
        worker.refused(*names)
        assert "MARKER" not in worker.log_text()


COMMANDS = (
    ("topics", "--dry-run"),
    ("config", "--check"),
    ("status",),
    ("watch",),
    ("history", "e"),
    ("replay",),
    ("compare", "one", "other"),
    ("promote", "one", "other"),
    ("dlq", "list"),
    ("skip", "0:0", "--reason", "bad_json"),
    ("reset", "--yes"),
)
REFUSED_EVERYWHERE = "password"
REFUSED = one_of(
    ["oauth-secret", REFUSED_EVERYWHERE, "authority", "key-password", "plaintext-to-tls"]
)
"""A case for each setting that the messages name: one for every command, the others for one of each
client. The tests of workers above have every case.
"""


@pytest.mark.parametrize("case", REFUSED)
def test_commands_bridge_and_examples_are_told_too(
    secured: Secured, site: Pipeline, tmp_path: Path, case: str
) -> None:
    """Each in one line, within a bounded time."""
    settings, names = wrong(secured)[case]
    events = tmp_path / "events.jsonl"
    events.write_text(json.dumps(EVENT | {"review_id": "r"}))
    mapping = str(written(tmp_path, deletions("source")))
    commands = [
        *(COMMANDS if case == REFUSED_EVERYWHERE else COMMANDS[:1]),
        ("send", str(events)),
        ("bridge", "--mapping", mapping, "--from", "source"),
        ("mapping", "check", mapping, "--from-topic"),
    ]

    def of_command(number: int) -> str:
        own = {"COVERSUMM_DATA_DIR": str(tmp_path / str(number))}
        return command(site, settings | own, *commands[number], code=2)

    def of_example(program: Path) -> str:
        topic = {"LLM_MODEL": "a-model"} if program.name == "prose.py" else {}
        done = run_command(
            *([] if topic else ["summaries=any"]),
            environment=settings | topic,
            program=[sys.executable, str(program)],
        )
        assert done.returncode == 1, done.stderr
        return done.stderr

    with ThreadPoolExecutor(4) as pool:
        said = pool.map(of_command, range(len(commands)))
        told = pool.map(of_example, EXAMPLES.values())
        for words, output in zip(commands, said, strict=True):
            assert "Traceback" not in output, output
            assert all(name in output for name in names), (words, output)
        for output in told:
            (line,) = output.splitlines()
            assert " check " in line
            assert any(name.startswith(("COVERSUMM", "KAFKA")) for name in line.split())
