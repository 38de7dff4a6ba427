"""A broker with a listener for each security protocol, and settings of those who may and may not
come in.

Every secret has the word MARKER, and nothing that a worker writes may contain it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from confluent_kafka.admin import ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from tests.harness.broker import KafkaBroker
from tests.harness.certificates import Authority
from tests.harness.identity import AUDIENCE, ISSUER, LATE, Identity
from tests.harness.patience import PATIENCE_SECONDS
from tests.harness.workers import Pipeline, run_command

USER: Final = "worker"
PASSWORD: Final = 'MARKER-password "with; signs=\\'
KEY_PASSWORD: Final = "MARKER-key-password"
CLIENT_SECRET: Final = "MARKER-secret +/:%"
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
WAYS: Final = ("OAUTHBEARER", "SSL", "SCRAM-SHA-512", "AWS_MSK_IAM", "PLAINTEXT", *MECHANISMS[:2])
REAUTH_MS: Final = 3_600_000  # the longest session of a token; its own life is shorter
SIGNER: Final = """
import pathlib, time

class MSKAuthTokenProvider:
    @staticmethod
    def generate_auth_token(region):
        assert region == "eu-central-1"
        token = pathlib.Path(__file__).with_name("token").read_text()
        return token, (time.time() + 500) * 1000
"""
"""In place of AWS's signer, whose tokens only MSK accepts."""


def command(site: Pipeline, settings: Mapping[str, str], *arguments: str, code: int = 0) -> str:
    """What a command wrote, on both of its outputs; no secret among it."""
    done = run_command(*arguments, environment={**site.environment, **settings})
    written = done.stdout + done.stderr
    assert done.returncode == code, written
    assert "MARKER" not in written
    return written


