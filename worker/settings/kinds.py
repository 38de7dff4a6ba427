"""Kinds of variables: how a text becomes a value, and the words for what is accepted.

Plain Python: every `--help` reads the settings, and does not load msgspec for it.
"""

import re
from collections.abc import Callable, Mapping
from ipaddress import IPv6Address, ip_network
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit


class Kind(NamedTuple):
    """A kind of variable. `parse` raises ValueError for a text that is not accepted."""

    accepts: str
    parse: Callable[[str], Any]
    show: Callable[[Any], str] = str
    schema: Mapping[str, Any] = {"type": "string", "minLength": 1}  # of values in YAML and JSON


def integer(low: int, high: int) -> Kind:
    """A whole number from `low` to `high`."""

    def parse(text: str) -> int:
        if not re.fullmatch("-?[0-9]{1,20}", text) or not low <= int(text) <= high:
            raise ValueError
        return int(text)

    schema = {"type": "integer", "minimum": low, "maximum": high}
    return Kind(f"a whole number from {low} to {high}", parse, schema=schema)


_UNITS: Final = {"GiB": 2**30, "MiB": 2**20, "KiB": 2**10, "": 1}


def show_size(size: int) -> str:
    """A number of bytes in the largest unit that divides it."""
    unit = next(unit for unit, factor in _UNITS.items() if size % factor == 0) if size else ""
    return f"{size // _UNITS[unit]}{unit}"


def size(low: int, high: int) -> Kind:
    """A number of bytes from `low` to `high`, with a unit or without."""

    def parse(text: str) -> int:
        match = re.fullmatch("([0-9]{1,15}) ?(GiB|MiB|KiB|)", text)
        if match is None or not low <= (size := int(match[1]) * _UNITS[match[2]]) <= high:
            raise ValueError
        return size

    bounds = f"from {show_size(low)} to {show_size(high)}"
    schema = {
        "type": ["integer", "string"],
        "minimum": low,
        "maximum": high,
        "pattern": "^[0-9]{1,15} ?(GiB|MiB|KiB)?$",
    }
    return Kind(f"a number of bytes {bounds}, like 1048576 or 1MiB", parse, show_size, schema)


def choice(*names: str) -> Kind:
    """One of `names`, in any case; the value has the case given here."""
    by_name = {name.lower(): name for name in names}

    def parse(text: str) -> str:
        if text.lower() not in by_name:
            raise ValueError
        return by_name[text.lower()]

    return Kind(f"one of {', '.join(names)}", parse, schema={"enum": list(names)})


_FLAGS: Final = dict.fromkeys(("true", "1", "yes", "on"), True) | dict.fromkeys(
    ("false", "0", "no", "off"), False
)


def _parse_flag(text: str) -> bool:
    if text.lower() not in _FLAGS:
        raise ValueError
    return _FLAGS[text.lower()]


FLAG: Final = Kind(
    "true or false", _parse_flag, lambda value: str(value).lower(), {"type": "boolean"}
)


