"""Tokens: one source for all clients, renewed in time, and refusals that name the setting."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError

from tests.harness.certificates import Authority
from tests.harness.identity import Identity
from worker.credentials.tokens import (
    ClientCredentials,
    Token,
    TokenError,
    TokenRefused,
    TokenSource,
    kafka_tokens,
)
from worker.errors import SetupError, Unanswered
from worker.kafka.clients import KafkaClients
from worker.kafka.errors import Diagnosis
from worker.settings import Settings

SECRET = "MARKER secret/+%&="


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def time(self) -> float:
        return self.now


class Provider:
    """Gives tokens of 100 s; `fails` raises instead."""

    def __init__(self, clock: Clock) -> None:
        self.clock, self.given, self.fails = clock, 0, False

    def __call__(self) -> Token:
        if self.fails:
            raise TokenError("away")
        self.given += 1
        return Token(f"t{self.given}", self.clock.now + 100)


def test_a_token_is_renewed_when_seventy_percent_of_its_life_are_over() -> None:
    clock: Any = Clock()
    provider = Provider(clock)
    source = TokenSource(provider, clock)
    assert str(source.token()) == "t1"
    clock.now += 69
    assert str(source.token()) == "t1"
    clock.now += 1
    assert str(source.token()) == "t2"
    assert provider.given == 2


def test_without_its_provider_a_token_is_used_until_it_expires() -> None:
    clock: Any = Clock()
    provider = Provider(clock)
    source = TokenSource(provider, clock)
    source.token()
    provider.fails = True
    clock.now += 97
    assert str(source.token()) == "t1"
    assert str(source.failed) == "away"
    clock.now += 1
    for _ in range(2):
        with pytest.raises(TokenError, match="away"):
            source.token()
    provider.fails = False
    with pytest.raises(TokenError, match="away"):
        source.token()  # asked a moment ago: a provider is not asked by each connection
    clock.now += 2
    assert str(source.token()) == "t2"
    assert source.failed is None


def test_threads_that_ask_at_once_cause_one_request() -> None:
    given = []

    def fetch() -> Token:
        time.sleep(0.05)
        given.append(1)
        return Token("t", time.time() + 100)

    source = TokenSource(fetch)
    threads = [threading.Thread(target=source.token) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(given) == 1


@pytest.fixture
def provider(tmp_path: Path) -> Iterator[Identity]:
    with Identity(tmp_path, Authority(tmp_path, "authority"), {"a client": SECRET}) as running:
        yield running


def credentials(provider: Identity, **changed: Any) -> ClientCredentials:
    given = ClientCredentials(
        "COVERSUMM_SASL_OAUTH_",
        provider.url,
        "a client",
        SECRET,
        "read write",
        "kafka",
        str(provider.keys.with_name("authority.pem")),
    )
    return given._replace(**changed)


def test_a_client_logs_in_and_asks_for_scope_and_audience(provider: Identity) -> None:
    provider.life_seconds = 30
    token = credentials(provider).fetch()
    assert token.text == provider.tokens[0]
    assert 25 < token.expires - time.time() <= 30
    form = {"grant_type": "client_credentials", "scope": "read write", "audience": "kafka"}
    assert provider.requests == [{**form, "client": "a client"}]


def test_a_provider_that_says_no_expiry_has_it_in_its_token(
    provider: Identity, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = provider.token({"exp": 4_000_000_000})
    for answer, expires in (
        ({"access_token": token}, 4_000_000_000.0),
        ({"access_token": "opaque", "expires_in": "3600"}, time.time() + 3600),
    ):
        monkeypatch.setattr(Identity, "_answer", lambda *_, answer=answer: (200, answer))
        assert credentials(provider).fetch().expires == pytest.approx(expires, abs=5)
    bad: tuple[Any, ...] = ({"access_token": "opaque"}, {"expires_in": 5}, [], "x", {})
    for answer in bad:
        monkeypatch.setattr(Identity, "_answer", lambda *_, answer=answer: (200, answer))
        with pytest.raises(TokenRefused, match=r"COVERSUMM_SASL_OAUTH_TOKEN_URL=.* no token with"):
            credentials(provider).fetch()


def test_a_refusal_names_the_settings_and_no_secret(provider: Identity) -> None:
    with pytest.raises(TokenRefused, match=r"401 invalid_client .*OAUTH_CLIENT_SECRET") as refused:
        credentials(provider, secret="MARKER-wrong").fetch()
    assert "MARKER" not in str(refused.value)
    with pytest.raises(TokenRefused, match=r"TOKEN_URL=https.* \(.*CERTIFICATE_VERIFY_FAILED"):
        credentials(provider, ca_location=None).fetch()
    for status in (500, 503, 429):
        provider.status = status
        with pytest.raises(TokenError, match=f"status {status}") as error:
            credentials(provider).fetch()
        assert type(error.value) is TokenError  # asked again
    with pytest.raises(TokenError, match="gives no token") as error:
        credentials(provider, url="https://127.0.0.1:1/token").fetch()
    assert type(error.value) is TokenError


def settings(provider: Identity, **changed: Any) -> Settings:
    return Settings(
        bootstrap_servers="127.0.0.1:1",
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="OAUTHBEARER",
        **{
            "sasl_oauth_token_url": provider.url,
            "sasl_oauth_client_id": "a client",
            "sasl_oauth_client_secret": SECRET,
            "sasl_oauth_ca_location": str(provider.keys.with_name("authority.pem")),
            **changed,
        },
    )


def test_all_clients_share_one_source(provider: Identity) -> None:
    first, other = settings(provider), settings(provider, k=3, app_id="other")
    assert kafka_tokens(first) is kafka_tokens(other)
    assert kafka_tokens(settings(provider, sasl_oauth_scope="x")) is not kafka_tokens(first)
    assert kafka_tokens(Settings()) is None
    for each in (first, other):
        KafkaClients(each).producer({})
    assert len(provider.tokens) == 1


def test_a_broker_that_refuses_clients_without_a_token_is_not_the_reason(
    provider: Identity,
) -> None:
    own = settings(provider, sasl_oauth_scope="of the diagnosis")
    diagnosis = Diagnosis(own)
    diagnosis(KafkaError(KafkaError._AUTHENTICATION, "SASL authentication error: expired"))
    assert diagnosis.reason().startswith("the broker does not accept the token: check COVERSUMM_")
    provider.status = 503
    with pytest.raises(SetupError):
        KafkaClients(own)
    assert diagnosis.reason().endswith("gives no token (status 503)")


def test_a_broker_that_disconnects_may_have_another_time(provider: Identity) -> None:
    """It says nothing when a token has expired."""
    lost = KafkaError(KafkaError._TRANSPORT, "Disconnected")
    for own, is_hinted in ((settings(provider), True), (Settings(), False)):
        diagnosis = Diagnosis(own)
        diagnosis(lost)
        assert ("compare the clocks" in diagnosis.reason()) is is_hinted


def test_clients_without_a_token_are_refused_before_a_broker_is_asked(provider: Identity) -> None:
    provider.status = 503
    with pytest.raises(SetupError, match=r"COVERSUMM_SASL_OAUTH_TOKEN_URL") as refused:
        KafkaClients(settings(provider, sasl_oauth_scope="of this test"))
    assert isinstance(refused.value.__cause__, Unanswered)  # a worker asks again
    with pytest.raises(SetupError, match="COVERSUMM_SASL_OAUTH_CLIENT_SECRET") as refused:
        KafkaClients(settings(provider, sasl_oauth_client_secret="wrong"))
    assert refused.value.__cause__ is None


MSK = Settings(
    bootstrap_servers="b-1.shop.abc123.c2.kafka.eu-central-1.amazonaws.com:9098",
    security_protocol="SASL_SSL",
    sasl_mechanism="AWS_MSK_IAM",
)


def test_aws_signs_a_token_for_the_region_of_the_brokers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A presigned URL, see https://github.com/aws/aws-msk-iam-sasl-signer-python."""
    import base64

    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "MARKER")
    source = kafka_tokens(MSK)
    assert source is not None
    token = source.token()
    url = base64.urlsafe_b64decode(token.text + "=" * (-len(token.text) % 4)).decode()
    assert url.startswith(
        "https://kafka.eu-central-1.amazonaws.com/?Action=kafka-cluster%3AConnect"
    )
    assert "AKIDEXAMPLE" in url
    assert "MARKER" not in url
    assert 800 < token.expires - time.time() <= 900


def test_without_aws_credentials_or_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    import aws_msk_iam_sasl_signer.MSKAuthTokenProvider as signer

    def of(region: str) -> TokenSource:
        source = kafka_tokens(
            Settings(
                bootstrap_servers="kafka:9098",
                security_protocol="SASL_SSL",
                sasl_mechanism="AWS_MSK_IAM",
                sasl_aws_region=region,
            )
        )
        assert source is not None
        return source

    monkeypatch.setattr(signer, "__load_default_credentials__", lambda: None)
    with pytest.raises(TokenRefused, match=r"COVERSUMM_SASL_MECHANISM=AWS_MSK_IAM: .*credentials"):
        of("eu-north-1").token()

    def fails() -> None:
        raise RuntimeError("STS is away")

    monkeypatch.setattr(signer, "__load_default_credentials__", fails)
    with pytest.raises(TokenError, match="STS is away"):
        of("eu-south-1").token()
    monkeypatch.setitem(sys.modules, "aws_msk_iam_sasl_signer", None)
    with pytest.raises(SetupError, match=r"extra `msk`: .*aws-msk-iam-sasl-signer"):
        of("eu-south-2").token()
