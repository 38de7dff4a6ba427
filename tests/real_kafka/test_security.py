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
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka.admin import ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from tests.harness.broker import KafkaBroker
from tests.harness.certificates import Authority
from tests.harness.debezium import deletions, written
from tests.harness.eventually import eventually
from tests.harness.identity import AUDIENCE, ISSUER, Identity
from tests.harness.load import batched_lists
from tests.harness.long import one_of
from tests.harness.patience import PATIENCE_SECONDS, TEST_SECONDS
from tests.harness.small_load import SETTINGS as SMALL
from tests.harness.small_load import check, events, feed
from tests.harness.topics import producer, read_topic
from tests.harness.workers import ROOT, Pipeline, WorkerProcess, run_command
from tests.real_kafka.test_bridge import wait_bridged

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(TEST_SECONDS)]

USER = "worker"
PASSWORD = 'MARKER-password "with; signs=\\'
KEY_PASSWORD = "MARKER-key-password"
SETTINGS = {"COVERSUMM_LOG_LEVEL": "DEBUG", "COVERSUMM_DIMENSION": "2"}
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
CLIENT_SECRET = "MARKER-secret +/:%"
REAUTH_MS = 3_600_000  # the longest session of a token; its own life is shorter
LIFE_SECONDS = 20.0
"""Of a token under load. librdkafka looks once a second whether its token is to be renewed."""
NO_TOKEN = "gives no token (status 503)"
SIGNER = """
import pathlib, time

class MSKAuthTokenProvider:
    @staticmethod
    def generate_auth_token(region):
        assert region == "eu-central-1"
        token = pathlib.Path(__file__).with_name("token").read_text()
        return token, (time.time() + 500) * 1000
"""
"""In place of AWS's signer, whose tokens only MSK accepts."""


