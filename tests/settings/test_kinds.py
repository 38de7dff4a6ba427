"""What a JSON Schema says of a setting is what the setting accepts."""

from typing import Any

import pytest
from jsonschema import Draft202012Validator

from worker.settings import Setting, kinds, settings_by_field
from worker.settings.fields import Fields

EACH = settings_by_field()


def accepts(setting: Setting, value: Any) -> bool:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    try:
        setting.kind.parse(text)
    except ValueError:
        return False
    return True


def allows(setting: Setting, value: Any) -> bool:
    return bool(Draft202012Validator(dict(setting.kind.schema)).is_valid(value))


def test_every_default_is_allowed() -> None:
    defaults = {field: getattr(Fields, field) for field in EACH}
    for field, default in defaults.items():
        if default not in (None, "", 0) or isinstance(default, bool):
            value = default if isinstance(default, int) else str(default)
            assert allows(EACH[field], value), field
            assert accepts(EACH[field], value), field


def test_bounds_are_the_same() -> None:
    bounded = {
        field: setting for field, setting in EACH.items() if "minimum" in setting.kind.schema
    }
    assert len(bounded) > 20
    for field, setting in bounded.items():
        low, high = setting.kind.schema["minimum"], setting.kind.schema["maximum"]
        for value in (low - 1, low, low + 1, high - 1, high, high + 1):
            said = allows(setting, value), accepts(setting, value)
            assert said == (low <= value <= high,) * 2, (field, value)


def test_what_is_allowed_is_accepted() -> None:
    """But for addresses and embedders, whose forms only the setting knows."""
    known = EACH.keys() - {"bootstrap_servers", "embedder", "web_advertised_url", "web_bind"}
    values = ["a b", "x", "1e3", "256MB", "1 TiB", True, 1.5, None, [], "name", "é"]
    allowed = [
        (field, value) for field in sorted(known) for value in values if allows(EACH[field], value)
    ]
    assert allowed
    assert [pair for pair in allowed if not accepts(EACH[pair[0]], pair[1])] == []


def test_every_choice_and_every_unit_is_allowed() -> None:
    assert all(allows(EACH["security_protocol"], name) for name in ("PLAINTEXT", "SSL", "SASL_SSL"))
    assert not allows(EACH["security_protocol"], "TLS")
    assert all(allows(EACH["cache_bytes"], size) for size in (0, "0", "1KiB", "64 MiB", "1GiB"))
    assert not allows(EACH["k"], True)


@pytest.mark.parametrize(
    "text", ["http://w-0:8080", "https://[fd00::1]:80/", "http://w-0.ns.svc", "HTTP://10.0.0.1:1/"]
)
def test_an_address_is_host_and_port(text):
    assert kinds.web_origin(text) == text.rstrip("/")


NO_ADDRESS = (
    *("", "w-0:8080", "ftp://w", "http://", "http://u:p@w", "http://w/path", "http://w?q"),
    *("http://w#f", "http://w\\x", "http://w:0", "http://w:65536", f"http://w:{'9' * 5000}"),
    *(
        "http://w\n",
        " http://w",
        "http://w b",
        "http://é",
        "http://[::1",
        "http://[::::]:1",
        "http://[w]:1",
        "file:///etc/passwd",
    ),
    "http://" + "a" * 300,
)


@pytest.mark.parametrize("text", NO_ADDRESS)
def test_anything_else_is_no_address(text):
    with pytest.raises(ValueError, match=r"is not http|[Pp]ort|URL|not appear"):
        kinds.web_origin(text)


def test_host_names_are_a_list():
    assert kinds.HOSTS.parse("Summaries.example.com, w-0") == "summaries.example.com,w-0"
    for wrong in ("a,,b", "http://a", "a:80", "*", "a b", "a/"):
        with pytest.raises(ValueError, match=r"^$"):
            kinds.HOSTS.parse(wrong)
