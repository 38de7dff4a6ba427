"""The client: what it asks, whom it trusts, and what it makes of answers that are none."""

from __future__ import annotations

import base64
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness.certificates import Authority
from tests.harness.identity import Identity
from tests.harness.node import free_port
from tests.registry.served import Answers, served
from worker.errors import SetupError
from worker.registry import client
from worker.registry.client import RegistryRefused, RegistryUnreachable, SchemaRegistry, patiently
from worker.settings import Settings


@pytest.fixture
def answers() -> Iterator[Answers]:
    with served() as made:
        yield made


@pytest.fixture
def registry(answers: Answers) -> SchemaRegistry:
    return SchemaRegistry([answers.url], {})


def reference(subject: str) -> dict[str, Any]:
    return {"name": subject, "subject": subject, "version": 1}


def test_a_schema_comes_with_all_that_it_refers_to_deepest_first(
    answers: Answers, registry: SchemaRegistry
) -> None:
    answers.given |= {
        "GET /schemas/ids/7": (
            200,
            {"schema": "root", "references": [reference("a"), reference("b/c")]},
        ),
        "GET /subjects/a/versions/1": (200, {"schema": "A", "references": [reference("b/c")]}),
        "GET /subjects/b%2Fc/versions/1": (200, {"schema": "C"}),
        "GET /schemas/ids/8": (200, {"schema": "{}", "schemaType": "JSON"}),
    }
    found = registry.schema(7)
    assert found is not None
    assert (found.text, found.schema_type, found.referred) == ("root", "AVRO", ("C", "A"))
    assert registry.schema(8) == ("{}", "JSON", ())
    assert registry.schema(9) is None


def test_schemas_that_refer_to_each_other_end(answers: Answers, registry: SchemaRegistry) -> None:
    answers.given |= {
        "GET /schemas/ids/7": (200, {"schema": "root", "references": [reference("a")]}),
        "GET /subjects/a/versions/1": (200, {"schema": "A", "references": [reference("b")]}),
        "GET /subjects/b/versions/1": (200, {"schema": "B", "references": [reference("a")]}),
    }
    found = registry.schema(7)
    assert found is not None
    assert set(found.referred) == {"A", "B"}


def test_a_schema_that_refers_to_too_many_is_refused(
    answers: Answers, registry: SchemaRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "MAX_REFERENCES", 2)
    names = ["a", "b", "c"]
    answers.given |= {f"GET /subjects/{n}/versions/1": (200, {"schema": n}) for n in names}
    many = {"schema": "root", "references": [reference(name) for name in names]}
    answers.given["GET /schemas/ids/7"] = (200, many)
    with pytest.raises(RegistryRefused, match="more than 2 schemas"):
        registry.schema(7)


USER = {"schema_registry_username": "u", "schema_registry_password": "p"}
BASIC = f"Basic {base64.b64encode(b'u:p').decode()}"


@pytest.mark.parametrize(
    ("given", "header"),
    [({}, None), (USER, BASIC), ({"schema_registry_token": "t"}, "Bearer t")],
)
def test_credentials_go_to_the_registry_alone(
    answers: Answers, given: dict[str, str], header: str | None
) -> None:
    registry = SchemaRegistry.of(Settings(schema_registry_url=answers.url, **given))
    with served() as stranger:
        answers.given["GET /schemas/ids/7"] = (302, f"{stranger.url}/x".encode())
        stranger.given["GET /x"] = (200, {"schema": "s"})
        assert registry.schema(7) == ("s", "AVRO", ())
        assert [path for _, path, _ in answers.requests] == [header]
        assert [path for _, path, _ in stranger.requests] == [None]


def test_a_registry_is_asked_with_the_providers_token_and_more_headers(
    answers: Answers, tmp_path: Path
) -> None:
    answers.given["GET /schemas/types"] = (200, ["AVRO"])
    authority = Authority(tmp_path, "authority")
    with Identity(tmp_path, authority, {"reader": "MARKER"}) as provider:
        given = {
            "schema_registry_url": answers.url,
            "schema_registry_oauth_token_url": provider.url,
            "schema_registry_oauth_client_id": "reader",
            "schema_registry_oauth_client_secret": "MARKER",
            "schema_registry_oauth_scope": "schemas",
            "schema_registry_headers": "target-sr-cluster=lsrc-1",
            "schema_registry_ca_location": str(authority.path),
        }
        settings = Settings(**given)
        SchemaRegistry.of(settings).ask()
        SchemaRegistry.of(settings).ask()
        (token,) = provider.tokens
        assert [path for _, path, _ in answers.requests] == [f"Bearer {token}"] * 2
        assert {header["target-sr-cluster"] for header in answers.headers} == {"lsrc-1"}
        assert provider.requests[0]["scope"] == "schemas"
        wrong = Settings(**given | {"schema_registry_oauth_client_secret": "MARKER-wrong"})
        with pytest.raises(client.RegistryMisconfigured, match="401") as refused:
            SchemaRegistry.of(wrong).ask()
        assert "COVERSUMM_SCHEMA_REGISTRY_OAUTH_CLIENT_SECRET" in str(refused.value)
        assert "MARKER" not in str(refused.value)
        provider.status = 503
        away = Settings(**given | {"schema_registry_oauth_scope": "other"})
        with pytest.raises(RegistryUnreachable, match=r"OAUTH_TOKEN_URL=.*503") as error:
            SchemaRegistry.of(away).ask()
        assert not isinstance(error.value, client.RegistryMisconfigured)  # a worker waits
    assert len(answers.requests) == 2


