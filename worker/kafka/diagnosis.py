"""Why a broker does not let a client in, in words that name the settings.

librdkafka tries again for ever and only its error callback says what is wrong; a call that waits for the broker ends in a
timeout that says nothing.
"""

import re

from confluent_kafka import KafkaError

from worker.settings import Settings

# Those that say what went wrong, the likeliest to help first.
_CONNECTIONS = (KafkaError._AUTHENTICATION, KafkaError._SSL, KafkaError._RESOLVE, KafkaError._TRANSPORT)


def plain(text: str) -> str:
    """librdkafka's text about a connection without the state it was in: `HOST:PORT: Connect to ... failed: why`."""
    without_state = re.sub(r" \(after \d+ms in state \w+(, [^)]*)?\)", "", text)
    return re.sub(r"^(\w+://)?(\[?[\w.:-]+\]?:\d+)/\w+: ", r"\2: ", without_state)


class Diagnosis:
    """An error callback of librdkafka that remembers the errors, to say later what is wrong."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._errors: dict[int, str] = {}

    def __call__(self, error: KafkaError) -> None:
        """Remember an error; of each code the last one counts."""
        self._errors[error.code()] = error.str()

    @property
    def denied(self) -> bool:
        """Whether a broker answered and refused the client: waiting longer is of little use."""
        told = " ".join(self._errors.values())
        known = KafkaError._AUTHENTICATION in self._errors or KafkaError._SSL in self._errors
        return known or "alert" in told or "PLAINTEXT broker" in told

    @property
    def unreachable(self) -> bool:
        """Whether nothing listens at an address, or its name is not known: a wrong address, or a broker that is not there yet."""
        refused = "Connection refused" in self._errors.get(KafkaError._TRANSPORT, "")
        return refused or KafkaError._RESOLVE in self._errors

    @property
    def told(self) -> str:
        """What the client last said of a connection, in its words; empty where it said nothing of one."""
        told = [self._errors[code] for code in _CONNECTIONS if code in self._errors]
        return plain(told[0]) if told else ""

    def reason(self) -> str:
        """What to look at, the likeliest cause first."""
        settings = self._settings
        protocol = f"COVERSUMM_SECURITY_PROTOCOL={settings.security_protocol}"
        denied = self._errors.get(KafkaError._AUTHENTICATION)
        if denied is not None and "handshake failed" in denied:
            return (
                f"the broker does not take {protocol} with COVERSUMM_SASL_MECHANISM={settings.sasl_mechanism} there: "
                "set those of the listener"
            )
        if denied is not None:
            return (
                f"the broker does not accept COVERSUMM_SASL_USERNAME={settings.sasl_username} with COVERSUMM_SASL_PASSWORD "
                f"and COVERSUMM_SASL_MECHANISM={settings.sasl_mechanism}"
            )
        tls = self._errors.get(KafkaError._SSL, "")
        if "verify failed" in tls:
            return (
                "the broker's certificate is not signed by an authority of COVERSUMM_SSL_CA_LOCATION "
                f"({settings.ssl_ca_location or 'the system'}), or not for this address"
            )
        lost = self._errors.get(KafkaError._TRANSPORT, "")
        if "PLAINTEXT broker" in lost + tls:
            return f"the broker does not speak TLS there: {protocol} is not the listener's"
        if "alert" in lost + tls:
            return (
                "the broker does not accept the client's certificate: COVERSUMM_SSL_CERTIFICATE_LOCATION and "
                "COVERSUMM_SSL_KEY_LOCATION"
            )
        if KafkaError._RESOLVE in self._errors:
            return "no such host is known here: check the address"
        return f"check the address, the network and {protocol}"
