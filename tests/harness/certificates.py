"""Certificates for a broker and its clients: an authority of the test's own, and what it signed, as
PEM files.
"""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

KEY_USES = (
    "digital_signature",
    "content_commitment",
    "key_encipherment",
    "data_encipherment",
    "key_agreement",
    "key_cert_sign",
    "crl_sign",
    "encipher_only",
    "decipher_only",
)


class Authority:
    """Signs certificates; `path` is its own, which those who trust it are given."""

    days = 1  # for which what it signs is valid

    def __init__(self, directory: Path, name: str):
        self._directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _named(name)
        self.path = directory / f"{name}.pem"
        certificate = self._sign(
            self._name, self._key, x509.BasicConstraints(ca=True, path_length=None)
        )
        self.path.write_bytes(_pem(certificate))

    def issue(
        self, name: str, password: str | None = None, seconds: float = 86_400
    ) -> tuple[Path, Path]:
        """Files with a certificate for 127.0.0.1, valid for `seconds`, and with its private key,
        which `password` encrypts.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        here = x509.SubjectAlternativeName(
            [x509.IPAddress(ipaddress.ip_address("127.0.0.1")), x509.DNSName("localhost")]
        )
        certificate_path, key_path = (
            self._directory / f"{name}.{part}.pem" for part in ("certificate", "key")
        )
        certificate_path.write_bytes(_pem(self._sign(_named(name), key, here, seconds)))
        encryption: serialization.KeySerializationEncryption = serialization.NoEncryption()
        if password is not None:
            encryption = serialization.BestAvailableEncryption(password.encode())
        key_path.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption
            )
        )
        return certificate_path, key_path

    def _sign(
        self,
        name: x509.Name,
        key: ec.EllipticCurvePrivateKey,
        extension: x509.ExtensionType,
        seconds: float = 86_400,
    ) -> x509.Certificate:
        now = datetime.datetime.now(datetime.UTC)
        is_authority = isinstance(extension, x509.BasicConstraints)
        usage = dict.fromkeys(KEY_USES, False) | {
            "digital_signature": not is_authority,
            "key_cert_sign": is_authority,
        }
        return (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(seconds=seconds))
            .add_extension(extension, critical=is_authority)
            .add_extension(x509.KeyUsage(**usage), critical=True)  # Python 3.13 wants it
            .add_extension(
                x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False
            )
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()),
                critical=False,
            )
            .sign(self._key, hashes.SHA256())
        )


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