class Secured:
    """A broker that speaks every security protocol, and the files of those who may and may not talk
    to it.
    """

    def __init__(self, directory: Path):
        self.authority = Authority(directory, "authority")
        self.stranger = Authority(directory, "stranger")
        self.client, self.client_key = self.authority.issue("client", KEY_PASSWORD)
        self.foreign_client, self.foreign_key = self.stranger.issue("foreign")
        certificate, key = self.authority.issue("broker")
        keystore = directory / "broker.pem"
        keystore.write_bytes(key.read_bytes() + certificate.read_bytes())
        self.identity = Identity(directory, self.authority, {"worker": CLIENT_SECRET})
        self.signer = directory / "signer"
        self.broker = KafkaBroker(
            directory / "broker",
            {
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": str(keystore),
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": str(self.authority.path),
                "listener.name.ssl.ssl.client.auth": "required",
                "sasl.enabled.mechanisms": ",".join((*MECHANISMS, "OAUTHBEARER")),
                "listener.name.sasl_ssl.oauthbearer.connections.max.reauth.ms": str(REAUTH_MS),
                **{
                    f"listener.name.{name}.{key}": value
                    for name in ("sasl_ssl", "sasl_plaintext")
                    for key, value in of_tokens(self.identity).items()
                },
                **{
                    f"listener.name.{name}.{key}": value
                    for name in ("sasl_ssl", "sasl_plaintext")
                    for key, value in JAAS.items()
                },
            },
            protocols=("SSL", "SASL_SSL", "SASL_PLAINTEXT"),
        )
        self.broker.environment["JAVA_TOOL_OPTIONS"] = (
            f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={self.identity.keys.as_uri()}"
        )

    def add_users(self) -> None:
        """Users of SCRAM are the broker's data."""
        admin = self.broker.admin()
        for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
            user = UserScramCredentialUpsertion(
                USER, ScramCredentialInfo(mechanism, 4096), PASSWORD.encode()
            )
            for future in admin.alter_user_scram_credentials([user]).values():
                future.result(PATIENCE_SECONDS)

    def sasl(self, mechanism: str = "SCRAM-SHA-512", protocol: str = "SASL_SSL") -> dict[str, str]:
        """The settings of a worker that may come in by user and password."""
        tls = (
            {"COVERSUMM_SSL_CA_LOCATION": str(self.authority.path)}
            if protocol == "SASL_SSL"
            else {}
        )
        return {
            "KAFKA_BOOTSTRAP_SERVERS": self.broker.addresses[protocol],
            "COVERSUMM_SECURITY_PROTOCOL": protocol,
            "COVERSUMM_SASL_MECHANISM": mechanism,
            "COVERSUMM_SASL_USERNAME": USER,
            "COVERSUMM_SASL_PASSWORD": PASSWORD,
            **tls,
        }

    def oauth(self) -> dict[str, str]:
        """The settings of a worker that may come in by a token of the provider."""
        return {
            "KAFKA_BOOTSTRAP_SERVERS": self.broker.addresses["SASL_SSL"],
            "COVERSUMM_SECURITY_PROTOCOL": "SASL_SSL",
            "COVERSUMM_SASL_MECHANISM": "OAUTHBEARER",
            "COVERSUMM_SASL_OAUTH_TOKEN_URL": self.identity.url,
            "COVERSUMM_SASL_OAUTH_CLIENT_ID": "worker",
            "COVERSUMM_SASL_OAUTH_CLIENT_SECRET": CLIENT_SECRET,
            "COVERSUMM_SASL_OAUTH_SCOPE": "kafka",
            "COVERSUMM_SASL_OAUTH_EXTENSIONS": "logicalCluster=lkc-1,identityPoolId=pool-1",
            "COVERSUMM_SASL_OAUTH_CA_LOCATION": str(self.authority.path),
            "COVERSUMM_SSL_CA_LOCATION": str(self.authority.path),
        }

    def aws(self) -> dict[str, str]:
        """The settings of a worker that may come in by a token that the stand-in signed."""
        package = self.signer / "aws_msk_iam_sasl_signer"
        package.mkdir(parents=True, exist_ok=True)
        (package / "__init__.py").write_text(SIGNER)
        now = int(time.time())
        claims = {"iss": ISSUER, "aud": AUDIENCE, "sub": "worker", "iat": now, "exp": now + 600}
        (package / "token").write_text(self.identity.token({**claims, "scope": "kafka"}))
        return {
            "KAFKA_BOOTSTRAP_SERVERS": self.broker.addresses["SASL_SSL"],
            "COVERSUMM_SECURITY_PROTOCOL": "SASL_SSL",
            "COVERSUMM_SASL_MECHANISM": "AWS_MSK_IAM",
            "COVERSUMM_SASL_AWS_REGION": "eu-central-1",
            "COVERSUMM_SSL_CA_LOCATION": str(self.authority.path),
            "PYTHONPATH": str(self.signer),
        }

    def tls(self) -> dict[str, str]:
        """The settings of a worker that may come in by its certificate."""
        return {
            "KAFKA_BOOTSTRAP_SERVERS": self.broker.addresses["SSL"],
            "COVERSUMM_SECURITY_PROTOCOL": "SSL",
            "COVERSUMM_SSL_CA_LOCATION": str(self.authority.path),
            "COVERSUMM_SSL_CERTIFICATE_LOCATION": str(self.client),
            "COVERSUMM_SSL_KEY_LOCATION": str(self.client_key),
            "COVERSUMM_SSL_KEY_PASSWORD": KEY_PASSWORD,
        }


_QUOTED = PASSWORD.replace("\\", "\\\\").replace('"', '\\"')
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
JAAS = {
    "plain.sasl.jaas.config": (
        f'org.apache.kafka.common.security.plain.PlainLoginModule required user_{USER}="{_QUOTED}";'
    ).replace("\\", "\\\\"),  # a properties file takes one backslash off itself
    "scram-sha-256.sasl.jaas.config": _SCRAM,
    "scram-sha-512.sasl.jaas.config": _SCRAM,
}


