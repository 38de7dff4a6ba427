"""A broker with an authorizer, at which one user may do what it is allowed to; without a password
one may do anything.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from tests.harness.broker import KafkaBroker
from tests.harness.patience import PATIENCE_SECONDS

USER: Final = "worker"
PASSWORD: Final = "MARKER-password"


class Rule(NamedTuple):
    """One thing that the user may do."""

    kind: ResourceType
    name: str
    operation: AclOperation
    pattern: ResourcePatternType = ResourcePatternType.LITERAL

    @property
    def _parts(
        self,
    ) -> tuple[ResourceType, str, ResourcePatternType, str, str, AclOperation, AclPermissionType]:
        allow = AclPermissionType.ALLOW
        return self.kind, self.name, self.pattern, f"User:{USER}", "*", self.operation, allow


class AuthorizedBroker(KafkaBroker):
    """It starts with nothing allowed to the user, who comes in by SASL_PLAINTEXT."""

    def __init__(self, directory: Path) -> None:
        super().__init__(
            directory,
            {
                "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
                "super.users": "User:ANONYMOUS",
                "sasl.enabled.mechanisms": "PLAIN",
                "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
                    "org.apache.kafka.common.security.plain.PlainLoginModule required "
                    f'user_{USER}="{PASSWORD}";'
                ),
            },
            protocols=("SASL_PLAINTEXT",),
        )

    def allow(self, rules: Iterable[Rule]) -> None:
        """Let the user do this."""
        admin = self.admin()  # its futures fail once it is collected
        for future in admin.create_acls([AclBinding(*rule._parts) for rule in rules]).values():
            future.result(PATIENCE_SECONDS)

    def take_back(self, rules: Iterable[Rule]) -> None:
        """Do not let it do this any more."""
        admin = self.admin()
        for future in admin.delete_acls(
            [AclBindingFilter(*rule._parts) for rule in rules]
        ).values():
            future.result(PATIENCE_SECONDS)
