"""Quotas of all clients, for which confluent-kafka has no call: the broker delays answers to who
sends or reads more.
"""

from __future__ import annotations

import asyncio
from typing import ClassVar

from aiokafka.client import AIOKafkaClient
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import Array, Boolean, Float64, Int16, Int32, Schema, String

from tests.harness.node import BrokerError

RATES = ("producer_byte_rate", "consumer_byte_rate")
_ENTITY = Array(("entity_type", String("utf-8")), ("entity_name", String("utf-8")))


class _Response(Response):
    API_KEY = 49
    API_VERSION = 0
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "entries",
            Array(("error_code", Int16), ("error_message", String("utf-8")), ("entity", _ENTITY)),
        ),
    )


class _Struct(RequestStruct):
    API_KEY = 49
    API_VERSION = 0
    RESPONSE_TYPE = _Response
    SCHEMA = Schema(
        (
            "entries",
            Array(
                ("entity", _ENTITY),
                ("ops", Array(("key", String("utf-8")), ("value", Float64), ("remove", Boolean))),
            ),
        ),
        ("validate_only", Boolean),
    )


class _AlterClientQuotas(Request[_Struct]):
    API_KEY: ClassVar[int] = 49

    def __init__(self, bytes_per_s: int | None) -> None:
        self._bytes_per_s = bytes_per_s

    def build(self, request_struct_class: type[_Struct]) -> _Struct:
        ops = [(rate, float(self._bytes_per_s or 0), self._bytes_per_s is None) for rate in RATES]
        # No name: the default of every client id.
        return request_struct_class([([("client-id", None)], ops)], False)


def set_quota(bootstrap_servers: str, bytes_per_s: int | None) -> None:
    """Let each client send and read so many bytes a second at each broker; None ends it.
    BrokerError where it is refused.
    """
    asyncio.run(_set(bootstrap_servers, bytes_per_s))


async def _set(bootstrap_servers: str, bytes_per_s: int | None) -> None:
    client = AIOKafkaClient(bootstrap_servers=bootstrap_servers)
    await client.bootstrap()
    try:
        answer = await client.send(client.get_random_node(), _AlterClientQuotas(bytes_per_s))
    finally:
        await client.close()
    for code, message, _ in answer.entries:
        if code:
            raise BrokerError(f"the quota was not set: {code} {message}")