def of_tokens(identity: Identity) -> dict[str, str]:
    """What a listener needs to verify the provider's tokens."""
    oauth = "org.apache.kafka.common.security.oauthbearer"
    return {
        "oauthbearer.sasl.jaas.config": f"{oauth}.OAuthBearerLoginModule required;",
        "oauthbearer.sasl.server.callback.handler.class": (
            f"{oauth}.OAuthBearerValidatorCallbackHandler"
        ),
        "oauthbearer.sasl.oauthbearer.jwks.endpoint.url": identity.keys.as_uri(),
        "oauthbearer.sasl.oauthbearer.expected.audience": AUDIENCE,
        "oauthbearer.sasl.oauthbearer.expected.issuer": ISSUER,
    }


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


def command(site: Pipeline, settings: Mapping[str, str], *arguments: str, code: int = 0) -> str:
    """What a command wrote, on both of its outputs; no secret among it."""
    done = run_command(*arguments, environment={**site.environment, **settings})
    written = done.stdout + done.stderr
    assert done.returncode == code, written
    assert "MARKER" not in written
    return written


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


def by(name: str, secured: Secured) -> dict[str, str]:
    own = {"SSL": secured.tls, "OAUTHBEARER": secured.oauth, "AWS_MSK_IAM": secured.aws}
    return own[name]() if name in own else secured.sasl(name)


@pytest.mark.parametrize("way", one_of(["OAUTHBEARER", "SSL", "AWS_MSK_IAM", *MECHANISMS], short=3))
def test_a_worker_end_to_end(secured: Secured, site: Pipeline, tmp_path: Path, way: str) -> None:
    """Both client libraries: librdkafka makes topics, produces and restores, aiokafka reads the
    input. Commands and a bridge log in by the same settings.
    """
    settings = by(way, secured) | {"COVERSUMM_CLIENT_OPTIONS": "compression.type=lz4"}
    command(site, settings, "topics", "--partitions", "2")
    events = tmp_path / "events.jsonl"
    body = {"text": "Good.", "embedding": [1.0, 0.5]}
    event = {"type": "review.upserted", "entity_id": "e", "sentences": [body]}
    events.write_text("".join(json.dumps(event | {"review_id": one}) + "\n" for one in ("r", "s")))
    command(site, settings, "send", str(events))
    bridge = bridged(site, settings)
    assert "summaries" in of_an_example(site, settings)
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
    assert [one["review_id"] for one in json.loads(change.value)["sentences"]] == ["r"]
    for process in (worker, bridge):
        assert process.terminate() == 0, process.log_end()
        assert "DEBUG" in process.log_text()
        assert "MARKER" not in process.log_text()
        assert not any(token in process.log_text() for token in secured.identity.tokens)


LIST = "from kafka_env import *; from confluent_kafka import Consumer as C; "
LIST += "print(C(kafka_options() | {'group.id': 'x'}).list_topics(timeout=60).topics.keys())"


