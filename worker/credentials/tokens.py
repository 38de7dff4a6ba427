"""Tokens for Kafka and the schema registry: of an OAuth provider by client credentials, or of AWS.

All clients of a process with the same credentials share one `TokenSource`. It fetches a token when
70 % of the last one's life is over: before any client asks for another one.
"""

import base64
import http.client
import json
import ssl
import threading
import time
from collections.abc import Callable
from functools import cache
from typing import Any, Final, NamedTuple
from urllib.error import HTTPError, URLError
from urllib.parse import quote_plus, urlencode
from urllib.request import Request

from worker.clock import Clock
from worker.credentials.http_client import opener
from worker.errors import SetupError
from worker.extras import install_command
from worker.settings import Settings
from worker.settings.checks import msk_region

TIMEOUT_SECONDS: Final = 5.0  # longest wait for a provider's answer
MAX_ANSWER_BYTES: Final = 2**20
RENEWED: Final = 0.7
"""Part of a token's life after which the next one is fetched; librdkafka asks after 80 %."""
MARGIN_SECONDS: Final = 2.0  # seconds before its expiry from which a token is not handed out
AGAIN_SECONDS: Final = 2.0  # seconds between attempts while the provider gives none


class TokenError(OSError):
    """There is no valid token at present. The message names the setting of the provider.

    An OSError, so that aiokafka takes it for a connection that failed.
    """


class TokenRefused(TokenError):
    """The provider refuses these credentials, or is no provider."""


class Token(NamedTuple):
    """A bearer token, and when it expires in Unix seconds."""

    text: str
    expires: float

    def __str__(self) -> str:
        return self.text


class TokenSource:
    """A valid token at any time, from any thread. `fetch` raises TokenError.

    Attributes:
        failed: why the last attempt gave no token; None if it gave one.
    """

    def __init__(self, fetch: Callable[[], Token], clock: Clock = time) -> None:
        self._fetch, self._clock = fetch, clock
        self._token, self._renew_at = Token("", 0.0), 0.0
        self._lock = threading.Lock()
        self.failed: TokenError | None = None

    @property
    def expires(self) -> float:
        """When the last token expires, in Unix seconds; 0 before the first one."""
        return self._token.expires

    def token(self) -> Token:
        """The token; fetches it if none is valid for long. Raises TokenError."""
        with self._lock:
            now = self._clock.time()
            if now >= self._renew_at:
                try:
                    self._token, self.failed = self._fetch(), None
                    self._renew_at = now + RENEWED * (self._token.expires - now)
                except TokenError as cause:
                    self.failed, self._renew_at = cause, now + AGAIN_SECONDS
            if self.failed is not None and now >= self._token.expires - MARGIN_SECONDS:
                raise type(self.failed)(str(self.failed))
            return self._token


class ClientCredentials(NamedTuple):
    """The credentials that an OAuth provider asks for; `setting` is the prefix of its settings."""

    setting: str
    url: str
    client_id: str
    secret: str
    scope: str | None
    audience: str | None = None
    ca_location: str | None = None
    ca_setting: str = "COVERSUMM_SASL_OAUTH_CA_LOCATION"

    def fetch(self) -> Token:
        """A token of the provider. Raises TokenError."""
        where = f"{self.setting}TOKEN_URL={self.url}"
        form = {"grant_type": "client_credentials", "scope": self.scope, "audience": self.audience}
        request = Request(  # noqa: S310
            self.url,
            urlencode({name: value for name, value in form.items() if value}).encode(),
            {"Accept": "application/json"},
        )
        pair = f"{quote_plus(self.client_id)}:{quote_plus(self.secret)}"
        login = base64.b64encode(pair.encode()).decode()
        request.add_unredirected_header("Authorization", f"Basic {login}")
        try:
            context = ssl.create_default_context()
            if self.ca_location is not None:
                context.load_verify_locations(self.ca_location)
            asked_at = time.time()
            try:
                response = opener(context).open(request, timeout=TIMEOUT_SECONDS)
            except HTTPError as error:
                response = error
            with response:
                content = response.read(MAX_ANSWER_BYTES)
        except (OSError, http.client.HTTPException, ValueError) as error:
            why = error.reason if isinstance(error, URLError) else error
            kind = TokenRefused if isinstance(why, ssl.SSLError) else TokenError
            hint = f": check {self.ca_setting}" if kind is TokenRefused else ""
            raise kind(f"{where} gives no token ({why}){hint}") from None
        status = response.code
        if status >= 500 or status == 429:
            raise TokenError(f"{where} gives no token (status {status})")
        answer = _object(content)
        if status >= 400:
            said = " ".join(str(answer.get(name, "")) for name in ("error", "error_description"))
            said = said.replace(self.secret, "***")[:200].strip()
            raise TokenRefused(
                f"{where} gives no token (status {status} {said}): check {self.setting}CLIENT_ID, "
                f"{self.setting}CLIENT_SECRET and {self.setting}SCOPE"
            )
        try:
            text = answer["access_token"]
            seconds = answer.get("expires_in")
            expires = _claims(text)["exp"] if seconds is None else asked_at + float(seconds)
            return Token(str(text), float(expires))
        except (KeyError, TypeError, ValueError):
            raise TokenRefused(f"{where}: the answer is no token with its expiry") from None


