"""Which requests the web server admits: those with a token, and so many a second of a client.

Probes and metrics are always admitted. Other workers send the token too, and name the client for
whom they ask: to the limit they are proxies.
"""

import hmac
import logging
import math
import re
from collections.abc import Collection, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from worker.settings import Settings
from worker.stream.journal import OnceAMinute
from worker.stream.rate_limit import RateLimit
from worker.web.server import PROBES, error

CLIENT: Final = web.RequestKey("client", str)
"""Of a request, if requests are limited: the address of its client, as the limit counts it."""
_SITE_BITS: Final = 64  # lower bits of an IPv6 address, which one customer may choose
_PORT: Final = re.compile(r"^\[([^]]*)\](?::\d+)?$|^([^:]*):\d+$")  # that some proxies add

log = logging.getLogger(__name__)


def admission(settings: Settings) -> list[Middleware]:
    """The checks that the settings ask for."""
    found = []
    if settings.web_rate is not None:
        networks = [ip_network(network) for network in (settings.web_proxies or "").split(",")]
        found.append(limited(RateLimit(settings.web_rate, settings.web_burst), networks))
    if settings.web_token is not None:
        found.append(with_token(settings.web_token.split(",")))
    return found


def with_token(tokens: Sequence[str]) -> Middleware:
    """Refuse requests without one of these bearer tokens."""

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        scheme, _, given = request.headers.get("Authorization", "").partition(" ")
        token = given.strip().encode(errors="surrogateescape")
        same = [
            hmac.compare_digest(token, known.encode()) for known in tokens
        ]  # all, in constant time
        if request.path in PROBES or (any(same) and scheme.lower() == "bearer"):
            return await handler(request)
        refusal = error(401, "a token is needed: Authorization: Bearer TOKEN (COVERSUMM_WEB_TOKEN)")
        refusal.headers["WWW-Authenticate"] = "Bearer"
        return refusal

    return check


def limited(limit: RateLimit, proxies: Collection[IPv4Network | IPv6Network]) -> Middleware:
    """Refuse requests beyond the limit; of `proxies` it believes X-Forwarded-For."""
    refusals = OnceAMinute()

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        hops = ",".join(request.headers.getall("X-Forwarded-For", [])).split(",")
        request[CLIENT] = client = client_of(request.remote or "::", hops, proxies)
        if request.path in PROBES or not (seconds := limit.wait(client)):
            return await handler(request)
        if count := refusals.count():
            log.warning("refused %d requests beyond COVERSUMM_WEB_RATE, last of %s", count, client)
        refusal = error(429, "too many requests of this client (COVERSUMM_WEB_RATE)")
        refusal.headers["Retry-After"] = str(math.ceil(seconds))
        return refusal

    return check


def client_of(
    remote: str, hops: Sequence[str], proxies: Collection[IPv4Network | IPv6Network]
) -> str:
    """The client of a connection: the last hop that is no proxy, else the first hop.

    Of an IPv6 address the upper half.
    """
    client = _address(remote)
    for hop in reversed(hops):
        if not any(client in network for network in proxies):
            break
        try:
            client = _address(re.sub(_PORT, r"\1\2", hop.strip()))
        except ValueError:  # no proxy wrote it
            break
    is_short = isinstance(client, IPv6Address)
    return str(IPv6Address(int(client) >> _SITE_BITS << _SITE_BITS) if is_short else client)


def _address(text: str) -> IPv4Address | IPv6Address:
    found = ip_address(text)
    return getattr(found, "ipv4_mapped", None) or found