def of_an_example(site: Pipeline, settings: Mapping[str, str]) -> str:
    """The topics that a program with deploy/examples/kafka_env.py sees by the same settings."""
    done = run_command(
        environment={**site.environment, **settings},
        cwd=ROOT / "deploy" / "examples",
        program=[sys.executable, "-c", LIST],
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


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
        load = events(3000)
        parts = batched_lists(load, 100)
        given, began = len(secured.identity.tokens), time.monotonic()
        while time.monotonic() - began < 2 * LIFE_SECONDS:
            feed(site, next(parts))
            time.sleep(2)
        # 70 % of a life after the other, in two processes
        assert len(secured.identity.tokens) >= given + 4
        secured.identity.status = 503
        eventually(lambda: all(NO_TOKEN in one.log_text() for one in workers), site.logs)
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


def wrong(secured: Secured) -> dict[str, tuple[dict[str, str], tuple[str, ...]]]:
    """By name: settings with one thing wrong, and what the error has to name."""
    sasl, tls = secured.sasl(), secured.tls()
    strangers = {"COVERSUMM_SSL_CA_LOCATION": str(secured.stranger.path)}
    foreign = {
        "COVERSUMM_SSL_CERTIFICATE_LOCATION": str(secured.foreign_client),
        "COVERSUMM_SSL_KEY_LOCATION": str(secured.foreign_key),
    }
    no_key = {name: value for name, value in tls.items() if name != "COVERSUMM_SSL_KEY_PASSWORD"}
    bare = {
        name: value
        for name, value in tls.items()
        if "_CERTIFICATE_" not in name and "_KEY_" not in name
    }
    plain = secured.broker.bootstrap_servers
    users = ("COVERSUMM_SASL_USERNAME", "COVERSUMM_SASL_PASSWORD")
    oauth = secured.oauth()
    return {
        "oauth-secret": (
            {**oauth, "COVERSUMM_SASL_OAUTH_CLIENT_SECRET": "MARKER-wrong"},
            ("401 invalid_client", "COVERSUMM_SASL_OAUTH_CLIENT_SECRET"),
        ),
        "oauth-provider": (
            {**oauth, "COVERSUMM_SASL_OAUTH_CA_LOCATION": str(secured.stranger.path)},
            ("COVERSUMM_SASL_OAUTH_TOKEN_URL", "verify failed"),
        ),
        "oauth-scope": (
            {**oauth, "COVERSUMM_SASL_OAUTH_SCOPE": ""},
            ("the broker does not accept the token", "COVERSUMM_SASL_OAUTH_TOKEN_URL"),
        ),
        "client-option": (
            {**sasl, "COVERSUMM_CLIENT_OPTIONS": "acks=1"},
            ("COVERSUMM_CLIENT_OPTIONS: acks is refused",),
        ),
        "unknown-client-option": (
            {**sasl, "COVERSUMM_CLIENT_OPTIONS": "compresion.type=lz4"},
            ("COVERSUMM_CLIENT_OPTIONS", "compresion.type"),
        ),
        "password": ({**sasl, "COVERSUMM_SASL_PASSWORD": "MARKER-wrong"}, users),
        "user": ({**sasl, "COVERSUMM_SASL_USERNAME": "nobody"}, users),
        "password-plain": (
            {**secured.sasl("PLAIN"), "COVERSUMM_SASL_PASSWORD": "MARKER-wrong"},
            users,
        ),
        "authority": ({**sasl, **strangers}, ("COVERSUMM_SSL_CA_LOCATION",)),
        "no-client-certificate": (bare, ("COVERSUMM_SSL_CERTIFICATE_LOCATION",)),
        "foreign-client-certificate": (
            {**no_key, **foreign},
            ("COVERSUMM_SSL_CERTIFICATE_LOCATION", "COVERSUMM_SSL_KEY_LOCATION"),
        ),
        "key-password": (
            {**tls, "COVERSUMM_SSL_KEY_PASSWORD": "MARKER-wrong"},
            ("COVERSUMM_SSL_KEY_PASSWORD",),
        ),
        "no-key-password": (no_key, ("COVERSUMM_SSL_KEY_PASSWORD",)),
        "plaintext-to-tls": (
            {"KAFKA_BOOTSTRAP_SERVERS": secured.broker.addresses["SASL_SSL"]},
            ("COVERSUMM_SECURITY_PROTOCOL",),
        ),
        "tls-to-plaintext": (
            {**sasl, "KAFKA_BOOTSTRAP_SERVERS": plain},
            ("COVERSUMM_SECURITY_PROTOCOL",),
        ),
        "sasl-to-no-sasl": (
            {**secured.sasl(protocol="SASL_PLAINTEXT"), "KAFKA_BOOTSTRAP_SERVERS": plain},
            ("COVERSUMM_SECURITY_PROTOCOL",),
        ),
    }


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


def test_the_other_commands_are_told_too(secured: Secured, site: Pipeline, tmp_path: Path) -> None:
    settings, names = wrong(secured)["password"]
    assert all(name in command(site, settings, "topics", "--dry-run", code=2) for name in names)
    settings, names = wrong(secured)["key-password"]
    events = tmp_path / "events.jsonl"
    events.write_text("{}")
    assert all(name in command(site, settings, "send", str(events), code=2) for name in names)