def text(pattern: str, accepts: str) -> Kind:
    """A text that matches the complete regular expression."""

    def parse(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise ValueError
        return text

    return Kind(accepts, parse)


def matching(pattern: str, accepts: str) -> Kind:
    """`text` by a regular expression that JSON Schema has too."""
    schema = {"type": "string", "pattern": f"^{pattern}$"}
    return text(pattern, accepts)._replace(schema=schema)


def _parse_servers(text: str) -> str:
    servers = [server.strip() for server in text.split(",")]
    for server in servers:
        parts = urlsplit(f"//{server}")
        if not parts.hostname or not parts.port or parts.netloc != server or "@" in server:
            raise ValueError
    return ",".join(servers)


SERVERS: Final = Kind("host:port, or several separated by commas", _parse_servers)  # brokers
_ORIGIN: Final = re.compile(
    r"https?://(\[[0-9a-f:.]{2,45}\]|[a-z0-9._-]{1,253})(:[0-9]{1,5})?/*", re.ASCII | re.IGNORECASE
)


def web_origin(text: str) -> str:
    """A URL of host and port only, without trailing slashes; an IPv4 address may have the brackets
    of IPv6, which are dropped. Raises ValueError for another text.
    """
    text = re.sub(r"//\[([0-9.]+)\]", r"//\1", text, count=1)
    if not _ORIGIN.fullmatch(text) or urlsplit(text).port == 0:
        raise ValueError(f"{text[:100]!r} is not http(s)://HOST:PORT")
    if "[" in text:
        IPv6Address(urlsplit(text).hostname or "")  # raises ValueError
    return text.rstrip("/")


URL: Final = Kind("a URL like http://worker-0.coversumm:8080", web_origin)
_URL: Final = (
    r"https?://(\[[0-9a-f:.]{2,45}\]|[A-Za-z0-9._-]{1,253})(:[1-9][0-9]{0,4})?(/[^\s?#@,]*)?"
)
_HOST: Final = r"[A-Za-z0-9_]([A-Za-z0-9._-]{0,252})"


def _parse_urls(text: str) -> str:
    given = [part.strip().rstrip("/") for part in text.split(",")]
    if not all(re.fullmatch(_URL, part) and urlsplit(part).port != 0 for part in given):
        raise ValueError
    return ",".join(given)


URLS: Final = Kind(
    "a URL like https://registry:8081, or several separated by commas",
    _parse_urls,
    schema={"type": "string", "pattern": f"^{_URL}(,{_URL})*$"},
)
"""Of one service, without user, password and query; trailing slashes are dropped."""
ENDPOINT: Final = matching(_URL, "a URL like https://login.example.com/oauth2/token")
_PAIR: Final = r"[A-Za-z][A-Za-z0-9._-]*="


def pairs(text: str | None) -> dict[str, str]:
    """The values of `NAME=VALUE,NAME=VALUE` by name. Raises ValueError for another text.

    >>> pairs("debug=broker,topic,client.rack=a")  # a comma may be in a value
    {'debug': 'broker,topic', 'client.rack': 'a'}
    """
    parts = re.split(rf"\s*,\s*(?={_PAIR})", text.strip()) if text else []
    found = {name: value for name, _, value in (part.partition("=") for part in parts)}
    if not all(re.match(rf"{_PAIR}.", part) for part in parts) or len(found) < len(parts):
        raise ValueError
    return found


def _parse_pairs(text: str) -> str:
    return ",".join(f"{name}={value}" for name, value in pairs(text).items())


PAIRS: Final = Kind(
    "NAME=VALUE, or several separated by commas",
    _parse_pairs,
    schema={"type": "string", "pattern": f"^{_PAIR}."},
)


def _parse_hosts(text: str) -> str:
    names = [part.strip() for part in text.split(",")]
    if not all(re.fullmatch(_HOST, part) for part in names):
        raise ValueError
    return ",".join(names).lower()


HOSTS: Final = Kind(
    "host names like summaries.example.com, separated by commas",
    _parse_hosts,
    schema={"type": "string", "pattern": rf"^{_HOST}(,{_HOST})*$"},
)


def _parse_origins(text: str) -> str:
    if text == "*":
        return text
    given = [web_origin(part.strip()).lower() for part in text.split(",")]
    # a browser leaves out the port of the scheme
    return ",".join(re.sub("^(http:.*):80$|^(https:.*):443$", r"\1\2", part) for part in given)


ORIGINS: Final = Kind(
    "origins of web pages like https://shop.example, separated by commas, or *",
    _parse_origins,
    schema={"type": "string", "pattern": r"^(\*|https?://[^\s/@*]+(,https?://[^\s/@*]+)*)$"},
)
_OWN: Final = r"(?!/(entities|page|status|healthz|readyz|metrics|widget\.js)(/|$))"


def _parse_path(text: str) -> str:
    if not re.fullmatch(rf"{_OWN}(/(?!\.\.?(/|$))[A-Za-z0-9._~-]+)*/?", text) or text[:1] != "/":
        raise ValueError
    return text.rstrip("/")


PATH: Final = Kind(
    "a path like /reviews that begins with no address of the worker itself",
    _parse_path,
    lambda path: path or "/",
    {"type": "string", "pattern": "^/[A-Za-z0-9._~/-]*$"},
)
"""Of URLs; without a slash at the end, so `/` is empty."""
TOKENS: Final = matching(
    "[A-Za-z0-9._~+/-]{16,512}=*(,[A-Za-z0-9._~+/-]{16,512}=*)?",
    "a token of at least 16 letters, digits and signs of ._~+/-, or two separated by a comma",
)


_NETWORK: Final = r"([0-9]{1,3}(\.[0-9]{1,3}){3}|[0-9A-Fa-f]*:[0-9A-Fa-f:.]*)(/[0-9]{1,3})?"


def _parse_networks(text: str) -> str:
    return ",".join(str(ip_network(part.strip(), strict=False)) for part in text.split(","))


NETWORKS: Final = Kind(
    "networks or addresses like 10.0.0.0/8, separated by commas",
    _parse_networks,
    schema={"type": "string", "pattern": f"^{_NETWORK}(, ?{_NETWORK})*$"},
)
_IN_REVIEW_URL: Final = r"([^\s{}<>\"\\]|\{entity_id\}|\{review_id\})*"
_REVIEW_URL: Final = (
    r"https?://(\[[0-9a-f:.]{2,45}\]|[A-Za-z0-9._-]{1,253})(:[1-9][0-9]{0,4})?"
    rf"[/?#]{_IN_REVIEW_URL}\{{review_id\}}{_IN_REVIEW_URL}"
)
REVIEW_URL: Final = text(
    _REVIEW_URL,
    "an http or https URL with {review_id} and, if it needs it, {entity_id} behind the host, like "
    "https://shop.example/products/{entity_id}#review-{review_id}",
)._replace(schema={"type": "string", "pattern": f"^{_REVIEW_URL}$"})


def _parse_address(text: str) -> str:
    host = text[1:-1] if text[:1] == "[" and text[-1:] == "]" else text
    if not re.fullmatch(r"[^\s/%\[\]]+", host):
        raise ValueError
    if ":" in host or host != text:
        IPv6Address(host)
    return host


ADDRESS: Final = Kind("an address", _parse_address)
"""A host name or an IP address; IPv6 with or without brackets, which the value lacks."""


def host_port(host: str, port: int) -> str:
    """`HOST:PORT` as URLs have it: an IPv6 address is in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


ONE_LINE: Final = text(r".+", "a text of one line")


def name(longest: int) -> Kind:
    """A name that Kafka accepts for a topic or a group."""
    signs = rf"[A-Za-z0-9._-]{{1,{longest}}}"
    kind = text(
        rf"(?!\.\.?$){signs}",
        f"a name of 1 to {longest} letters, digits, dots, underscores and hyphens",
    )
    return kind._replace(schema={"type": "string", "pattern": f"^{signs}$"})


def _parse_folder(text: str) -> Path:
    try:
        return Path(text).expanduser().absolute()
    except RuntimeError:  # ~ of an unknown user
        raise ValueError from None


FOLDER: Final = Kind("a folder", _parse_folder)  # need not exist yet
FILE: Final = FOLDER._replace(accepts="a file")
MILLISECONDS: Final = integer(100, 86_400_000)  # a deadline, from a tenth of a second to a day
