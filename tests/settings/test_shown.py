"""What is shown of settings: values, secrets, and what differs from the defaults."""

from __future__ import annotations

from pathlib import Path

from tests.settings.sasl import SASL
from worker.settings import Settings, settings_by_field


def test_secrets_are_stars(tmp_path: Path) -> None:
    settings = Settings.from_environment(SASL)
    shown = {name: settings.shown(name) for name in settings_by_field()}
    assert (shown["sasl_password"], shown["ssl_key_password"]) == ("***", None)
    assert (shown["sasl_username"], shown["k"], shown["distinct"]) == ("u", 20, False)
    assert shown["data_dir"] == str(settings.data_dir)
    assert "secret" not in map(str, shown.values())
    assert settings.changed() == {
        "COVERSUMM_SECURITY_PROTOCOL": "SASL_PLAINTEXT",
        "COVERSUMM_SASL_MECHANISM": "SCRAM-SHA-512",
        "COVERSUMM_SASL_USERNAME": "u",
        "COVERSUMM_SASL_PASSWORD": "***",
    }


def test_the_texts_that_give_the_same_settings_have_no_secrets(tmp_path: Path) -> None:
    settings = Settings.from_environment(
        {
            **SASL,
            "COVERSUMM_DISTINCT": "yes",
            "COVERSUMM_CACHE_BYTES": "3 MiB",
            "COVERSUMM_DATA_DIR": str(tmp_path),
        }
    )
    texts = settings.environment()
    assert texts == {
        "COVERSUMM_DISTINCT": "true",
        "COVERSUMM_DATA_DIR": str(tmp_path),
        "COVERSUMM_CACHE_BYTES": "3MiB",
        "COVERSUMM_SECURITY_PROTOCOL": "SASL_PLAINTEXT",
        "COVERSUMM_SASL_MECHANISM": "SCRAM-SHA-512",
        "COVERSUMM_SASL_USERNAME": "u",
    }
    again = {**texts, "COVERSUMM_SASL_PASSWORD": SASL["COVERSUMM_SASL_PASSWORD"]}
    assert Settings.from_environment(again) == settings
