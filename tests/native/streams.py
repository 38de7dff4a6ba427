"""Random histories as producers and accidents write them, most of them usual."""

import json
import math
from random import Random

from tests.harness.drive import TIME_MS, base64_vector, record
from worker.events import Record

ENTITIES = ["a", "b", "é😀\0"]
REVIEWS = ["r", "r#0", "\0", "x" * 40, "é"]
TEXTS = [
    "good",
    "bad",
    "okay",
    " ",
    "",
    "\x1c",
    'fine "thing"\n',
    "x" * 40,
    "日本語 😀",
    "a\u2028b",
    "The room was quiet, clean and near the old harbour.",
    "But the room was quiet, clean and near the old harbour.",
    "Die Küche war sauber, das Bad leider klein und kalt.",
    "[h1]The old lamps of the room hummed all night",
    "good good good rooms, said the bloody clean maid",
    "The room was quiet, said the manager, Sarah, near the old harbour.",
]
VECTORS = [[1, 0, 0], [0, 1, 0], [1, 1, 0], [1, 1, 1], [-1, 0.5, 0], [3, 0, 0], [0.3, -0.2, 0.9]]
DATES = ["2026-11-20T12:00:00Z", "2026-11-21t00:00:00.25+01:00", "0000-02-29T23:59:60z"]
NEAR_DATES = [
    "2026-11-20T13:00:00+01:00",
    "2026-11-20T12:00:00.50Z",
    "2026-11-20T12:00:00.5000-00:00",
    "2026-11-19T12:00:00.499Z",
    "2026-11-19T12:00:00.5Z",
    "2026-11-17T23:59:60-12:30",
    "2026-11-18T12:29:59Z",  # the same
    "2026-11-19T23:00:00.25Z",  # a day before the newest one
    "2026-11-18T23:00:00.25Z",
    "2024-02-29T00:00:00Z",
    "1969-12-31T23:59:59.9Z",
    "2027-01-01T00:00:00Z",
    "2099-12-31T23:59:59.999999Z",
    "2100-01-01T00:00:00.0009Z",
    "2100-01-01T00:00:00.001Z",
    "9999-12-31T23:59:60Z",
    None,
]
FIELDS = {
    "review_version": [None, 0, 1, 2, 3, 10**17],
    "rating": [None, 0, 1, 4.5, 4.5, 10, 5.0],
    "occurred_at": [None, *DATES],
    "language": [None, "en", "ger", "日本語", "", "x" * 35, "x" * 36],
    "verified": [None, False, True],
    "country": [None, "NL", "", "é" * 24, "é" * 25],
    "author_id": [None, "u-1", "", "\0" * 21, "\0" * 22, '"' * 64, '"' * 65],
    "embedding_model": [None, "fake"],
    "text": [None, "All of it."],
    "unknown": [None, [1, {"a": [True]}], "😀 \\", 1.5e-3],
}
ODD_FIELDS = {
    "rating": [0.1, -1, 11, 1e2, "4", -0.0, 1e400, True, 5.000000001],
    "occurred_at": ["2026-02-30T00:00:00Z", "2026-11-20", "2026-11-20T12:00:00+0100", 5, ""],
    "embedding_model": ["other"],
    "review_version": [-1, 1.0, 2**63, 2**63 - 1],
    "review_id": ["", "i" * 256, "i" * 257, "é\ud800"],
    "sentences": [None],
    "reason": ["\ud800"],
    "verified": [1],
    "language": [7],
    "entity_id": ["else", 5],
}


LABELS = ["price", "view", "odd", 'é "x"\n', "none"]


PIECES = ["good", "GOOD", "fine", "Thing", "room", "was", "ba", "the", "x", "o", "9", "a" * 41]
PIECES += [" ", " ", " ", "  ", "_", "'", "-", "\n", "\x1f", ". ", "’", "é", "日"]


def _labelled(random: Random, item):
    if random.random() < 0.5 and item["text"].strip():
        item["text"] = "".join(random.choices(PIECES, k=random.randint(1, 9))) + "."
    if random.random() < 0.5:
        item["labels"] = random.choice([None, [], random.choices(LABELS, k=random.randint(1, 3))])
    return item


def _sentence(random: Random, oddness: float, dimension: int):
    text = random.choice(TEXTS)
    if random.random() < oddness:
        return random.choice(
            [
                text,
                {"text": text},
                {"text": text, "embedding": [1, 2, 3]},
                {"text": text, "embedding": base64_vector([1, 2])},
                {"text": text, "embedding": base64_vector([0, 0, 0])},
                {"text": text, "embedding": base64_vector([1, 0, float("nan")])},
                {"text": text, "embedding": "AACAPwAAAAAAAAA"},
                {"text": "\ud800", "embedding": base64_vector([1, 0, 0])},
                {"text": "back\\slash\x00\uffff", "embedding": base64_vector([1e38, 0, 1e-45])},
                {"text": "x" * 3000, "embedding": base64_vector([1, 0, 0])},
                {"text": text, "embedding": base64_vector([1, 0, 0]), "labels": ["price"]},
                {"text": text, "embedding": base64_vector([1, 0, 0]), "labels": ["price", 1]},
                {"text": text, "embedding": base64_vector([1, 0, 0]), "labels": "price"},
            ]
        )
    drawn = [random.gauss(0, 1) for _ in range(dimension)]
    vector = random.choice(VECTORS) if dimension == 3 and random.random() < 0.7 else drawn
    return {"text": text, "embedding": base64_vector(vector)}


