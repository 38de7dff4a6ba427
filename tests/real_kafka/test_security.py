"""TLS and SASL against a broker that asks for them: both client libraries get in, and who cannot is
refused with the reason in one line.

Every secret is a marker, and nothing that a worker writes may contain one.
"""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from confluent_kafka.admin import ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from tests.harness.broker import KafkaBroker
from tests.harness.certificates import Authority
from tests.harness.long import one_of
from tests.harness.patience import PATIENCE_SECONDS, TEST_SECONDS
from tests.harness.topics import read_topic
from tests.harness.workers import Pipeline, run_command

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(TEST_SECONDS)]

USER = "worker"
PASSWORD = 'MARKER-password "with; signs=\\'
KEY_PASSWORD = "MARKER-key-password"
SETTINGS = {"COVERSUMM_LOG_LEVEL": "DEBUG", "COVERSUMM_DIMENSION": "2"}
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


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
        self.broker = KafkaBroker(
            directory / "broker",
            {
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": str(keystore),
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": str(self.authority.path),
                "listener.name.ssl.ssl.client.auth": "required",
                "sasl.enabled.mechanisms": ",".join(MECHANISMS),
                **{
                    f"listener.name.{name}.{key}": value
                    for name in ("sasl_ssl", "sasl_plaintext")
                    for key, value in JAAS.items()
                },
            },
            protocols=("SSL", "SASL_SSL", "SASL_PLAINTEXT"),
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


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    made = Secured(tmp_path_factory.mktemp("secured"))
    with made.broker:
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
    return secured.tls() if name == "SSL" else secured.sasl(name)


@pytest.mark.parametrize("way", one_of(["SSL", *MECHANISMS]))
def test_a_worker_end_to_end(secured: Secured, site: Pipeline, tmp_path: Path, way: str) -> None:
    """Both client libraries: librdkafka makes topics, produces and restores, aiokafka reads the
    input.
    """
    settings = by(way, secured)
    command(site, settings, "topics", "--partitions", "2")
    events = tmp_path / "events.jsonl"
    body = {"text": "Good.", "embedding": [1.0, 0.5]}
    event = {"type": "review.upserted", "entity_id": "e", "review_id": "r", "sentences": [body]}
    events.write_text(json.dumps(event) + "\n")
    command(site, settings, "send", str(events))
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
    (change,) = read_topic(secured.broker.bootstrap_servers, site.output_topic)
    assert json.loads(change.value)["sentences"][0]["text"] == "Good."
    assert worker.terminate() == 0, worker.log_end()
    assert "DEBUG" in worker.log_text()
    assert "MARKER" not in worker.log_text()


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
    return {
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
