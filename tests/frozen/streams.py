"""The streams of the corpus, and the hashes of what each publishes and stores."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator
from hashlib import sha256
from typing import NamedTuple

from tests.frozen.adapter import Part, Setup, run
from tests.frozen.events import Events, packed

STEPS = {"small": 400, "grown": 1100}


def _near(*vector: float) -> str:
    return base64.b64encode(packed([*vector, *[0.0] * (8 - len(vector))])).decode()


NEAR = {
    True: f"""
[[facet]]
name = "first"
vectors = ["{_near(1)}", "{_near(3, 0, 0.5)}"]
k = 2
[[facet]]
name = "taken"
vectors = ["{_near(1, 1, 1)}"]
threshold = 0.9
hidden = true
[[facet]]
name = "second"
vectors = ["{_near(0, 1)}"]
threshold = 0.2
""",
    False: """
[[facet]]
name = "room"
phrases = ["The room was clean.", "The bed was warm."]
k = 2
[[facet]]
name = "taken"
phrases = ["The street was noisy."]
threshold = 0.9
hidden = true
[[facet]]
name = "price"
phrases = ["The price was cheap."]
threshold = 0.6
""",
}
"""By whether events have vectors."""
RATINGS = """
[[facet]]
name = "critics"
rating = { max = 2.5 }
k = 2
[[facet]]
name = "fans"
rating = { min = 4, max = 5 }
"""
SIDED = {
    True: f"""
languages = ["en", "fr"]
polarity = {{ good_vectors = ["{_near(1, 1)}"], bad_vectors = ["{_near(0, -1, 1)}"], middle = 2.5 }}
""",
    False: """