class Secured:
    """A broker that speaks every security protocol, and the files of those who may and may not talk
    to it.
    """

    def __init__(self, directory: Path):
        self.authority = Authority(directory, "authority")
        self.stranger = Authority(directory, "stranger")
        self.client, self.client_key = self.authority.issue("client", KEY_PASSWORD)
        self.foreign_client, self.foreign_key = self.stranger.issue("foreign")
        certificate, key = self.authority.issue("broker")
        keystore = directory / "broker.pem"
        keystore.write_bytes(key.read_bytes() + certificate.read_bytes())
        self.identity = Identity(
            directory, self.authority, {"worker": CLIENT_SECRET, LATE: CLIENT_SECRET}
        )
        self.signer = directory / "signer"
        self.broker = KafkaBroker(
            directory / "broker",
            {
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": str(keystore),
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": str(self.authority.path),
                "listener.name.ssl.ssl.client.auth": "required",
                "listener.name.sasl_ssl.ssl.client.auth": "requested",
                "sasl.enabled.mechanisms": ",".join((*MECHANISMS, "OAUTHBEARER")),
                "listener.name.sasl_ssl.oauthbearer.connections.max.reauth.ms": str(REAUTH_MS),
                **{
                    f"listener.name.{name}.{key}": value
                    for name in ("sasl_ssl", "sasl_plaintext")
                    for key, value in of_tokens(self.identity).items()
                },
                **{
                    f"listener.name.{name}.{key}": value
                    for name in ("sasl_ssl", "sasl_plaintext")
                    for key, value in JAAS.items()
                },
            },
            protocols=("SSL", "SASL_SSL", "SASL_PLAINTEXT"),
        )
        self.broker.environment["JAVA_TOOL_OPTIONS"] = (
            f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={self.identity.keys.as_uri()}"
        )

    def settings(self, way: str) -> dict[str, str]:
        """The settings of a worker that may come in this way, one of `WAYS`."""
        if way == "PLAINTEXT":
            return {"KAFKA_BOOTSTRAP_SERVERS": self.broker.bootstrap_servers}
        own = {"SSL": self.tls, "OAUTHBEARER": self.oauth, "AWS_MSK_IAM": self.aws}
        return own[way]() if way in own else self.sasl(way)

    def add_users(self) -> None:
        """Users of SCRAM are the broker's data."""
        self.set_password(USER, PASSWORD)

    def set_password(self, name: str, password: str) -> None:
        """From now on this user of SCRAM has this password alone."""
        admin = self.broker.admin()
        for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
            user = UserScramCredentialUpsertion(
                name, ScramCredentialInfo(mechanism, 4096), password.encode()
            )
            for future in admin.alter_user_scram_credentials([user]).values():
                future.result(PATIENCE_SECONDS)

    def sasl(self, mechanism: str = "SCRAM-SHA-512", protocol: str = "SASL_SSL") -> dict[str, str]:
        """The settings of a worker that may come in by user and password."""
        tls = (
            {"COVERSUMM_SSL_CA_LOCATION": str(self.authority.path)}
            if protocol == "SASL_SSL"
            else {}
        )
        return {
            "KAFKA_BOOTSTRAP_SERVERS": self.broker.addresses[protocol],
            "COVERSUMM_SECURITY_PROTOCOL": protocol,
            "COVERSUMM_SASL_MECHANISM": mechanism,
            "COVERSUMM_SASL_USERNAME": USER,
            "COVERSUMM_SASL_PASSWORD": PASSWORD,
            **tls,
        }

    def oauth(self) -> dict[str, str]:
        """The settings of a worker that may come in by a token of the provider."""
        return {
            "KAFKA_BOOTSTRAP_SERVERS": self.broker.addresses["SASL_SSL"],
            "COVERSUMM_SECURITY_PROTOCOL": "SASL_SSL",
            "COVERSUMM_SASL_MECHANISM": "OAUTHBEARER",
            "COVERSUMM_SASL_OAUTH_TOKEN_URL": self.identity.url,
            "COVERSUMM_SASL_OAUTH_CLIENT_ID": "worker",
            "COVERSUMM_SASL_OAUTH_CLIENT_SECRET": CLIENT_SECRET,
            "COVERSUMM_SASL_OAUTH_SCOPE": "kafka",
            "COVERSUMM_SASL_OAUTH_EXTENSIONS": "logicalCluster=lkc-1,identityPoolId=pool-1",
            "COVERSUMM_SASL_OAUTH_CA_LOCATION": str(self.authority.path),
            "COVERSUMM_SSL_CA_LOCATION": str(self.authority.path),
        }

    def aws(self) -> dict[str, str]:
        """The settings of a worker that may come in by a token that the stand-in signed."""
        package = self.signer / "aws_msk_iam_sasl_signer"
        package.mkdir(parents=True, exist_ok=True)
        (package / "__init__.py").write_text(SIGNER)
        now = int(time.time())
        claims = {"iss": ISSUER, "aud": AUDIENCE, "sub": "worker", "iat": now, "exp": now + 600}
        (package / "token").write_text(self.identity.token({**claims, "scope": "kafka"}))
        return {
            "KAFKA_BOOTSTRAP_SERVERS": self.broker.addresses["SASL_SSL"],
            "COVERSUMM_SECURITY_PROTOCOL": "SASL_SSL",
            "COVERSUMM_SASL_MECHANISM": "AWS_MSK_IAM",
            "COVERSUMM_SASL_AWS_REGION": "eu-central-1",
            "COVERSUMM_SSL_CA_LOCATION": str(self.authority.path),
            "PYTHONPATH": str(self.signer),
        }

    def tls(self) -> dict[str, str]:
        """The settings of a worker that may come in by its certificate."""
        return {
            "KAFKA_BOOTSTRAP_SERVERS": self.broker.addresses["SSL"],
            "COVERSUMM_SECURITY_PROTOCOL": "SSL",
            "COVERSUMM_SSL_CA_LOCATION": str(self.authority.path),
            "COVERSUMM_SSL_CERTIFICATE_LOCATION": str(self.client),
            "COVERSUMM_SSL_KEY_LOCATION": str(self.client_key),
            "COVERSUMM_SSL_KEY_PASSWORD": KEY_PASSWORD,
        }


_QUOTED = PASSWORD.replace("\\", "\\\\").replace('"', '\\"')
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
JAAS = {
    "plain.sasl.jaas.config": (
        f'org.apache.kafka.common.security.plain.PlainLoginModule required user_{USER}="{_QUOTED}";'
    ).replace("\\", "\\\\"),  # a properties file takes one backslash off itself
    "scram-sha-256.sasl.jaas.config": _SCRAM,
    "scram-sha-512.sasl.jaas.config": _SCRAM,
}


def of_tokens(identity: Identity) -> dict[str, str]:
    """What a listener needs to verify the provider's tokens."""
    oauth = "org.apache.kafka.common.security.oauthbearer"
    return {
        "oauthbearer.sasl.jaas.config": f"{oauth}.OAuthBearerLoginModule required;",
        "oauthbearer.sasl.server.callback.handler.class": (
            f"{oauth}.OAuthBearerValidatorCallbackHandler"
        ),
        "oauthbearer.sasl.oauthbearer.jwks.endpoint.url": identity.keys.as_uri(),
        "oauthbearer.sasl.oauthbearer.expected.audience": AUDIENCE,
        "oauthbearer.sasl.oauthbearer.expected.issuer": ISSUER,
    }


