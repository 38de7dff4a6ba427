"""Options of confluent-kafka from the worker's variables: one way to log in for all programs."""

import os
import re
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

_OPTIONS = {
    "KAFKA_BOOTSTRAP_SERVERS": "bootstrap.servers",
    "COVERSUMM_SECURITY_PROTOCOL": "security.protocol",
    "COVERSUMM_SASL_MECHANISM": "sasl.mechanism",
    "COVERSUMM_SASL_USERNAME": "sasl.username",
    "COVERSUMM_SASL_PASSWORD": "sasl.password",
    "COVERSUMM_SASL_OAUTH_TOKEN_URL": "sasl.oauthbearer.token.endpoint.url",
    "COVERSUMM_SASL_OAUTH_CLIENT_ID": "sasl.oauthbearer.client.id",
    "COVERSUMM_SASL_OAUTH_CLIENT_SECRET": "sasl.oauthbearer.client.secret",
    "COVERSUMM_SASL_OAUTH_SCOPE": "sasl.oauthbearer.scope",
    "COVERSUMM_SASL_OAUTH_EXTENSIONS": "sasl.oauthbearer.extensions",
    "COVERSUMM_SASL_OAUTH_CA_LOCATION": "https.ca.location",
    "COVERSUMM_SSL_CA_LOCATION": "ssl.ca.location",
    "COVERSUMM_SSL_CERTIFICATE_LOCATION": "ssl.certificate.location",
    "COVERSUMM_SSL_KEY_LOCATION": "ssl.key.location",
    "COVERSUMM_SSL_KEY_PASSWORD": "ssl.key.password",
}
_MORE = "COVERSUMM_CLIENT_OPTIONS"
_LOGIN = "COVERSUMM_SASL_MECHANISM, COVERSUMM_SASL_USERNAME and COVERSUMM_SASL_PASSWORD"
_PROVIDER = "COVERSUMM_SASL_OAUTH_TOKEN_URL, _CLIENT_ID, _CLIENT_SECRET, _SCOPE and _CA_LOCATION"
_CERTIFICATE = "COVERSUMM_SSL_CERTIFICATE_LOCATION, COVERSUMM_SSL_KEY_LOCATION and its password"
_ADDRESS = "KAFKA_BOOTSTRAP_SERVERS and COVERSUMM_SECURITY_PROTOCOL"


def kafka_options():
    """The options. AWS_MSK_IAM needs aws-msk-iam-sasl-signer-python and COVERSUMM_SASL_AWS_REGION;
    COVERSUMM_SASL_OAUTH_AUDIENCE is of the worker alone.
    """
    given = {option: os.environ.get(name) for name, option in _OPTIONS.items()}
    if file := os.environ.get("COVERSUMM_SASL_PASSWORD_LOCATION"):
        given["sasl.password"] = Path(file).read_text("utf-8").strip()
    options: dict[str, Any] = {"bootstrap.servers": "localhost:9092"}
    options |= {option: value for option, value in given.items() if value}
    more = re.findall(r"([\w.-]+)=(.*?)\s*(?:,\s*(?=[\w.-]+=)|$)", os.environ.get(_MORE, ""))
    options |= dict(more)
    if "sasl.oauthbearer.token.endpoint.url" in options:
        options["sasl.oauthbearer.method"] = "oidc"
    if options.get("sasl.mechanism") == "AWS_MSK_IAM":
        options |= {"sasl.mechanism": "OAUTHBEARER", "oauth_cb": _token_of_aws}
    return options


def connected_options(seconds=30):
    """Those options, once a broker has let this process in. If one refuses it, or none answers,
    the process ends with a line that names the variables to check.
    """
    options = kafka_options()
    errors: list[KafkaError] = []
    try:
        client = AdminClient(options | {"error_cb": errors.append, "log_level": 0})
    except KafkaException as error:
        sys.exit(f"{error.args[0].str()}: check {_CERTIFICATE}, or {_MORE}")
    for _ in range(seconds):
        with suppress(KafkaException):
            client.list_topics(timeout=1)
            return options
        client.poll(0)
        for text, names in (_refusal(error, options) for error in errors):
            if names:
                sys.exit(f"{text}: check {names}")
    sys.exit(f"no answer from {options['bootstrap.servers']}: check {_ADDRESS}")


def _refusal(error, options):
    """An error's text, and the variables to check if more waiting does not help."""
    text = error.str()
    if error.code() == KafkaError._AUTHENTICATION and "oauth_cb" in options:
        return text, "COVERSUMM_SASL_AWS_REGION, and what the AWS role may do"
    if error.code() == KafkaError._AUTHENTICATION:
        return text, _PROVIDER if options["sasl.mechanism"] == "OAUTHBEARER" else _LOGIN
    if "alert" in text:
        return text, _CERTIFICATE
    return text, "COVERSUMM_SSL_CA_LOCATION" if error.code() == KafkaError._SSL else None


def _token_of_aws(_):
    from aws_msk_iam_sasl_signer import MSKAuthTokenProvider

    region = os.environ["COVERSUMM_SASL_AWS_REGION"]
    token, expires_ms = MSKAuthTokenProvider.generate_auth_token(region)
    return token, expires_ms / 1000
