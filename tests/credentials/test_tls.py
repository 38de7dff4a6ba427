"""The web server by TLS: certificates that change while it runs, and files that are wrong."""

from __future__ import annotations

import asyncio
import shutil
import ssl
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.harness.certificates import Authority
from tests.harness.patience import PATIENCE_SECONDS
from tests.harness.web_state import FakeState
from worker.credentials import files as credentials
from worker.credentials.files import client_context, server_context
from worker.errors import SetupError
from worker.operations.broker_checks import checks
from worker.settings import Settings
from worker.telemetry.metrics import Metrics
from worker.web.peers import Peers, PeerUnreachable
from worker.web.routes import add_pages
from worker.web.server import Runner


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Settings with a certificate, its key and their authority, which may be replaced."""
    monkeypatch.setattr(credentials, "LOOK_SECONDS", 0)
    authority = Authority(tmp_path, "authority")
    put(tmp_path, authority, "first")
    return Settings(
        web_tls_certificate_location=str(tmp_path / "tls.crt"),
        web_tls_key_location=str(tmp_path / "tls.key"),
        web_tls_ca_location=str(authority.path),
    )


def put(directory: Path, authority: Authority, name: str) -> None:
    for issued, kept in zip(authority.issue(name), ("tls.crt", "tls.key"), strict=True):
        shutil.copy(issued, directory / f"{kept}.new")
        (directory / f"{kept}.new").rename(directory / kept)


def served(settings: Settings, work: Any) -> None:
    """Do something with the port of a server with these settings."""

    async def run() -> None:
        application = web.Application()
        add_pages(application, FakeState(), Metrics(), Settings())
        runner = Runner(application)
        await runner.setup()
        context = server_context(settings)
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
        try:
            await work(runner.addresses[0][1])
        finally:
            await runner.cleanup()

    asyncio.run(asyncio.wait_for(run(), PATIENCE_SECONDS))


async def presented(port: int, settings: Settings, **limits: Any) -> tuple[str, str]:
    """Who the server says that it is, and the version."""
    context = ssl.create_default_context(cafile=settings.web_tls_ca_location)
    for name, value in limits.items():
        setattr(context, name, value)
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    subject = writer.get_extra_info("peercert")["subject"]
    version = writer.get_extra_info("ssl_object").version()
    writer.close()
    return subject[0][0][1], version


def test_a_renewed_certificate_is_taken_and_a_wrong_one_is_not(
    files: Settings, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def work(port: int) -> None:
        assert await presented(port, files) == ("first", "TLSv1.3")
        authority = Authority(tmp_path, "authority")
        put(tmp_path, authority, "second")
        assert await presented(port, files) == ("second", "TLSv1.3")
        (tmp_path / "tls.key").write_text("nonsense")
        assert await presented(port, files) == ("second", "TLSv1.3")
        assert "credentials are not renewed" in caplog.text
        (tmp_path / "tls.key").unlink()
        assert await presented(port, files) == ("second", "TLSv1.3")
        put(tmp_path, authority, "third")
        assert await presented(port, files) == ("third", "TLSv1.3")

    served(files, work)


def test_versions_before_1_2_are_refused(files: Settings) -> None:
    async def work(port: int) -> None:
        one_two = ssl.TLSVersion.TLSv1_2
        assert (await presented(port, files, maximum_version=one_two))[1] == "TLSv1.2"

    served(files, work)
    context = server_context(files)
    assert context is not None
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2


def test_workers_trust_each_other_by_their_authority_alone(files: Settings, tmp_path: Path) -> None:
    async def work(port: int) -> None:
        peers, strangers = Peers(files), Peers(Settings())
        url = f"https://127.0.0.1:{port}/status"
        assert (await peers.ask(url)).status == 200
        with pytest.raises(PeerUnreachable, match="certificate verify failed"):
            await strangers.ask(url)
        put(tmp_path, Authority(tmp_path, "authority"), "second")  # as its file says now
        await asyncio.sleep(0)
        assert (await peers.ask(url + "?")).status == 200
        with pytest.raises(PeerUnreachable):
            await peers.ask(f"http://127.0.0.1:{port}/status")
        await peers.close()
        await strangers.close()

    served(files, work)


def test_wrong_files_are_refused_at_the_start(files: Settings, tmp_path: Path) -> None:
    authority = Authority(tmp_path, "other")
    certificate, key = authority.issue("other", password="secret")
    others = authority.issue("another")[1]
    wrong = [
        (certificate, key),  # encrypted: nobody is asked for the password
        (certificate, others),
        (key, certificate),
    ]
    for first, other in wrong:
        with pytest.raises(SetupError, match="COVERSUMM_WEB_TLS_CERTIFICATE_LOCATION"):
            server_context(
                Settings(
                    web_tls_certificate_location=str(first),
                    web_tls_key_location=str(other),
                )
            )
    before_an_upgrade = replace(files, web_tls_key_location=str(others))
    with pytest.raises(SetupError, match="COVERSUMM_WEB_TLS_CERTIFICATE_LOCATION"):
        next(checks(before_an_upgrade))
    (tmp_path / "empty.pem").write_text("")
    with pytest.raises(SetupError, match="COVERSUMM_WEB_TLS_CA_LOCATION"):
        client_context(Settings(web_tls_ca_location=str(tmp_path / "empty.pem")))
    with pytest.raises(SetupError, match="set both or neither"):
        Settings(web_tls_key_location=files.web_tls_key_location)
    with pytest.raises(SetupError, match="is not a file that can be read"):
        Settings(web_tls_ca_location=str(tmp_path / "missing"))


def test_urls_of_a_worker_with_tls(files: Settings) -> None:
    assert (files.web_advertised_url, files.local_url) == ("https://127.0.0.1:8080",) * 2
    named = replace(files, web_advertised_url="https://w-0.w:8080", web_bind="::")
    assert named.local_url == "https://w-0.w:8080"
    assert replace(files, web_advertised_url="", web_bind="::").local_url == (
        "https://127.0.0.1:8080"
    )
    with pytest.raises(SetupError, match="must begin with https"):
        replace(files, web_advertised_url="http://w-0:8080")