def test_a_registry_may_ask_for_a_certificate(tmp_path: Path) -> None:
    authority, stranger = Authority(tmp_path, "authority"), Authority(tmp_path, "stranger")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(authority.path))
    context.load_cert_chain(*authority.issue("registry"))
    context.verify_mode = ssl.CERT_REQUIRED
    certificate, key = authority.issue("client", "secret")
    with served(context) as secured:
        secured.given["GET /schemas/types"] = (200, ["AVRO"])
        trusting = {
            "schema_registry_url": secured.url,
            "schema_registry_ca_location": str(authority.path),
        }
        own = {
            "schema_registry_certificate_location": str(certificate),
            "schema_registry_key_location": str(key),
            "schema_registry_key_password": "secret",
        }
        SchemaRegistry.of(Settings(**trusting, **own)).ask()
        foreign, foreign_key = stranger.issue("foreign")
        others = {
            "schema_registry_certificate_location": str(foreign),
            "schema_registry_key_location": str(foreign_key),
        }
        for refused in ({}, others):
            with pytest.raises(RegistryUnreachable):
                SchemaRegistry.of(Settings(**trusting, **refused)).ask()
        assert len(secured.requests) == 1


def test_another_url_is_asked_until_one_answers_and_it_stays(answers: Answers) -> None:
    answers.given["GET /schemas/ids/7"] = (200, {"schema": "s"})
    with served() as broken:
        broken.given["GET /schemas/ids/7"] = (503, b"down")
        gone = f"http://127.0.0.1:{free_port()}"
        registry = SchemaRegistry([gone, broken.url, answers.url], {})
        for _ in range(2):
            assert registry.schema(7) is not None
        assert (len(broken.requests), len(answers.requests)) == (1, 2)


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (500, {"error_code": 50001, "message": "the store is away"}, "500 the store is away"),
        (429, b"", "429"),
        (404, b"<html>", "404 Not Found"),
        (400, b"<html>", "400 Bad Request"),
        (421, {"message": "no such host"}, "421 Misdirected Request"),
        (401, b"", "COVERSUMM_SCHEMA_REGISTRY_USERNAME"),
        (403, {"error_code": 40301, "message": "denied"}, "403 denied: check"),
        (200, b"<html>", "not JSON"),
        (200, {"id": 7}, "not a schema"),
    ],
)
def test_an_answer_that_says_nothing_of_the_schema_is_no_answer(
    answers: Answers, registry: SchemaRegistry, status: int, body: Any, words: str
) -> None:
    answers.given["GET /schemas/ids/7"] = (status, body)
    with pytest.raises(RegistryUnreachable, match=words):
        registry.schema(7)


@pytest.mark.parametrize("begin", [b"", b"200 OK", b"404 Not Found"])
def test_an_answer_that_drips_is_none(begin: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each byte arrives within the timeout, the last one never."""
    monkeypatch.setattr(client, "TIMEOUT_SECONDS", 0.5)
    done = threading.Event()

    def drip(listener: socket.socket) -> None:
        connection = listener.accept()[0]
        if begin:
            connection.sendall(b"HTTP/1.1 " + begin + b"\r\nContent-Length: 1000\r\n\r\n")
        with connection:
            give_up = time.monotonic() + 20
            while not done.wait(0.05) and time.monotonic() < give_up:
                connection.sendall(b" ")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=drip, args=[listener], daemon=True)
        thread.start()
        started = time.monotonic()
        try:
            with pytest.raises(RegistryUnreachable, match="timed out"):
                SchemaRegistry([f"http://127.0.0.1:{listener.getsockname()[1]}"], {}).schema(7)
        finally:
            done.set()
        assert time.monotonic() - started < 20


def test_a_redirect_to_no_url_is_no_answer(answers: Answers, registry: SchemaRegistry) -> None:
    answers.given["GET /schemas/ids/7"] = (302, b"http://a..b/")
    with pytest.raises(RegistryUnreachable, match="label empty"):
        registry.schema(7)


def test_an_answer_without_end_is_refused(
    answers: Answers, registry: SchemaRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "MAX_ANSWER_BYTES", 100)
    answers.given["GET /schemas/ids/7"] = (200, {"schema": "s" * 200})
    with pytest.raises(RegistryRefused, match="more than 100 bytes"):
        registry.schema(7)


def test_a_command_asks_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "PAUSE_SECONDS", 0)
    registry = SchemaRegistry([f"http://127.0.0.1:{free_port()}"], {})
    asked = []

    def ask() -> None:
        asked.append(1)
        registry.ask()

    with pytest.raises(SetupError, match=r"Connection refused.*COVERSUMM_SCHEMA_REGISTRY_URL"):
        patiently(ask)
    assert len(asked) == client.ATTEMPTS