def _body(random: Random, oddness: float, dimension: int):
    kind = random.random()
    review_id = random.choice(REVIEWS)
    if kind < 0.75:
        body = {"type": "review.upserted", "review_id": review_id}
        count = 35 if random.random() < 0.03 else random.choice([0, 1, 1, 2, 2, 3, 5])
        body["sentences"] = [_sentence(random, oddness, dimension) for _ in range(count)]
        fields = random.sample(list(FIELDS), random.randint(0, 4))
        body |= {name: random.choice(FIELDS[name]) for name in fields}
        if random.random() < oddness:
            name = random.choice(list(ODD_FIELDS))
            body[name] = random.choice(ODD_FIELDS[name])
        return body
    if kind < 0.86:
        body = {"type": "review.deleted", "review_id": review_id}
        if random.random() < 0.6:
            body["review_version"] = random.choice([None, 0, 1, 2, 3])
        if random.random() < 0.3:
            body["occurred_at"] = random.choice(DATES)
        return body
    if kind < 1 - oddness / 2:
        ids = [
            f"{random.choice(REVIEWS)}#{random.choice([0, 0, 1, 2, '00', '', 10**30])}"
            for _ in range(random.randint(0, 4))
        ]
        return {"type": "sentences.deleted", "sentence_ids": [*ids, "r"][: random.randint(0, 5)]}
    return {"type": random.choice(["entity.deleted", "review.changed"])}


def records(
    random: Random, count: int, oddness: float, entities=ENTITIES, dimension=3, has_labels=False
):
    """So many records of two partitions; `oddness`: how often a part is not usual."""
    offsets = [0, 0]
    for _ in range(count):
        entity_id = random.choice(entities)
        partition = entities.index(entity_id) % 2
        body = {"entity_id": entity_id, **_body(random, oddness, dimension)}
        if has_labels:
            if random.random() < 0.5 and body["type"] == "review.upserted":
                body["occurred_at"] = random.choice(NEAR_DATES)
            items = body.get("sentences") or []
            body["sentences"] = [
                _labelled(random, item) if isinstance(item, dict) else item for item in items
            ]
        members = list(body.items())
        if random.random() < 0.3:
            random.shuffle(members)
        value = json.dumps(
            dict(members),
            ensure_ascii=random.random() < 0.5,
            indent=random.choice([None, None, 1]),
            separators=random.choice([None, (",", ":")]),
        ).encode("utf-8", "surrogatepass")
        if random.random() < 0.2:
            value = value.replace(b"/", rb"\/")  # as PHP writes it
        if random.random() < oddness / 3:
            value = random.choice([None, b"{", value[:-1], value + b" ", value + b"x", b""])
        # among them a day before one of the dates, and a millisecond less
        timestamp = random.choice([TIME_MS, 1_795_089_600_500, 1_795_089_600_499, -1, 0, 2**60])
        key = entity_id.encode()
        yield Record("reviews", partition, offsets[partition], timestamp, key, value)
        offsets[partition] += 1


def _turned(random: Random, angle: float, dimension: int, seen: list):
    """A sentence with a vector around a direction of this angle, a copy of one, or one of few."""
    chance = random.random()
    if seen and chance < 0.15:
        vector = random.choice(seen)
    elif chance < 0.4:
        vector = [random.choice([-1, 0, 0, 1, 2]) for _ in range(dimension - 1)] + [1]
    else:
        vector = [random.gauss(0, 1) for _ in range(dimension)]
        vector[0] += 2 * math.cos(angle)
        vector[1] += 2 * math.sin(angle)
    seen.append(vector)
    return {"text": random.choice(TEXTS[:3]), "embedding": base64_vector(vector)}


def _event(random: Random, live: dict, kind: float, sentences: list):
    """An event of a growing entity below 0.9, else of a shrinking one; `live` has the numbers of
    sentences of its reviews.
    """
    name = f"r{len(sentences)}-{random.randrange(10**6)}"
    if live and kind >= 0.7:
        name = random.choice([*live])
    if kind < 0.8 or not live:
        live[name] = len(sentences)
        body = {"type": "review.upserted", "review_id": name, "sentences": sentences}
        return body | {"rating": random.choice([None, 1, 4.5])}
    if kind < 0.9:
        ordinals = random.sample(range(live[name]), min(2, live[name]))
        ids = [f"{name}#{ordinal}" for ordinal in ordinals]
        return {"type": "sentences.deleted", "sentence_ids": ids}
    del live[name]
    return {"type": "review.deleted", "review_id": name}


def waves(random: Random, most: int, dimension: int = 3, has_labels: bool = False):
    """Micro-batches of one entity, whose centroid turns. It grows to more than `most` sentences,
    shrinks to fewer than 100, and grows to a quarter of `most` again.
    """
    live, seen, offset = {}, [], 0
    largest = min(160, 1 + most // 60)  # sentences of a review
    for bound, is_growth in ((most, True), (100, False), (most // 4, True)):
        while (sum(live.values()) <= bound) == is_growth:
            batch = []
            for _ in range(random.choice([1, 3, 20])):
                count = random.randint(1, largest)
                items = [_turned(random, offset / 99, dimension, seen) for _ in range(count)]
                if has_labels:
                    items = [_labelled(random, item) for item in items]
                kind = random.random() if is_growth else random.uniform(0.65, 1.3)
                body = _event(random, live, kind, items)
                if has_labels and "sentences" in body:
                    body["occurred_at"] = random.choice(NEAR_DATES)
                batch.append(record(offset, "e", body))
                offset += 1
            yield batch
