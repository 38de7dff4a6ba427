"""What librdkafka's error callback said, in words that name the settings (a real broker:
tests/real_kafka/test_security.py).
"""

from pathlib import Path

import pytest
from confluent_kafka import KafkaError

from tests.harness.certificates import Authority
from tests.harness.identity import oauth_settings
from worker.credentials.tokens import TokenError, kafka_tokens
from worker.kafka.errors import Diagnosis
from worker.settings import Settings

SASL = {
    "security_protocol": "SASL_PLAINTEXT",
    "sasl_mechanism": "PLAIN",
    "sasl_username": "worker",
    "sasl_password": "MARKER",
}


@pytest.mark.parametrize(
    ("code", "text", "words", "denied"),
    [
        (KafkaError._AUTHENTICATION, "Authentication failed: Invalid username",
         "COVERSUMM_SASL_USERNAME=worker", True),
        (KafkaError._AUTHENTICATION, "SASL mechanism handshake failed",
         "COVERSUMM_SASL_MECHANISM=PLAIN", True),
        (KafkaError._SSL, "certificate verify failed", "COVERSUMM_SSL_CA_LOCATION (the system)",
         True),
        (KafkaError._TRANSPORT, "ssl/tls alert bad certificate",
         "COVERSUMM_SSL_CERTIFICATE_LOCATION", True),
        (KafkaError._TRANSPORT, "connecting to a PLAINTEXT broker listener?", "does not speak TLS",
         True),
        (KafkaError._TRANSPORT, "Connection refused", "the address, the network", False),
        (KafkaError._ALL_BROKERS_DOWN, "1/1 brokers are down",
         "COVERSUMM_SECURITY_PROTOCOL=SASL_PLAINTEXT", False),
    ],
)  # fmt: skip
def test_each_reason_names_its_settings(code: int, text: str, words: str, denied: bool) -> None:
    diagnosis = Diagnosis(Settings(**SASL))
    diagnosis(KafkaError(KafkaError._ALL_BROKERS_DOWN, "0/2 brokers are down"))
    diagnosis(KafkaError(code, text))
    assert words in diagnosis.reason()
    assert "MARKER" not in diagnosis.reason()
    assert diagnosis.denied is denied


@pytest.mark.parametrize("text", ["SASL mechanism handshake failed", "Authentication failed"])
def test_a_provider_without_a_token_is_the_reason(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = oauth_settings("https://away")
    diagnosis = Diagnosis(settings)
    diagnosis(KafkaError(KafkaError._AUTHENTICATION, text))
    assert "the broker does not accept" in diagnosis.reason()
    monkeypatch.setattr(kafka_tokens(settings), "failed", TokenError("gives no token (status 503)"))
    assert diagnosis.reason() == "gives no token (status 503)"


def test_a_client_certificate_that_has_expired_is_named(tmp_path: Path) -> None:
    for seconds, words in ((-5, "which expired on "), (86_400, "")):
        certificate, key = Authority(tmp_path, "authority").issue("client", seconds=seconds)
        settings = Settings(
            security_protocol="SSL",
            ssl_certificate_location=str(certificate),
            ssl_key_location=str(key),
        )
        diagnosis = Diagnosis(settings)
        diagnosis(KafkaError(KafkaError._SSL, "ssl/tls alert certificate unknown"))
        assert words in diagnosis.reason()
        assert ("expired" in diagnosis.reason()) is bool(words)
