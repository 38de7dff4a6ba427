"""The contract, straight on: one event at a time, no cache, no rows, everything recomputed by the
core's oracle.

Written against the contract alone, to hold the processor to it byte for byte. It knows the few
kinds of bad input that the tests send, and nothing of limits.
"""

import base64
import json
import uuid
from dataclasses import dataclass, field
from fractions import Fraction

import msgspec
import numpy as np

from tests.harness.oracle import brute_force
from worker.coversumm import quantize
from worker.text.splitting import split_sentences


@dataclass
class Review:
    version: int
    live: bool
    rating: float | None = None
    sentences: dict[bytes, tuple[str, np.ndarray]] = field(default_factory=dict)
    details: dict[str, object] = field(default_factory=dict)  # but the rating, where known


def ratings(of):
    """What a body says of these ratings, None for a review without one."""
    rated = [Fraction(rating) for rating in of if rating is not None]
    found = {"count": len(rated), "mean": float(sum(rated) / len(rated)) if rated else None}
    if all(0 <= rating <= 10 and (2 * rating).denominator == 1 for rating in rated):
        found["histogram"] = {
            f"{float(rating):g}": rated.count(rating) for rating in sorted(set(rated))
        }
    return found


@dataclass
class Entity:
    reviews: dict[str, Review] = field(default_factory=dict)
    published: list[tuple[bytes, str]] = field(default_factory=list)
    sequence: int | None = None

    def live(self):
        """{sentence id: (text, vector, review id, rating, details)}"""
        return {
            sid: (text, vector, rid, review.rating, review.details)
            for rid, review in self.reviews.items()
            for sid, (text, vector) in review.sentences.items()
        }