def _object(content: bytes) -> dict[str, Any]:
    """A JSON object; empty if it is none."""
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _claims(token: str) -> dict[str, Any]:
    """The claims of a JSON Web Token, unverified: the broker verifies it. Raises ValueError."""
    _, middle, _ = token.split(".")
    return _object(base64.urlsafe_b64decode(middle + "=" * (-len(middle) % 4)))


def _fetch_from_aws(region: str) -> Token:
    """A token that AWS's own credentials of this process sign for MSK. Raises TokenError."""
    try:
        from aws_msk_iam_sasl_signer import MSKAuthTokenProvider  # late: an extra, and slow to load
    except ImportError:
        raise SetupError(
            f"COVERSUMM_SASL_MECHANISM=AWS_MSK_IAM needs the extra `msk`: {install_command('msk')}"
        ) from None
    what = "COVERSUMM_SASL_MECHANISM=AWS_MSK_IAM: AWS gives no token"
    try:
        text, expires_ms = MSKAuthTokenProvider.generate_auth_token(region)
    except (AttributeError, ValueError):  # what the signer makes of no credentials
        raise TokenRefused(f"{what}: this process has no AWS credentials") from None
    except Exception as cause:  # any of botocore's
        raise TokenError(f"{what} ({cause})") from None
    return Token(text, expires_ms / 1000)


@cache
def _of_region(region: str) -> TokenSource:
    return TokenSource(lambda: _fetch_from_aws(region))


@cache
def _of_provider(credentials: ClientCredentials) -> TokenSource:
    return TokenSource(credentials.fetch)


def kafka_tokens(settings: Settings) -> TokenSource | None:
    """The tokens for Kafka's brokers; None if the settings have another way to log in."""
    if settings.sasl_mechanism == "AWS_MSK_IAM":
        return _of_region(msk_region(settings) or "")
    if settings.sasl_mechanism != "OAUTHBEARER":
        return None
    return _of_provider(
        ClientCredentials(
            "COVERSUMM_SASL_OAUTH_",
            settings.sasl_oauth_token_url or "",
            settings.sasl_oauth_client_id or "",
            settings.sasl_oauth_client_secret or "",
            settings.sasl_oauth_scope,
            settings.sasl_oauth_audience,
            settings.sasl_oauth_ca_location,
        )
    )


def registry_tokens(settings: Settings) -> TokenSource | None:
    """The tokens for the schema registry; None if the settings have another way to log in."""
    if settings.schema_registry_oauth_token_url is None:
        return None
    return _of_provider(
        ClientCredentials(
            "COVERSUMM_SCHEMA_REGISTRY_OAUTH_",
            settings.schema_registry_oauth_token_url,
            settings.schema_registry_oauth_client_id or "",
            settings.schema_registry_oauth_client_secret or "",
            settings.schema_registry_oauth_scope,
            ca_location=settings.schema_registry_ca_location,
            ca_setting="COVERSUMM_SCHEMA_REGISTRY_CA_LOCATION",
        )
    )
