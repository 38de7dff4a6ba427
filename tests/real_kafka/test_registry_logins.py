"""A real registry that asks for an OAuth provider's tokens, behind a gateway that asks for a client
certificate. Commands and a worker with both get in; without one, the error names its setting.

Apicurio itself asks for tokens. Whether it asks for certificates is decided by its build.
"""

from __future__ import annotations

import ssl
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import urlsplit

import pytest

from tests.harness.broker import KafkaBroker
from tests.harness.certificates import Authority
from tests.harness.http_server import Handler, HttpServer
from tests.harness.identity import AUDIENCE, LATE, Identity
from tests.harness.patience import PATIENCE_SECONDS, TEST_SECONDS
from tests.harness.registry import Registry
from tests.harness.secured import command
from tests.harness.small_load import SETTINGS, events, feed
from tests.harness.topics import read_topic
from tests.harness.workers import pipeline

pytestmark = [pytest.mark.kafka, pytest.mark.long, pytest.mark.timeout(TEST_SECONDS)]

SECRET = "MARKER-secret"
OF = "COVERSUMM_SCHEMA_REGISTRY_"


def gateway(url: str, authority: Authority) -> HttpServer:
    """TLS before this address, for clients with a certificate of the authority."""

    class Forward(Handler):
        def do_GET(self) -> None:
            size = int(self.headers.get("Content-Length", 0))
            asked = urllib.request.Request(
                url + self.path, self.rfile.read(size) if size else None, method=self.command
            )
            for name in ("Authorization", "Content-Type", "Accept"):
                if name in self.headers:
                    asked.add_header(name, self.headers[name])
            try:
                answer = urllib.request.urlopen(asked, timeout=PATIENCE_SECONDS)
            except HTTPError as error:
                answer = error
            with answer:
                self.reply(answer.status, answer.read())

        do_POST = do_GET

    certificate, key = authority.issue("gateway")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(authority.path))
    context.load_cert_chain(certificate, key)
    context.verify_mode = ssl.CERT_REQUIRED
    return HttpServer(Forward, context)


class Guarded:
    """The registry, its provider and the settings of who may come in."""

    def __init__(self, folder: Path) -> None:
        self.authority, stranger = Authority(folder, "authority"), Authority(folder, "stranger")
        self.identity = Identity(folder, self.authority, dict.fromkeys(("worker", LATE), SECRET))
        properties = {
            "registry.auth.enabled": "true",
            "quarkus.oidc.auth-server-url": self.identity.base,
            "quarkus.oidc.tls.verification": "none",
            "quarkus.oidc.token.audience": AUDIENCE,
        }
        self.registry = Registry(folder, properties)
        parts = urlsplit(self.registry.url)
        self.gateway = gateway(f"{parts.scheme}://{parts.netloc}", self.authority)
        certificate, key = self.authority.issue("client")
        foreign, foreign_key = stranger.issue("foreign")
        self.settings = {
            f"{OF}URL": f"https://127.0.0.1:{self.gateway.port}{parts.path}",
            f"{OF}CA_LOCATION": str(self.authority.path),
            f"{OF}CERTIFICATE_LOCATION": str(certificate),
            f"{OF}KEY_LOCATION": str(key),
            f"{OF}OAUTH_TOKEN_URL": self.identity.url,
            f"{OF}OAUTH_CLIENT_ID": "worker",
            f"{OF}OAUTH_CLIENT_SECRET": SECRET,
        }
        self.wrong = {
            "secret": (
                {f"{OF}OAUTH_CLIENT_SECRET": "MARKER-wrong"},
                f"{OF}OAUTH_CLIENT_SECRET",
            ),
            "expired": ({f"{OF}OAUTH_CLIENT_ID": LATE}, f"{OF}OAUTH_CLIENT_ID"),
            "authority": ({f"{OF}CA_LOCATION": str(stranger.path)}, f"{OF}CA_LOCATION"),
            "certificate": (
                {
                    f"{OF}CERTIFICATE_LOCATION": str(foreign),
                    f"{OF}KEY_LOCATION": str(foreign_key),
                },
                f"{OF}CERTIFICATE_LOCATION",
            ),
        }


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    made = Guarded(tmp_path_factory.mktemp("guarded"))
    with made.identity, made.registry, made.gateway:
        yield made


def test_commands_and_a_worker_get_in_by_token_and_certificate(
    kafka: KafkaBroker, guarded: Guarded, tmp_path: Path
) -> None:
    settings = SETTINGS | guarded.settings | {"COVERSUMM_OUTPUT_FORMAT": "avro"}
    with pipeline(kafka, "registry-logins", tmp_path, settings=settings) as site:
        assert f"{site.output_topic}-value" in command(site, {}, "schemas", "register")
        command(site, {}, "config", "--check")
        site.start()
        feed(site, events(20))
        site.wait_caught_up()
        site.stop()
        found = read_topic(kafka.bootstrap_servers, site.output_topic)
    assert any(
        message.value and message.value[0] == 0 for message in found
    )  # framed by an id of the registry
    assert "MARKER" not in site.logs()


@pytest.mark.parametrize("case", ["secret", "expired", "authority", "certificate"])
def test_who_lacks_one_is_told_the_settings(
    kafka: KafkaBroker, guarded: Guarded, tmp_path: Path, case: str
) -> None:
    changed, name = guarded.wrong[case]
    with pipeline(kafka, f"registry-{case}", tmp_path, settings=SETTINGS) as site:
        settings = guarded.settings | changed
        for words, code in ((("schemas", "register"), 2), (("config", "--check"), 1)):
            said = command(site, settings, *words, code=code)
            assert "Traceback" not in said
            assert name in said.splitlines()[-1], said
