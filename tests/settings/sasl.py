"""Settings of a user with a password."""

from __future__ import annotations

SASL = {
    "COVERSUMM_SECURITY_PROTOCOL": "sasl_plaintext",
    "COVERSUMM_SASL_MECHANISM": "scram-sha-512",
    "COVERSUMM_SASL_USERNAME": "u",
    "COVERSUMM_SASL_PASSWORD": "secret",
}
