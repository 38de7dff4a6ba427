"""A client of a schema registry with Confluent's API, on urllib.

Each request is tried once at each URL, beginning with the one that answered last. It blocks for at
most `TIMEOUT_SECONDS` for each URL, so it must not run on an event loop. If the registry does not
answer, commands ask a few times, and a worker waits until it does.
"""

from __future__ import annotations

import base64
import http.client
import logging
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Any, Final, NamedTuple, TypeVar
from urllib.error import HTTPError, URLError
from urllib.parse import quote
from urllib.request import Request

import msgspec
from msgspec import Struct

from worker.clock import Clock
from worker.credentials.http_client import opener
from worker.credentials.tokens import TokenError, TokenRefused, TokenSource, registry_tokens
from worker.errors import SetupError
from worker.settings import Settings
from worker.settings.kinds import pairs

log = logging.getLogger(__name__)
T = TypeVar("T")

TIMEOUT_SECONDS: Final = 3.0  # longest wait for an answer of one URL
MAX_ANSWER_BYTES: Final = 4 * 2**20
MAX_REFERENCES: Final = 200  # most schemas that one schema may refer to, directly or not
ATTEMPTS: Final = 3  # how often a command asks before it gives up
PAUSE_SECONDS: Final = 1.0
REPEAT_SECONDS: Final = 60.0  # seconds between two lines about one outage

_SETTING: Final = "COVERSUMM_SCHEMA_REGISTRY_"
_MEDIA_TYPE: Final = "application/vnd.schemaregistry.v1+json"
_UNKNOWN_ID: Final = 40403
_NOT_FOUND: Final = (40401, 40402, _UNKNOWN_ID)
"""Error codes of the API: a subject, a version or a schema does not exist."""


class RegistryUnreachable(Exception):
    """No URL gave a usable answer. The message names the last URL and why."""


class RegistryMisconfigured(RegistryUnreachable):
    """Something answers, but not the registry of these settings: a start does not wait for it."""


class RegistryRefused(Exception):
    """The registry refused a request: `code` is that of its API, 0 if the client refuses."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class Reference(Struct, frozen=True):
    """A schema that another one refers to."""

    name: str
    subject: str
    version: int


class RegisteredSchema(Struct, frozen=True, rename="camel"):
    """A schema as the registry has it; `schema_type` is AVRO, JSON or PROTOBUF."""

    schema: str
    schema_type: str = "AVRO"
    references: list[Reference] | None = None


class SchemaTexts(NamedTuple):
    """A schema's text and type, and the texts of all that it refers to, deepest first."""

    text: str
    schema_type: str
    referred: tuple[str, ...]


