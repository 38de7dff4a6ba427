"""Sentences of real reviews."""

import gzip
import json
from pathlib import Path

from worker.text.splitting import split_sentences

ROOT = Path(__file__).parents[2]
REVIEWS = ROOT / "worker" / "demo" / "data" / "airbnb_albany.jsonl.gz"


def real_sentences(count: int) -> list[str]:
    """Distinct sentences of real reviews, and some of no or extreme length."""
    found: dict[str, None] = dict.fromkeys(
        ["", "!", "好的。", "word " * 600, "x" * 3000, "half \ud83d a pair"]
    )
    with gzip.open(REVIEWS, "rt", encoding="utf-8") as lines:
        for line in lines:
            found |= dict.fromkeys(split_sentences(json.loads(line)["text"], 2000))
            if len(found) >= count:
                break
    return list(found)[:count]
