"""What a value of `--from`, `--to` or `compare` names: a file or a topic."""

from typing import Final

_ENDINGS: Final = (".jsonl", ".csv", ".tsv", ".parquet")


def names_file(value: str) -> bool:
    """Whether it is a file: it has a slash, or an ending that we read (also with .gz behind); everything else is a topic.

    >>> names_file("./reviews"), names_file("epoch-2.jsonl.gz"), names_file("marketplace.review-summaries.v1")
    (True, True, False)
    """
    return "/" in value or value.removesuffix(".gz").endswith(_ENDINGS)
