"""What entities and reviews are called where people read."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from worker.view.texts import one_line


@dataclass(frozen=True, slots=True)
class Names:
    """Names for ids; without any, ids are names."""

    entities: Mapping[str, str] = field(default_factory=dict)
    prefix: str = ""
    """Of ids, not worth showing."""

    def entity(self, entity_id: str) -> str:
        """In one line."""
        return one_line(self.entities.get(entity_id) or entity_id.removeprefix(self.prefix)) or repr(
            entity_id
        )

    def review(self, review_id: str) -> str:
        """In one line."""
        return one_line(review_id.removeprefix(self.prefix)) or repr(review_id)