class SchemaRegistry:
    """A schema registry. All methods raise RegistryUnreachable.

    Args:
        urls: of one registry, or of several processes of it.
        headers: sent with each request, to these URLs only.
        context: TLS; None: the system's.
        tokens: of the header Authorization, if an OAuth provider gives them.
    """

    def __init__(
        self,
        urls: Sequence[str],
        headers: Mapping[str, str],
        context: ssl.SSLContext | None = None,
        tokens: TokenSource | None = None,
    ) -> None:
        self._urls = list(urls)
        self._headers = headers
        self._opener = opener(context)
        self._tokens = tokens

    @classmethod
    def of(cls, settings: Settings) -> SchemaRegistry:
        """The registry of the settings, which name one."""
        assert settings.schema_registry_url is not None
        headers = pairs(settings.schema_registry_headers)
        if settings.schema_registry_token is not None:
            headers["Authorization"] = f"Bearer {settings.schema_registry_token}"
        elif settings.schema_registry_username is not None:
            pair = f"{settings.schema_registry_username}:{settings.schema_registry_password}"
            headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        return cls(
            settings.schema_registry_url.split(","),
            headers,
            settings.registry_tls_context(),
            registry_tokens(settings),
        )

    # -- reading

    def ask(self) -> None:
        """Return if it answers."""
        self._request("GET", "/schemas/types")

    def schema(self, identifier: int) -> SchemaTexts | None:
        """The schema of an id with all that it refers to; None if the registry does not know it.

        Raises RegistryRefused.
        """
        try:
            found = self._schema(f"/schemas/ids/{identifier}")
        except RegistryRefused as refused:
            if refused.code == _UNKNOWN_ID:
                return None
            raise
        texts: dict[tuple[str, int], str] = {}
        self._follow(found, texts)
        return SchemaTexts(found.schema, found.schema_type, tuple(texts.values()))

    def _follow(self, schema: RegisteredSchema, texts: dict[tuple[str, int], str]) -> None:
        for _, subject, version in map(msgspec.structs.astuple, schema.references or ()):
            if (subject, version) in texts:
                continue
            if len(texts) >= MAX_REFERENCES:
                raise RegistryRefused(0, f"it refers to more than {MAX_REFERENCES} schemas")
            texts[subject, version] = ""  # a circle ends here
            found = self._schema(f"/subjects/{quote(subject, safe='')}/versions/{version}")
            self._follow(found, texts)
            del texts[subject, version]  # after those that it refers to
            texts[subject, version] = found.schema

    def _schema(self, path: str) -> RegisteredSchema:
        try:
            return msgspec.convert(self._request("GET", path), RegisteredSchema)
        except msgspec.ValidationError as error:
            raise RegistryMisconfigured(
                f"{self._urls[0]}: the answer is not a schema ({error})"
            ) from None

    def id_of(self, subject: str, schema: str) -> int | None:
        """The id of an Avro schema under a subject; None if it is not registered there."""
        try:
            answer = self._request("POST", f"/subjects/{quote(subject, safe='')}", schema)
        except RegistryRefused as refused:
            if refused.code in _NOT_FOUND:
                return None
            raise
        return int(answer["id"])

    # -- writing

    def register(self, subject: str, schema: str) -> int:
        """Register an Avro schema under a subject, if it is not there yet; its id.

        Raises RegistryRefused if it is not compatible with those before.
        """
        path = f"/subjects/{quote(subject, safe='')}/versions"
        return int(self._request("POST", path, schema)["id"])

    def complaints(self, subject: str, schema: str) -> list[str]:
        """Why a subject would not take a schema; empty if it would, or is new."""
        path = f"/compatibility/subjects/{quote(subject, safe='')}/versions/latest?verbose=true"
        try:
            answer = self._request("POST", path, schema)
        except RegistryRefused as refused:
            if refused.code in _NOT_FOUND:
                return []
            raise
        if answer.get("is_compatible"):
            return []
        return [str(message) for message in answer.get("messages") or ["it is not compatible"]]

    # -- HTTP

    def _request(self, method: str, path: str, schema: str | None = None) -> Any:
        """The answer of the first URL that gives one. Raises RegistryRefused."""
        body = None if schema is None else msgspec.json.encode({"schema": schema})
        unreachable: RegistryUnreachable | None = None
        for url in list(self._urls):
            try:
                return self._ask(url, method, path, body)
            except RegistryUnreachable as cause:
                unreachable = cause
                self._urls = [*self._urls[1:], self._urls[0]]
        assert unreachable is not None
        raise unreachable

    def _ask(self, url: str, method: str, path: str, body: bytes | None) -> Any:
        request = Request(url + path, body, {"Accept": _MEDIA_TYPE}, method=method)  # noqa: S310
        if body is not None:
            request.add_header("Content-Type", _MEDIA_TYPE)
        for name, value in {**self._headers, **self._authorization()}.items():
            request.add_unredirected_header(name, value)
        try:
            try:
                response = self._opener.open(request, timeout=TIMEOUT_SECONDS)
            except HTTPError as error:
                response = error
            with response:
                content = response.read(MAX_ANSWER_BYTES + 1)
        except (OSError, http.client.HTTPException, ValueError) as error:  # a redirect may be any
            why = error.reason if isinstance(error, URLError) else error
            is_untrusted = isinstance(why, ssl.SSLCertVerificationError)
            kind = RegistryMisconfigured if is_untrusted else RegistryUnreachable
            names = "CA_LOCATION" if is_untrusted else "CERTIFICATE_LOCATION and its KEY_LOCATION"
            hint = f": check {_SETTING}{names}" if isinstance(why, ssl.SSLError) else ""
            raise kind(f"{url}: {why}{hint}") from None
        if isinstance(response, HTTPError):
            raise _refusal(url, response.code, content)
        if len(content) > MAX_ANSWER_BYTES:
            raise RegistryRefused(0, f"{url}: an answer of more than {MAX_ANSWER_BYTES} bytes")
        try:
            return msgspec.json.decode(content)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise RegistryMisconfigured(f"{url}: the answer is not JSON") from None

    def _authorization(self) -> dict[str, str]:
        """The header with the provider's token, if there is a provider."""
        try:
            return (
                {} if self._tokens is None else {"Authorization": f"Bearer {self._tokens.token()}"}
            )
        except TokenRefused as refused:
            raise RegistryMisconfigured(str(refused)) from None
        except TokenError as cause:
            raise RegistryUnreachable(str(cause)) from None


