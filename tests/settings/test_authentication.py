"""Tokens, certificates and options of clients: what belongs together, and what is refused."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException

import worker
from tests.harness.certificates import Authority
from tests.settings.sasl import SASL
from worker.errors import SetupError
from worker.kafka import clients
from worker.kafka.clients import PATIENCE, KafkaClients
from worker.settings import Settings, kinds
from worker.settings.checks import refusal

OAUTH = {
    "COVERSUMM_SECURITY_PROTOCOL": "SASL_SSL",
    "COVERSUMM_SASL_MECHANISM": "oauthbearer",
    "COVERSUMM_SASL_OAUTH_TOKEN_URL": "https://login.example.com/oauth2/token",
    "COVERSUMM_SASL_OAUTH_CLIENT_ID": "worker",
    "COVERSUMM_SASL_OAUTH_CLIENT_SECRET": "MARKER",
}
MSK = {
    "KAFKA_BOOTSTRAP_SERVERS": "b-1.shop.abc.c2.kafka.eu-central-1.amazonaws.com:9098",
    "COVERSUMM_SECURITY_PROTOCOL": "SASL_SSL",
    "COVERSUMM_SASL_MECHANISM": "AWS_MSK_IAM",
}


def without(given: dict[str, str], name: str) -> dict[str, str]:
    return {variable: value for variable, value in given.items() if variable != name}


@pytest.mark.parametrize("missing", list(OAUTH)[2:])
def test_a_token_needs_all_three(missing: str) -> None:
    settings = Settings.from_environment(OAUTH)
    assert settings.secrets() == ["MARKER"]
    assert "MARKER" not in f"{settings!r} {settings.changed()} {settings.environment()}"
    assert settings.kafka_client_config()["sasl.mechanism"] == "OAUTHBEARER"
    with pytest.raises(SetupError, match=f"{missing}: not set, but needed .*=OAUTHBEARER"):
        Settings.from_environment(without(OAUTH, missing))
    with pytest.raises(SetupError, match=f"{missing}: set, but not used .*=SCRAM-SHA-512"):
        Settings.from_environment({**SASL, missing: OAUTH[missing]})
    with pytest.raises(SetupError, match=f"{missing}: set, but not used .*PROTOCOL=PLAINTEXT"):
        Settings.from_environment({missing: OAUTH[missing]})


@pytest.mark.parametrize("name", ["USERNAME", "PASSWORD"])
def test_a_token_has_no_password(name: str) -> None:
    with pytest.raises(SetupError, match=f"SASL_{name}: set, but not used .*=OAUTHBEARER"):
        Settings.from_environment({**OAUTH, f"COVERSUMM_SASL_{name}": "x"})


@pytest.mark.parametrize(
    ("servers", "region"),
    [
        ("b-1.shop.abc.c2.kafka.eu-central-1.amazonaws.com:9098", "eu-central-1"),
        ("boot-x.c2.kafka-serverless.us-east-1.amazonaws.com:9098", "us-east-1"),
        ("b-1.shop.abc.c2.kafka.cn-north-1.amazonaws.com.cn:9098", "cn-north-1"),
        ("kafka.example.com:9098", None),
        ("kafka.eu-central-1.example.com:9098", None),
    ],
)
def test_the_region_is_in_the_names_of_the_brokers(servers: str, region: str | None) -> None:
    from worker.settings.checks import msk_region

    given = {**MSK, "KAFKA_BOOTSTRAP_SERVERS": servers}
    if region is None:
        with pytest.raises(SetupError, match="COVERSUMM_SASL_AWS_REGION: not set"):
            Settings.from_environment(given)
    else:
        assert msk_region(Settings.from_environment(given)) == region
    chosen = Settings.from_environment({**given, "COVERSUMM_SASL_AWS_REGION": "eu-west-3"})
    assert msk_region(chosen) == "eu-west-3"
    assert chosen.kafka_client_config()["sasl.mechanism"] == "OAUTHBEARER"


def test_msk_needs_tls() -> None:
    with pytest.raises(SetupError, match="COVERSUMM_SECURITY_PROTOCOL: set SASL_SSL"):
        Settings.from_environment({**MSK, "COVERSUMM_SECURITY_PROTOCOL": "SASL_PLAINTEXT"})


# -- options


@pytest.mark.parametrize(
    ("option", "why"),
    [
        ("acks", "transactions"),
        ("request.required.acks", "transactions"),
        ("enable.idempotence", "transactions"),
        ("transactional.id", "transactions"),
        ("max.in.flight.requests.per.connection", "transactions"),
        ("retries", "transactions"),
        ("message.send.max.retries", "transactions"),
        ("transaction.timeout.ms", "COVERSUMM_TRANSACTION_TIMEOUT_MS"),
        ("partitioner", "two partitions"),
        ("sticky.partitioning.linger.ms", "two partitions"),
        ("isolation.level", "aborted messages"),
        ("enable.auto.commit", "records would be skipped"),
        ("auto.commit.interval.ms", "records would be skipped"),
        ("auto.offset.reset", "records would be skipped"),
        ("enable.auto.offset.store", "records would be skipped"),
        ("offset.store.method", "records would be skipped"),
        ("check.crcs", "records would be skipped"),
        ("group.id", "COVERSUMM_APP_ID"),
        ("group.instance.id", "COVERSUMM_INSTANCE_ID"),
        ("session.timeout.ms", "COVERSUMM_SESSION_TIMEOUT_MS"),
        ("message.timeout.ms", "deadlines"),
        ("delivery.timeout.ms", "deadlines"),
        ("sasl.password", "COVERSUMM_SASL_MECHANISM"),
        ("sasl.oauthbearer.client.secret", "COVERSUMM_SASL_MECHANISM"),
        ("sasl.kerberos.keytab", "COVERSUMM_SASL_MECHANISM"),
        ("enable.sasl.oauthbearer.unsecure.jwt", "COVERSUMM_SASL_MECHANISM"),
        ("ssl.key.password", "COVERSUMM_SSL_CA_LOCATION"),
        ("ssl.keystore.password", "COVERSUMM_SSL_CA_LOCATION"),
        ("ssl_key", "COVERSUMM_SSL_CA_LOCATION"),
        ("enable.ssl.certificate.verification", "COVERSUMM_SSL_CA_LOCATION"),
        ("bootstrap.servers", "KAFKA_BOOTSTRAP_SERVERS"),
        ("plugin.library.paths", "code"),
        ("error_cb", "code"),
        ("test.mock.num.brokers", "no message"),
    ],
)
def test_options_that_would_break_delivery_are_refused(option: str, why: str) -> None:
    with pytest.raises(SetupError, match=f"COVERSUMM_CLIENT_OPTIONS: {option} is refused: ") as it:
        Settings.from_environment({"COVERSUMM_CLIENT_OPTIONS": f"debug=all,{option}=MARKER"})
    assert why in str(it.value)
    assert "MARKER" not in str(it.value)


def test_what_the_code_sets_itself_is_refused() -> None:
    """But for compression, where any choice delivers the same."""
    folder = Path(worker.__file__).parent
    places = [*(folder / "kafka").glob("*.py"), *(folder / "cli").glob("*.py")]
    places += [folder / "bridge.py", folder / "published" / "watching.py"]
    text = "".join(place.read_text() for place in places)
    text += (folder / "settings" / "__init__.py").read_text()
    named = set(re.findall(r'"([a-z]+(?:\.[a-z]+)+)":', text)) - PATIENCE.keys()
    named -= {"review.upserted", "compression.type"}
    assert {"linger.ms", "isolation.level", "client.id", "fetch.wait.max.ms"} <= named
    of_topics = {"cleanup.policy", "max.message.bytes", "max.compaction.lag.ms"}
    of_topics |= {"delete.retention.ms", "retention.ms", "retention.bytes"}
    assert {mechanism for mechanism in named if refusal(mechanism) is None} <= of_topics


def test_other_options_reach_every_client(monkeypatch: pytest.MonkeyPatch) -> None:
    options = "compression.type=lz4,client.rack=eu-1a,socket.keepalive.enable=true"
    settings = Settings.from_environment({"COVERSUMM_CLIENT_OPTIONS": options})
    given: list[dict[str, Any]] = []
    for name in ("Producer", "AdminClient", "Consumer"):
        monkeypatch.setattr(clients, name, given.append)
    made = KafkaClients(settings)
    made.producer({"compression.type": "zstd"})
    made.admin()
    made.standalone_consumer("group", "read_committed")
    assert [options["compression.type"] for options in given] == ["lz4"] * 3
    assert {options["client.rack"] for options in given} == {"eu-1a"}
    monkeypatch.undo()
    KafkaClients(settings).producer({})
    for wrong in ("compresion.type=lz4", "compression.type=lz5"):
        settings = Settings.from_environment({"COVERSUMM_CLIENT_OPTIONS": wrong})
        with pytest.raises(SetupError, match=r"COVERSUMM_CLIENT_OPTIONS: .*compres"):
            KafkaClients(settings).producer({})
    with pytest.raises(
        KafkaException, match=r"queue\.buffering"
    ):  # an error of the code's own option
        KafkaClients(Settings.from_environment({})).producer({"linger.ms": "x"})


def test_host_names_are_checked_by_both_clients_or_by_none(tmp_path: Path) -> None:
    tls = {"COVERSUMM_SECURITY_PROTOCOL": "SSL"}
    context = Settings.from_environment(tls).tls_context()
    assert context is not None
    assert context.check_hostname
    option = {"COVERSUMM_CLIENT_OPTIONS": "ssl.endpoint.identification.algorithm=none"}
    settings = Settings.from_environment(tls | option)
    context = settings.tls_context()
    assert context is not None
    assert not context.check_hostname
    KafkaClients(settings).producer({})


@pytest.mark.parametrize("text", ["a", "=b", "a=", "a=b,c", "a=1,a=2", "1=2", "a b=c", ",a=b"])
def test_what_is_no_list_of_options(text: str) -> None:
    if text == "a=b,c":  # a comma may be in a value
        assert kinds.pairs(text) == {"a": "b,c"}
        return
    with pytest.raises(ValueError, match=r"^$"):
        kinds.PAIRS.parse(text)
    with pytest.raises(SetupError, match="COVERSUMM_CLIENT_OPTIONS: its value is not accepted"):
        Settings.from_environment({"COVERSUMM_CLIENT_OPTIONS": text})


@pytest.mark.parametrize("text", ["kafka", "kafka:", "kafka:0", "a:1,b", "a:1,,b:2", "u@a:1"])
def test_brokers_without_a_port_are_refused(text: str) -> None:
    with pytest.raises(SetupError, match=r"KAFKA_BOOTSTRAP_SERVERS: .*host:port"):
        Settings.from_environment({"KAFKA_BOOTSTRAP_SERVERS": text})
    assert kinds.SERVERS.parse("a.b:1, [fd00::1]:9093") == "a.b:1,[fd00::1]:9093"


# -- the registry

REGISTRY = {"COVERSUMM_SCHEMA_REGISTRY_URL": "https://registry:8081"}
OF_REGISTRY = "COVERSUMM_SCHEMA_REGISTRY_"
TOKENS = {
    f"{OF_REGISTRY}OAUTH_TOKEN_URL": "https://login.example.com/token",
    f"{OF_REGISTRY}OAUTH_CLIENT_ID": "worker",
    f"{OF_REGISTRY}OAUTH_CLIENT_SECRET": "MARKER",
}


def test_a_registry_has_tokens_or_a_certificate(tmp_path: Path) -> None:
    settings = Settings.from_environment({**REGISTRY, **TOKENS})
    assert settings.secrets() == ["MARKER"]
    given: tuple[tuple[dict[str, Any], str], ...] = (
        (
            {**TOKENS, f"{OF_REGISTRY}TOKEN": "t"},
            "OAUTH_TOKEN_URL: set, and so is .*TOKEN: unset one",
        ),
        ({f"{OF_REGISTRY}OAUTH_SCOPE": "s"}, "OAUTH_TOKEN_URL: not set, but needed with .*SCOPE"),
        *(
            (without(TOKENS, name), f"{name}: not set, but needed with {OF_REGISTRY}OAUTH_")
            for name in TOKENS
        ),
        ({f"{OF_REGISTRY}KEY_LOCATION": __file__}, "KEY_LOCATION: set both or neither"),
        ({f"{OF_REGISTRY}KEY_PASSWORD": "MARKER"}, "KEY_LOCATION: not set, but needed"),
        ({f"{OF_REGISTRY}HEADERS": "Authorization=MARKER"}, "HEADERS: Authorization is refused"),
        ({f"{OF_REGISTRY}HEADERS": "X-API-Key=MARKER"}, "HEADERS: X-API-Key is refused"),
    )
    for more, words in given:
        with pytest.raises(SetupError, match=words) as refused:
            Settings.from_environment({**REGISTRY, **more})
        assert "MARKER" not in str(refused.value)
    certificate, key = Authority(tmp_path, "authority").issue("client", "secret")
    tls = {
        f"{OF_REGISTRY}CERTIFICATE_LOCATION": str(certificate),
        f"{OF_REGISTRY}KEY_LOCATION": str(key),
        f"{OF_REGISTRY}KEY_PASSWORD": "secret",
    }
    assert Settings.from_environment({**REGISTRY, **tls}).registry_tls_context() is not None
    with pytest.raises(SetupError, match=r"registry's TLS files cannot be used .*KEY_PASSWORD"):
        Settings.from_environment({**REGISTRY, **tls, f"{OF_REGISTRY}KEY_PASSWORD": "wrong"})
