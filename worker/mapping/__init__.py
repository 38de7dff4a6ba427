"""A mapping: the records of a topic with its own fields become events of the contract.

TOML file -> checked rules, with lines in errors         `file`, `worker.toml_lines`
rule -> closures over a decoded record                   `paths`, `values`
record, key, headers, CloudEvent -> body                 `rules`
"""

from worker.mapping.file import load_mapping
from worker.mapping.rules import TopicMapping

__all__ = ["TopicMapping", "load_mapping"]
