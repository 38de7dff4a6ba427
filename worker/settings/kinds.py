"""Kinds of variables: how a text becomes a value, and the words for what is accepted.

Plain Python: every `--help` reads the settings, and does not load msgspec for it.
"""

import re
from collections.abc import Callable, Mapping
from ipaddress import IPv6Address
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


_WORDS: Final = {True: ("true", "1", "yes", "on"), False: ("false", "0", "no", "off")}


def flag() -> Kind:
    """Yes or no."""
    words = {word: value for value in (True, False) for word in _WORDS[value]}

    def parse(text: str) -> bool:
        if text.lower() not in words:
            raise ValueError
        return words[text.lower()]

    return Kind("true or false", parse, lambda value: str(value).lower(), {"type": "boolean"})


def text(pattern: str, accepts: str) -> Kind:
    """A text that matches the complete regular expression."""

    def parse(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise ValueError
        return text

    return Kind(accepts, parse)


def servers() -> Kind:
    """Addresses of brokers."""

    def parse(text: str) -> str:
        servers = [server.strip() for server in text.split(",")]
        for server in servers:
            parts = urlsplit(f"//{server}")
            if not parts.hostname or not parts.port or parts.netloc != server or "@" in server:
                raise ValueError
        return ",".join(servers)

    return Kind("host:port, or several separated by commas", parse)


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


def url() -> Kind:
    """A URL of host and port only; trailing slashes are dropped."""
    return Kind("a URL like http://worker-0.coversumm:8080", web_origin)


def urls() -> Kind:
    """URLs of one service, without user, password and query; trailing slashes are dropped."""
    host = r"(\[[0-9a-f:.]{2,45}\]|[A-Za-z0-9._-]{1,253})"
    url = rf"https?://{host}(:[1-9][0-9]{{0,4}})?(/[^\s?#@,]*)?"

    def parse(text: str) -> str:
        given = [one.strip().rstrip("/") for one in text.split(",")]
        if not all(re.fullmatch(url, one) and urlsplit(one).port != 0 for one in given):
            raise ValueError
        return ",".join(given)

    schema = {"type": "string", "pattern": f"^{url}(,{url})*$"}
    accepts = "a URL like https://registry:8081, or several separated by commas"
    return Kind(accepts, parse, schema=schema)


def hosts() -> Kind:
    """Names of hosts, without ports."""
    name = r"[A-Za-z0-9_]([A-Za-z0-9._-]{0,252})"

    def parse(text: str) -> str:
        names = [one.strip() for one in text.split(",")]
        if not all(re.fullmatch(name, one) for one in names):
            raise ValueError
        return ",".join(names).lower()

    schema = {"type": "string", "pattern": rf"^{name}(,{name})*$"}
    return Kind("host names like summaries.example.com, separated by commas", parse, schema=schema)


def address() -> Kind:
    """A host name or an IP address; IPv6 with or without brackets, which the value lacks."""

    def parse(text: str) -> str:
        host = text[1:-1] if text[:1] == "[" and text[-1:] == "]" else text
        if not re.fullmatch(r"[^\s/%\[\]]+", host):
            raise ValueError
        if ":" in host or host != text:
            IPv6Address(host)
        return host

    return Kind("an address", parse)


def host_port(host: str, port: int) -> str:
    """`HOST:PORT` as URLs have it: an IPv6 address is in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def one_line() -> Kind:
    """Any text without a line break."""
    return text(r".+", "a text of one line")


def name(longest: int) -> Kind:
    """A name that Kafka accepts for a topic or a group."""
    signs = rf"[A-Za-z0-9._-]{{1,{longest}}}"
    kind = text(
        rf"(?!\.\.?$){signs}",
        f"a name of 1 to {longest} letters, digits, dots, underscores and hyphens",
    )
    return kind._replace(schema={"type": "string", "pattern": f"^{signs}$"})


def folder() -> Kind:
    """A folder, which need not exist yet; absolute, with `~` expanded."""

    def parse(text: str) -> Path:
        try:
            return Path(text).expanduser().absolute()
        except RuntimeError:  # ~ of an unknown user
            raise ValueError from None

    return Kind("a folder", parse)


def file() -> Kind:
    """A file; absolute, with `~` expanded."""
    return folder()._replace(accepts="a file")


def milliseconds() -> Kind:
    """A deadline, from a tenth of a second to a day."""
    return integer(100, 86_400_000)
