"""An OAuth provider on 127.0.0.1: a token endpoint over TLS for client credentials, and the file of
keys by which a broker verifies its tokens, which other servers discover by OpenID Connect.
"""

from __future__ import annotations

import base64
import json
import ssl
import time
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qs, unquote_plus

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from tests.harness.certificates import Authority
from tests.harness.http_server import Handler, HttpServer
from worker.settings import Settings

ISSUER, AUDIENCE = "https://identity.example", "kafka"
LATE = "late"
"""A client whose tokens have expired when it gets them."""


def oauth_settings(token_url: str) -> Settings:
    """Of a client of this provider, with the secret MARKER."""
    return Settings(
        security_protocol="SASL_SSL",
        sasl_mechanism="OAUTHBEARER",
        sasl_oauth_token_url=token_url,
        sasl_oauth_client_id="worker",
        sasl_oauth_client_secret="MARKER",
    )


class Identity:
    """The provider; a context manager.

    Attributes:
        life_seconds: of the tokens that it gives from now on.
        status: of its answers; 200 gives a token.
        requests: the forms that came, with the client's id, also of refused ones.
        tokens: all that it gave.
    """

    def __init__(self, directory: Path, authority: Authority, clients: dict[str, str]) -> None:
        self.life_seconds, self.status = 600.0, 200
        self.requests: list[dict[str, str]] = []
        self.tokens: list[str] = []
        self._clients = clients
        self._key = rsa.generate_private_key(65537, 2048)
        self.keys = directory / "keys.json"
        numbers = self._key.public_key().public_numbers()
        key = {"kty": "RSA", "use": "sig", "alg": "RS256", "kid": "1"}
        key |= {"n": _encoded(_bytes(numbers.n)), "e": _encoded(_bytes(numbers.e))}
        keys = {"keys": [key]}
        self.keys.write_text(json.dumps(keys))
        identity = self

        class Endpoint(Handler):
            def do_GET(self) -> None:
                found = identity._discovery if "openid-configuration" in self.path else keys
                self.reply(200, json.dumps(found).encode(), {"Content-Type": "application/json"})

            def do_POST(self) -> None:
                raw = self.rfile.read(int(self.headers["Content-Length"])).decode()
                form = {name: values[0] for name, values in parse_qs(raw).items()}
                status, answer = identity._answer(self.headers.get("Authorization", ""), form)
                self.reply(
                    status, json.dumps(answer).encode(), {"Content-Type": "application/json"}
                )

        certificate, private = authority.issue("identity")
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(certificate, private)
        self._server = HttpServer(Endpoint, context)
        self.base = f"https://127.0.0.1:{self._server.port}"
        self.url = f"{self.base}/oauth2/token"
        self._discovery = {
            "issuer": ISSUER,
            "token_endpoint": self.url,
            "jwks_uri": f"{self.base}/keys",
        }

    def __enter__(self) -> Self:
        self._server.__enter__()
        return self

    def __exit__(self, *raised: object) -> None:
        self._server.__exit__(*raised)

    def _answer(self, login: str, form: dict[str, str]) -> tuple[int, dict[str, Any]]:
        pair = base64.b64decode(login.removeprefix("Basic ")).decode()
        name, _, secret = pair.partition(":")
        name = unquote_plus(name)
        self.requests.append({**form, "client": name})
        # librdkafka's own requests do not encode it
        if self._clients.get(name) not in (secret, unquote_plus(secret)):
            return 401, {"error": "invalid_client", "error_description": f"{secret} is wrong"}
        if self.status != 200:
            return self.status, {}
        now = time.time()
        claims = {"iss": ISSUER, "aud": AUDIENCE, "sub": name, "scope": form.get("scope", "")}
        begins = now - self.life_seconds - 60 if name == LATE else now
        token = self.token(claims | {"iat": int(begins), "exp": int(begins + self.life_seconds)})
        self.tokens.append(token)
        return 200, {"access_token": token, "token_type": "Bearer", "expires_in": self.life_seconds}

    def token(self, claims: dict[str, Any]) -> str:
        """A signed token with these claims."""
        head = {"alg": "RS256", "kid": "1", "typ": "JWT"}
        text = ".".join(_encoded(json.dumps(part).encode()) for part in (head, claims))
        return (
            f"{text}.{_encoded(self._key.sign(text.encode(), padding.PKCS1v15(), hashes.SHA256()))}"
        )


def _bytes(number: int) -> bytes:
    return number.to_bytes((number.bit_length() + 7) // 8)


def _encoded(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")
