"""Options of confluent-kafka from the worker's variables: one way to log in for all programs."""

import os

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


def kafka_options():
    """The options. AWS_MSK_IAM needs aws-msk-iam-sasl-signer-python and COVERSUMM_SASL_AWS_REGION;
    COVERSUMM_SASL_OAUTH_AUDIENCE is of the worker alone.
    """
    given = {option: os.environ.get(name) for name, option in _OPTIONS.items()}
    options = {"bootstrap.servers": "localhost:9092"}
    options |= {option: value for option, value in given.items() if value}
    if "sasl.oauthbearer.token.endpoint.url" in options:
        options["sasl.oauthbearer.method"] = "oidc"
    if options.get("sasl.mechanism") == "AWS_MSK_IAM":
        options |= {"sasl.mechanism": "OAUTHBEARER", "oauth_cb": _token_of_aws}
    return options


def _token_of_aws(_):
    from aws_msk_iam_sasl_signer import MSKAuthTokenProvider

    region = os.environ["COVERSUMM_SASL_AWS_REGION"]
    token, expires_ms = MSKAuthTokenProvider.generate_auth_token(region)
    return token, expires_ms / 1000
