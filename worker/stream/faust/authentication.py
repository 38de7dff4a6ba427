"""The login of the input's consumer, by the same settings as other clients."""

import asyncio
from typing import Any

from aiokafka.abc import AbstractTokenProvider
from faust.auth import OAuthCredentials, SASLCredentials, SSLCredentials

from worker.credentials.tokens import TokenSource, kafka_tokens
from worker.settings import Settings
from worker.settings.kinds import pairs


class TokenProvider(AbstractTokenProvider):
    """aiokafka's tokens; the source may wait for its provider, so it runs beside the event loop."""

    def __init__(self, tokens: TokenSource, extensions: dict[str, str]) -> None:
        self._tokens, self._extensions = tokens, extensions

    async def token(self) -> str:
        """A valid token. Raises TokenError."""
        return (await asyncio.to_thread(self._tokens.token)).text

    def extensions(self) -> dict[str, str]:
        """The SASL extensions beside the token."""
        return self._extensions


def broker_credentials(settings: Settings) -> Any:
    """The Kafka security settings for Faust; librdkafka's are `Settings.kafka_client_config`."""
    context, tokens = settings.tls_context(), kafka_tokens(settings)
    if tokens is not None:
        provider = TokenProvider(tokens, pairs(settings.sasl_oauth_extensions))
        return OAuthCredentials(oauth_cb=provider, ssl_context=context)
    if settings.security_protocol.startswith("SASL"):
        return SASLCredentials(
            username=settings.sasl_username,
            password=settings.broker_password(),
            mechanism=settings.sasl_mechanism,
            ssl_context=context,
        )
    return SSLCredentials(context) if context is not None else None
