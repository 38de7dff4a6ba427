"""What a JSON Schema says of a setting is what the setting accepts."""

from typing import Any

import pytest
from jsonschema import Draft202012Validator

from worker.settings import Setting, settings_by_field
from worker.settings.fields import Fields

EACH = settings_by_field()


def accepts(one: Setting, value: Any) -> bool:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    try:
        one.kind.parse(text)
    except ValueError:
        return False
    return True


def allows(one: Setting, value: Any) -> bool:
    return bool(Draft202012Validator(dict(one.kind.schema)).is_valid(value))


@pytest.mark.parametrize("field", EACH)
def test_the_default_is_allowed(field: str) -> None:
    default = getattr(Fields, field)
    if default not in (None, "", 0) or isinstance(default, bool):
        value = default if isinstance(default, int) else str(default)
        assert allows(EACH[field], value)
        assert accepts(EACH[field], value)


@pytest.mark.parametrize("field", [name for name, one in EACH.items() if "minimum" in one.kind.schema])
def test_bounds_are_the_same(field: str) -> None:
    one = EACH[field]
    low, high = one.kind.schema["minimum"], one.kind.schema["maximum"]
    for value in (low - 1, low, low + 1, high - 1, high, high + 1):
        assert allows(one, value) == accepts(one, value) == (low <= value <= high)


@pytest.mark.parametrize("field", EACH)
@pytest.mark.parametrize("value", ["a b", "x", "1e3", "256MB", "1 TiB", True, 1.5, None, [], "name", "é"])
def test_what_is_allowed_is_accepted(field: str, value: Any) -> None:
    """But for addresses and embedders, whose forms only the setting knows."""
    one = EACH[field]
    if field not in ("bootstrap_servers", "embedder", "web_advertised_url", "web_bind") and allows(
        one, value
    ):
        assert accepts(one, value)


def test_every_choice_and_every_unit_is_allowed() -> None:
    assert all(allows(EACH["security_protocol"], name) for name in ("PLAINTEXT", "SSL", "SASL_SSL"))
    assert not allows(EACH["security_protocol"], "TLS")
    assert all(allows(EACH["cache_bytes"], size) for size in (0, "0", "1KiB", "64 MiB", "1GiB"))
    assert not allows(EACH["k"], True)