class Model:
    rank = staticmethod(brute_force)

    def __init__(self, config, embed):
        self.config = config
        self.embed = embed
        self.entities: dict[tuple[int, str], Entity] = {}
        self.next_offset: dict[int, int] = {}

    def run(self, records):
        """A micro-batch: ([(key, value, ce_id) or (key, reason) of dead letters], outcomes)."""
        self.out = {}
        self.before: dict[tuple[int, str], list] = {}
        self.last = {}
        # published sentences taken down in this micro-batch
        self.deleted: dict[tuple[int, str], set] = {}
        outcomes = []
        for i, record in enumerate(records):
            if record.offset < self.next_offset.get(record.partition, 0):
                outcomes.append("ignored:already_applied")
                continue
            self.next_offset[record.partition] = record.offset + 1
            outcome = self.step(i, record)
            if outcome.startswith("dead_letter:"):
                self.emit(i, (record.key, record.value, outcome.removeprefix("dead_letter:")))
            outcomes.append(outcome)
        self.end_of_batch()
        return [message for i in sorted(self.out) for message in self.out[i]], outcomes

    def end_of_batch(self):
        for key in list(self.last):
            self.flush(key)
        self.deleted.clear()

    def emit(self, i, message):
        self.out.setdefault(i, []).append(message)

    # -- one event

    def step(self, i, record):
        event = {"type": "entity.deleted", "entity_id": record.key.decode()}
        if record.value is not None:
            try:
                event = json.loads(record.value)
            except ValueError:
                return "dead_letter:bad_json"
        if event["entity_id"].encode() != record.key:
            return "dead_letter:key_mismatch"
        handle = getattr(self, event["type"].replace(".", "_"))
        return handle(i, record, event) or "applied"

    def language(self, event):
        """By which texts are split; None without facets of languages."""
        return None

    def review_upserted(self, i, record, event):
        rid = event["review_id"]
        items = event.get("sentences")
        if items is None:
            items = split_sentences(event["text"] or "", 2000, self.language(event))
        sentences = {}
        for ordinal, item in enumerate(items):
            item = {"text": item} if isinstance(item, str) else item
            if not item["text"].strip():
                continue
            vector = item.get("embedding")
            if isinstance(vector, str):
                vector = np.frombuffer(base64.b64decode(vector), "<f4").tolist()
            if vector is None:
                vector = self.embed(item["text"])
            elif len(vector) != self.config.limits.dimension:
                return "dead_letter:wrong_dimension"
            elif not any(vector):
                return "dead_letter:bad_vector"
            x = None if vector is None else quantize(np.array([vector], dtype=np.float64))[0]
            sentences[f"{rid}#{ordinal}".encode()] = (item["text"], x)
        key = (record.partition, event["entity_id"])
        entity = self.entities.get(key)
        old = entity.reviews.get(rid) if entity else None
        version = self.version(event, old)
        if old is not None and version <= old.version:
            return "ignored:not_newer"  # nothing is embedded then
        if any(x is None for _, x in sentences.values()):
            return "dead_letter:bad_vector"
        entity = self.entities.setdefault(key, Entity())
        details = {
            name: event[name]
            for name in ("occurred_at", "language", "verified", "country", "author_id")
            if event.get(name) not in (None, "")
        }
        if len(details.get("language", "")) > 35:
            del details["language"]
        for name, most in (("country", 48), ("author_id", 128)):
            if name in details and len(msgspec.json.encode(details[name])) > most + 2:
                del details[name]
        entity.reviews[rid] = Review(version, True, event.get("rating"), sentences, details)
        self.changed(i, record, event, key)

    def review_deleted(self, i, record, event):
        key = (record.partition, event["entity_id"])
        entity = self.entities.get(key)
        old = entity.reviews.get(event["review_id"]) if entity else None
        version = self.version(event, old)
        if old is not None and not (version > old.version or (version == old.version and old.live)):
            return "ignored:not_newer"
        entity = self.entities.setdefault(key, Entity())
        entity.reviews[event["review_id"]] = Review(version, False)
        rid = event["review_id"].encode()
        published = self.entities[key].published
        self.changed(
            i, record, event, key, {sid for sid, _ in published if sid.rpartition(b"#")[0] == rid}
        )

    def sentences_deleted(self, i, record, event):
        key = (record.partition, event["entity_id"])
        if key not in self.entities:
            return "ignored:unknown_entity"
        hit = False
        for sid in event["sentence_ids"]:
            for review in self.entities[key].reviews.values():
                hit |= review.sentences.pop(sid.encode(), None) is not None
        if not hit:
            return "ignored:unknown_sentence"
        named = {sid.encode() for sid in event["sentence_ids"]}
        self.changed(
            i, record, event, key, {sid for sid, _ in self.entities[key].published if sid in named}
        )

    def entity_deleted(self, i, record, event):
        key = (record.partition, event["entity_id"])
        if key not in self.entities:
            return "ignored:unknown_entity"
        last = self.last.pop(key, None)
        entity = self.entities[key]
        if last is not None and not last[-1][0] and entity.published:
            self.publish(*last)
        entity.reviews.clear()
        if entity.published:
            self.publish(i, record, event, entity, self.summary(entity))
        name = f"coversumm:{key[1]}:{self.config.epoch}:{record.offset}:tombstone"
        self.emit(i, (record.key, None, str(uuid.uuid5(uuid.NAMESPACE_URL, name))))
        del self.entities[key]
        self.before.pop(key, None)
        self.deleted.pop(key, None)

    @staticmethod
    def version(event, old):
        if event.get("review_version") is not None:
            return event["review_version"]
        return old.version + 1 if old else 1

    # -- summaries

    def summary(self, entity):
        live = entity.live()
        reviews = [review for review in entity.reviews.values() if review.live]
        rated = ratings([review.rating for review in reviews])
        if not live:
            return [], [], len(reviews), 0, rated
        ranking = self.rank(
            {sid: sentence[1] for sid, sentence in live.items()},
            self.config.k,
            distinct=self.config.distinct,
            by_text=self.config.by_text,
        )
        sentences = self.sentences(live, ranking.ids, ranking.distances(), ranking.support)
        members = [(sid, live[sid][0]) for sid in ranking.ids]
        return members, sentences, len(reviews), len(live), rated

    def changed(self, i, record, event, key, deleted=frozenset()):
        """`deleted`: published sentences that the event, a deletion, takes down."""
        entity = self.entities[key]
        summary = self.summary(entity)
        if self.config.emit == "every":
            if self.is_due(summary[0], entity.published, deleted):
                self.publish(i, record, event, entity, summary)
            return
        before = self.before.get(key, entity.published)
        if set(summary[0]) != set(before) or (deleted and self.config.min_changes > 1):
            self.last[key] = (i, record, event, entity, summary)
        self.before[key] = summary[0]
        self.deleted.setdefault(key, set()).update(deleted)

    def flush(self, key):
        i, record, event, entity, summary = self.last.pop(key)
        if self.is_due(summary[0], entity.published, self.deleted.get(key, ())):
            self.publish(i, record, event, entity, summary)

    def is_due(self, members, published, deleted=()):
        """Whether enough sentences differ, something or nothing is there at last, or a deleted
        sentence is still published.
        """
        if any(sid in deleted for sid, _ in set(published) - set(members)):
            return True
        come, gone = set(members) - set(published), set(published) - set(members)
        if not members or not published:
            return bool(come or gone)
        return max(len(come), len(gone)) >= self.config.min_changes

    @staticmethod
    def cause(record, event):
        return {
            "type": event["type"],
            "topic": record.topic,
            "partition": record.partition,
            "offset": record.offset,
            "review_id": event.get("review_id"),
        }

    @staticmethod
    def sentences(live, ids, distances, support):
        """The sentences of a message, in rank order."""
        return [
            {
                "rank": rank,
                "sentence_id": sid.decode(),
                "review_id": live[sid][2],
                "text": live[sid][0],
                "rating": None if live[sid][3] is None else float(live[sid][3]),
                **live[sid][4],
                "distance": distance,
                "support": copies,
            }
            for rank, (sid, distance, copies) in enumerate(
                zip(ids, distances, support, strict=True)
            )
        ]

    def publish(self, i, record, event, entity, summary):
        members, sentences, reviews, count, rated = summary
        body = {
            "type": "summary.changed",
            "entity_id": event["entity_id"],
            "epoch": self.config.epoch,
            "sequence": record.offset,
            "previous_sequence": entity.sequence,
            "sentences": sentences,
            "added": [sid.decode() for sid, text in members if (sid, text) not in entity.published],
            "removed": [
                sid.decode() for sid, text in entity.published if (sid, text) not in members
            ],
            "review_count": reviews,
            "sentence_count": count,
            "k": self.config.k,
            "cause": self.cause(record, event),
            "occurred_at": event.get("occurred_at"),
            "embedding_model": self.config.limits.model,
            "algorithm": "coversumm/1",
            "ratings": rated,
        }
        entity.published, entity.sequence = members, record.offset
        name = f"coversumm:{event['entity_id']}:{self.config.epoch}:{record.offset}"
        ce_id = str(uuid.uuid5(uuid.NAMESPACE_URL, name))
        self.emit(i, (record.key, msgspec.json.encode(body), ce_id))