def _refusal(url: str, status: int, content: bytes) -> Exception:
    """A refusal in the API's words, or a server that is no registry or not able to answer."""
    try:
        answer = msgspec.json.decode(content)
        code, message = int(answer["error_code"]), str(answer["message"])
    except (
        msgspec.DecodeError,
        UnicodeDecodeError,
        RecursionError,
        ValueError,
        TypeError,
        KeyError,
    ):
        code, message = None, http.client.responses.get(status, "")
    if status in (401, 403):
        return RegistryMisconfigured(
            f"{url}: {status} {message}: check COVERSUMM_SCHEMA_REGISTRY_USERNAME and "
            "COVERSUMM_SCHEMA_REGISTRY_PASSWORD, COVERSUMM_SCHEMA_REGISTRY_TOKEN, or those of "
            "COVERSUMM_SCHEMA_REGISTRY_OAUTH_CLIENT_ID"
        )
    if status >= 500 or status == 429:
        return RegistryUnreachable(f"{url}: {status} {message}")
    if code is None or (status == 404 and code not in _NOT_FOUND):  # a proxy's, not the API's
        return RegistryMisconfigured(f"{url}: {status} {message}")
    return RegistryRefused(code, f"{url}: {message}")


class Outage:
    """The time without an answer of a registry, and its lines in the log.

    Attributes:
        waiting: how long and why, in words; None while it answers.
    """

    def __init__(self, clock: Clock = time) -> None:
        self._clock = clock
        self._since: float | None = None
        self._logged_at = 0.0
        self.waiting: str | None = None

    def lasts(self, why: str) -> None:
        """Another request was not answered."""
        now = self._clock.monotonic()
        if self._since is None:
            self._since, self._logged_at = now, now - REPEAT_SECONDS
        seconds = now - self._since
        self.waiting = f"no answer of the schema registry for {seconds:.0f} s ({why})"
        if now - self._logged_at >= REPEAT_SECONDS:
            self._logged_at = now
            log.warning("%s: not ready until it answers, nothing is lost until then", self.waiting)

    def ends(self) -> None:
        """A request was answered."""
        if self._since is not None:
            seconds, self._since, self.waiting = self._clock.monotonic() - self._since, None, None
            log.info("the schema registry answers again, after %.0f s", seconds)


def patiently(ask: Callable[[], T], outage: Outage | None = None) -> T:
    """The answer to a request. Raises SetupError after `ATTEMPTS` without one, or if the registry
    refuses it. With an `outage` it waits for a registry that is away.
    """
    for attempt in count(1):
        try:
            answer = ask()
        except RegistryRefused as refused:
            raise SetupError(f"the schema registry refuses the request: {refused}") from refused
        except RegistryUnreachable as cause:
            waits = outage is not None and not isinstance(cause, RegistryMisconfigured)
            if attempt >= ATTEMPTS and not waits:
                raise SetupError(
                    f"no answer of the schema registry ({cause}): check "
                    "COVERSUMM_SCHEMA_REGISTRY_URL"
                ) from cause
            if outage is not None:
                outage.lasts(str(cause))
        else:
            if outage is not None:
                outage.ends()
            return answer
        time.sleep(PAUSE_SECONDS)
    raise AssertionError