languages = ["en", "fr"]
[polarity]
good = ["The room was clean.", "The bed was warm."]
bad = ["The street was noisy."]
margin = 0.05
""",
}
"""Before facets with sides, in two languages."""
CRITICS = """\
[[facet]]
name = "critics of cost"
rating = { max = 3 }
labels = ["price", "cost", "view"]
sides = true
"""
WITH_SIDES = f"""
[[facet]]
name = "of late"
within_days = 400
sides = true
k = 2
{CRITICS}[[facet]]
name = "checked"
verified = true
"""
LABELS = """
[[facet]]
name = "cost"
labels = ["price", "cost"]
[[facet]]
name = "any"
labels = ["price", "view", "odd"]
k = 1
"""
NEWEST = """
[[facet]]
name = "last"
newest = 1
k = 2
[[facet]]
name = "news"
newest = 6
"""
WORDS = """
[[facet]]
name = "cost"
labels = ["price", "cost"]
words = ["price*", "good value"]
[[facet]]
name = "fans"
rating = { min = 4, max = 5 }
words = { en = ["view", "room*"], fr = ["chambre*"] }
"""


USUAL_SIDES = f"""
[[facet]]
name = "checked"
verified = true
country = ["NL"]
words = ["clean", "the b*"]
k = 2
{CRITICS}"""


class Stream(NamedTuple):
    """A line of the table."""

    emit: str
    facets: str
    output: str
    distinct: str
    index: str
    given: str
    versions: str
    cuts: str
    shape: str
    authors: str = ""

    @property
    def name(self) -> str:
        """All columns that have a value."""
        return " ".join(self).rstrip()

    @property
    def parts(self) -> Iterator[Part]:
        """All that the stream publishes and stores."""
        yield from self.parts_of("off")

    @property
    def is_usual(self) -> bool:
        """Whether native code takes events of it."""
        is_known = self.output == "json" and (self.index, self.given) == ("flat", "base64")
        if self.facets == "plain":
            return is_known and self.emit in ("every", "coalesced", "none")
        return is_known and (self.emit, self.distinct) == ("every", "all")

    def parts_of(self, native: str) -> Iterator[Part]:
        """The same with this COVERSUMM_NATIVE."""
        has_vectors = self.given not in ("texts", "mapped")
        near = NEAR[has_vectors]
        facets = {
            "plain": "",
            "near": near,
            "ratings": RATINGS,
            "labels": LABELS,
            "newest": NEWEST,
            "words": WORDS,
            "mixed": NEWEST + near + RATINGS + LABELS,
            "sided": SIDED[has_vectors] + WITH_SIDES + near,
            "usual": SIDED[has_vectors] + near + LABELS + RATINGS + USUAL_SIDES,
        }
        setup = Setup(
            self.emit,
            facets[self.facets],
            self.output,
            self.distinct,
            self.index,
            self.given,
            self.cuts,
            k=5 if self.shape == "grown" else 3,
            is_small=self.shape == "small",
            native=native,
        )
        events = Events(
            self.name,
            vectors=has_vectors,
            versions=self.versions,
            grows=self.shape == "grown",
            authors=bool(self.authors),
        )
        yield from run(setup, list(events.draw(STEPS[self.shape])))

    def hashes(self) -> dict[str, str]:
        """Those of its parts."""
        return hashes_of(self.parts)


def hashes_of(parts: Iterable[Part]) -> dict[str, str]:
    """By kind of part, the hash of all parts of the kind in order."""
    found = {}
    for kind, _, raw in parts:
        digest = found.setdefault(kind, sha256())
        digest.update(len(raw).to_bytes(8, "big") + raw)
    return {kind: found[kind].hexdigest()[:16] for kind in sorted(found)}


VALUES = Stream(
    "every coalesced final none every:2 coalesced:3",
    "plain near ratings labels newest words mixed sided usual",
    "json json-row avro",
    "all distinct texts",
    "flat sgtree",
    "vectors base64 texts avro mapped",
    "present absent mixed",
    "one ten all limits",
    "small grown",
    "authors",
)
"""The values of each column."""
TABLE = """
every plain avro distinct flat vectors mixed all grown
every near json-row distinct sgtree base64 absent all small
every ratings json-row all sgtree texts absent limits small
every labels json all sgtree mapped present all grown
every newest avro all flat texts present all grown
every words json all flat texts mixed ten grown
every words avro all flat vectors mixed limits small authors
every mixed json distinct flat texts mixed one grown
every mixed json-row all sgtree avro mixed ten grown
coalesced plain avro all sgtree texts mixed limits small
coalesced near json distinct flat mapped absent one small
coalesced ratings json distinct flat base64 present ten grown
coalesced labels json-row distinct flat avro present one grown
coalesced newest avro all sgtree vectors mixed all small
coalesced mixed json-row all sgtree vectors present all small
final plain avro all sgtree avro present ten small
final near json-row all sgtree base64 mixed all grown
final ratings json all sgtree vectors absent one grown
final labels avro all flat base64 absent one small
final newest json distinct flat texts present limits small
final mixed avro distinct flat mapped present limits small
none plain json-row all flat base64 present one small
none near json distinct sgtree texts absent all grown
none ratings avro distinct sgtree avro mixed all small
none labels json distinct flat vectors mixed limits grown
none newest json all sgtree mapped mixed ten small
none mixed json-row all flat base64 absent one small
every:2 plain json all flat avro absent ten small
every:2 near avro distinct sgtree avro present limits grown
every:2 ratings json distinct flat mapped mixed one small
every:2 labels json-row all sgtree texts mixed ten small
every:2 newest avro all sgtree base64 absent all small
every:2 mixed avro all flat vectors present one grown
coalesced:3 plain json-row distinct flat mapped absent all grown
coalesced:3 near avro all flat vectors mixed ten small
coalesced:3 ratings json distinct sgtree avro mixed ten small
coalesced:3 labels json-row all sgtree texts present one small
coalesced:3 newest json-row distinct sgtree avro present one small
coalesced:3 mixed json all flat base64 absent limits grown
every mixed json distinct flat vectors mixed ten small authors
coalesced near json-row all sgtree texts present limits grown authors
final ratings avro all flat base64 mixed all grown authors
final newest json all sgtree texts absent limits small authors
every mixed json texts flat vectors mixed ten grown
coalesced near json-row texts sgtree texts present limits grown
final newest avro texts flat base64 absent all small
every plain json all flat base64 mixed ten small
every plain json all flat base64 present all grown authors
every plain json all flat base64 absent limits grown
every plain json all flat base64 mixed one small authors
coalesced plain json all flat base64 mixed ten grown
coalesced plain json all flat base64 absent all small authors
none plain json all flat base64 present limits grown
every plain json texts flat base64 mixed all grown
coalesced plain json texts flat base64 present ten small
coalesced plain json distinct flat base64 absent limits grown authors
every sided json all flat vectors mixed all grown authors
every sided json-row distinct sgtree texts present ten small authors
every:2 sided avro all flat base64 absent all small authors
coalesced sided avro all flat texts mixed limits grown authors
final sided json all sgtree vectors present one small authors
every near json all flat base64 mixed all grown
every labels json all flat base64 present ten small authors
every ratings json all flat base64 mixed one small
every words json all flat base64 absent limits small
every usual json all flat base64 mixed ten small authors
every usual json all flat base64 present all grown authors
every newest json all flat base64 absent ten small authors
every mixed json all flat base64 mixed all grown
every sided json all flat base64 mixed limits grown authors
"""
STREAMS = [Stream(*line.split()) for line in TABLE.strip().splitlines()]


def all_hashes() -> str:
    """The hashes of all streams as the file has them."""
    found = {stream.name: stream.hashes() for stream in STREAMS}
    return json.dumps(found, indent=1, ensure_ascii=False) + "\n"