def wrong(secured: Secured) -> dict[str, tuple[dict[str, str], tuple[str, ...]]]:
    """By name: settings with one thing wrong, and what the error has to name."""
    sasl, tls = secured.sasl(), secured.tls()
    strangers = {"COVERSUMM_SSL_CA_LOCATION": str(secured.stranger.path)}
    foreign = {
        "COVERSUMM_SSL_CERTIFICATE_LOCATION": str(secured.foreign_client),
        "COVERSUMM_SSL_KEY_LOCATION": str(secured.foreign_key),
    }
    no_key = {name: value for name, value in tls.items() if name != "COVERSUMM_SSL_KEY_PASSWORD"}
    bare = {
        name: value
        for name, value in tls.items()
        if "_CERTIFICATE_" not in name and "_KEY_" not in name
    }
    plain = secured.broker.bootstrap_servers
    users = ("COVERSUMM_SASL_USERNAME", "COVERSUMM_SASL_PASSWORD")
    oauth = secured.oauth()
    return {
        "oauth-secret": (
            {**oauth, "COVERSUMM_SASL_OAUTH_CLIENT_SECRET": "MARKER-wrong"},
            ("401 invalid_client", "COVERSUMM_SASL_OAUTH_CLIENT_SECRET"),
        ),
        "oauth-expired": (
            {**oauth, "COVERSUMM_SASL_OAUTH_CLIENT_ID": LATE},
            ("COVERSUMM_SECURITY_PROTOCOL", "an expired token"),
        ),
        "oauth-provider": (
            {**oauth, "COVERSUMM_SASL_OAUTH_CA_LOCATION": str(secured.stranger.path)},
            ("COVERSUMM_SASL_OAUTH_TOKEN_URL", "verify failed", "COVERSUMM_SASL_OAUTH_CA_LOCATION"),
        ),
        "oauth-scope": (
            {**oauth, "COVERSUMM_SASL_OAUTH_SCOPE": ""},
            ("the broker does not accept the token", "COVERSUMM_SASL_OAUTH_TOKEN_URL"),
        ),
        "client-option": (
            {**sasl, "COVERSUMM_CLIENT_OPTIONS": "acks=1"},
            ("COVERSUMM_CLIENT_OPTIONS: acks is refused",),
        ),
        "unknown-client-option": (
            {**sasl, "COVERSUMM_CLIENT_OPTIONS": "compresion.type=lz4"},
            ("COVERSUMM_CLIENT_OPTIONS", "compresion.type"),
        ),
        "password": ({**sasl, "COVERSUMM_SASL_PASSWORD": "MARKER-wrong"}, users),
        "user": ({**sasl, "COVERSUMM_SASL_USERNAME": "nobody"}, users),
        "password-plain": (
            {**secured.sasl("PLAIN"), "COVERSUMM_SASL_PASSWORD": "MARKER-wrong"},
            users,
        ),
        "authority": ({**sasl, **strangers}, ("COVERSUMM_SSL_CA_LOCATION",)),
        "no-client-certificate": (bare, ("COVERSUMM_SSL_CERTIFICATE_LOCATION",)),
        "foreign-client-certificate": (
            {**no_key, **foreign},
            ("COVERSUMM_SSL_CERTIFICATE_LOCATION", "COVERSUMM_SSL_KEY_LOCATION"),
        ),
        "key-password": (
            {**tls, "COVERSUMM_SSL_KEY_PASSWORD": "MARKER-wrong"},
            ("COVERSUMM_SSL_KEY_PASSWORD",),
        ),
        "no-key-password": (no_key, ("COVERSUMM_SSL_KEY_PASSWORD",)),
        "plaintext-to-tls": (
            {"KAFKA_BOOTSTRAP_SERVERS": secured.broker.addresses["SASL_SSL"]},
            ("COVERSUMM_SECURITY_PROTOCOL",),
        ),
        "tls-to-plaintext": (
            {**sasl, "KAFKA_BOOTSTRAP_SERVERS": plain},
            ("COVERSUMM_SECURITY_PROTOCOL",),
        ),
        "sasl-to-no-sasl": (
            {**secured.sasl(protocol="SASL_PLAINTEXT"), "KAFKA_BOOTSTRAP_SERVERS": plain},
            ("COVERSUMM_SECURITY_PROTOCOL",),
        ),
    }
