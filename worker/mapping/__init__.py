"""A mapping: the records of a topic with its own fields become events of the contract.

TOML file -> checked rules, with lines in errors         `file`, `expressions`
Python file -> one rule that calls its function          `function`
a field -> a closure over a decoded record               `paths`, `values`, `numbers`
rule -> the events of a decoded record                   `rules`
record, key, headers, CloudEvent -> bodies               `topic`
bodies -> messages that a bridge writes                  `contract`
"""

from worker.mapping.file import load_mapping
from worker.mapping.topic import TopicMapping

__all__ = ["TopicMapping", "load_mapping"]
