"""Facets by the contract, straight on: `model.Model`, and after each event every facet by brute
force over its members.
"""

import json
import uuid
from datetime import UTC, datetime
from fractions import Fraction
from functools import cache, lru_cache

import msgspec

from tests.harness.model import Model, ratings
from tests.harness.words import can_be_quoted, naive, names_a_person, patterns_for
from worker.text.language import LanguageDetector, language_code


def signed_square_of_cosine(a, b):
    """Orders as the cosine of two vectors of integers, neither zero."""
    product, length, other = (
        sum(x * y for x, y in zip(*both, strict=True)) for both in ((a, b), (a, a), (b, b))
    )
    return Fraction(product * abs(product), length * other)


@cache
def detector(languages):
    """Making one takes a second."""
    return LanguageDetector(languages)


@lru_cache(2**16)
def detected(languages, text):
    """One of the languages, or `und`."""
    return detector(languages).language_of(text)


@lru_cache(2**18)
def has_word(pattern, text):
    """What `naive` says, which is slow."""
    return naive(pattern, text)


def has_phrases(facet):
    return bool(facet.phrases or facet.vectors)


def label(part):
    """The name of a published facet, with its language."""
    return f"{part['name']} ({part['language']})" if part.get("language") else part["name"]


def place(part):
    """Where a published facet stands: by mentions, where it has words, then by sentences."""
    mentions = part.get("mentions", {"review_count": 0})["review_count"]
    return -mentions, -part["sentence_count"], label(part)


def facet_conditions(facet):
    """All criteria of a facet but its phrases; of one that quotes words no other has the same."""
    return (
        facet.name if facet.quotes == "words" else None,
        *(facet.rating, facet.labels, facet.newest, facet.within_days, facet.language),
        *(facet.verified, facet.country, facet.author_id),
    )


@lru_cache(2**16)
def _instant(when):
    """Seconds since 1970, None without a date."""
    return None if when is None else datetime.fromisoformat(when).astimezone(UTC).timestamp()


def plausible(when, timestamp_ms):
    """The date; None if it is more than a day after its record, or in a year from 2100 on."""
    latest = datetime(2100, 1, 1, tzinfo=UTC)
    if timestamp_ms > 0:
        latest = min(latest, datetime.fromtimestamp(timestamp_ms / 1000 + 86_400, UTC))
    return when if when and _instant(when) <= latest.timestamp() else None


class FacetModel(Model):
    """A model that knows facets; `config.facets` has their vectors."""

    def __init__(self, config, embed):
        super().__init__(config, embed)
        self.facts = {}  # by partition, entity and review: date, labels by sentence, event
        self.sets = {}  # by partition and entity: sets last published, and their sequence
        self.current = {}  # sets after the last event
        self.mentioned, self.published_mentions = {}, {}  # by partition, entity and facet
        self.last_facets = {}  # coalesced: the last change
        self.gone = {}  # coalesced: published sentences taken down
        self._nearest = {}  # by the bytes of a vector
        self._ways = {}  # likewise
        facets = config.facets.definitions.facets
        self._languages = tuple(sorted({code for facet in facets for code in facet.language or ()}))

    # -- membership

    def members(self, key):
        """By set its sentences, as `Entity.live` has them."""
        entity = self.entities.get(key)
        live = {} if entity is None else entity.live()
        facets = self.config.facets.definitions.facets
        found = {key: {} for key in self._keys()}
        dated = [] if entity is None else [r for r, review in entity.reviews.items() if review.live]
        dated.sort(key=lambda r: self._recency(key, r))
        meeting = {}  # by review the facets whose criteria on reviews it meets
        for sid, sentence in live.items():
            _, vector, rid, rating, _ = sentence
            if rid not in meeting:
                meeting[rid] = {
                    number
                    for number, facet in enumerate(facets)
                    if self._review_meets(facet, key, rid, rating, dated)
                }
            for number, sign in found:
                facet = facets[number]
                if sign and self._side(vector, rating) != sign:
                    continue
                if number in meeting[rid] and (
                    (facet.labels is None or set(facet.labels) & self._labels(key, rid, sid))
                    and (facet.quotes == "phrases" or self._quotes(facet, key, rid, sentence[0]))
                    and (not has_phrases(facet) or self.nearest(vector, number) == number)
                ):
                    found[number, sign][sid] = sentence
        return found

    def mentions(self, key):
        """By visible facet with words the ratings of the reviews with one in a live sentence."""
        entity = self.entities.get(key)
        facets = self.config.facets.definitions.facets
        found = {n: {} for n, facet in enumerate(facets) if facet.words and not facet.hidden}
        dated = [] if entity is None else [r for r, review in entity.reviews.items() if review.live]
        dated.sort(key=lambda r: self._recency(key, r))
        texts = {}
        for text, _, rid, rating, _ in [] if entity is None else entity.live().values():
            texts.setdefault((rid, rating), []).append(text)
        for rid, rating in texts:
            for number, reviews in found.items():
                patterns = patterns_for(
                    facets[number].words, self._words_language(key, rid, facets[number])
                )
                if self._review_meets(facets[number], key, rid, rating, dated) and any(
                    has_word(pattern, text) for pattern in patterns for text in texts[rid, rating]
                ):
                    reviews[rid] = rating
        return found

    def _quotes(self, facet, key, rid, text):
        """The sentence has a word of the facet and can be quoted."""
        language = self._words_language(key, rid, facet)
        patterns = patterns_for(facet.words, language)
        if self.config.facets.definitions.hide_names and names_a_person(text):
            return False
        return can_be_quoted(text, language) and any(
            has_word(pattern, text) for pattern in patterns
        )

    def _words_language(self, key, rid, facet):
        """As it was found, if this facet depends on languages, else by the tag alone."""
        tag = self.entities[key].reviews[rid].details.get("language")
        return self.language(self.facts[(*key, rid)][2]) if facet.language else tag

    def _keys(self):
        """The published sets: each facet, then the pros (1) and cons (-1) of those with sides."""
        facets = [(n, facet) for n, facet in enumerate(self.config.facets.definitions.facets)]
        visible = [(n, facet) for n, facet in facets if not facet.hidden]
        sides = [(n, sign) for n, facet in visible if facet.sides for sign in (1, -1)]
        return [(n, 0) for n, _ in visible] + sides

    def _side(self, vector, rating):
        """1 for praise, -1 for a complaint: by the rating and by the means of the phrases."""
        polarity = self.config.facets.definitions.polarity
        if rating is None:
            return 0
        way = self._way(polarity, vector)
        margin = Fraction(repr(polarity.margin)) * 32767**2
        if rating > polarity.middle:
            return int(way > margin)
        return -int(way < -margin)

    def _way(self, polarity, vector):
        """The product of a sentence with the direction."""
        known = self._ways.get(vector.tobytes())
        if known is not None:
            return known
        good, bad = (len(vectors) for vectors in (polarity.good_vectors, polarity.bad_vectors))
        rows = self.config.facets.vectors[-good - bad :].tolist()
        way = Fraction(0)
        for at, x in enumerate(vector.tolist()):
            means = (
                Fraction(sum(row[at] for row in some), len(some))
                for some in (rows[:good], rows[good:])
            )
            way += x * (next(means) - next(means))
        self._ways[vector.tobytes()] = way
        return way

    def _labels(self, key, rid, sid):
        return set(self.facts[(*key, rid)][1].get(sid, ()))

    def _review_meets(self, facet, key, rid, rating, dated):
        event = self.facts[(*key, rid)][2]
        return (
            (facet.rating is None or (rating is not None and facet.rating.has(rating)))
            and (facet.newest is None or rid in dated[: facet.newest])
            and (facet.within_days is None or self._is_within(facet.within_days, key, rid, dated))
            and (facet.language is None or self.language(event) in facet.language)
            and (facet.verified is None or event.get("verified") is facet.verified)
            and (facet.country is None or event.get("country") in facet.country)
            and (facet.author_id is None or event.get("author_id") in facet.author_id)
        )

    def language(self, event):
        """By the tag, else by the text."""
        named = self._languages
        if not named:
            return None
        if found := language_code(event.get("language")):
            return found if found in named else "und"
        items = event.get("sentences") or ()
        texts = [item if isinstance(item, str) else item["text"] for item in items]
        return detected(named, event.get("text") or " ".join(texts))

    def _is_within(self, days, key, rid, dated):
        mine, newest = (_instant(self.facts[(*key, review)][0]) for review in (rid, dated[0]))
        return mine is not None and newest is not None and newest - mine <= days * 86_400

    def _recency(self, key, rid):
        seconds = _instant(self.facts[(*key, rid)][0])
        return seconds is None, -(seconds or 0), rid.encode()

    def nearest(self, vector, among):
        """The facet of the nearest phrase, by cosines in Python's own integers, of those with the
        same other criteria as this one.
        """
        known = self._nearest.get((vector.tobytes(), among), self)
        if known is not self:
            return known
        definitions = self.config.facets.definitions
        starts, at = [], 0
        for facet in definitions.defined:
            starts.append(at)
            at += len(facet.phrases or facet.vectors or ())
        best, sentence = None, vector.tolist()
        for number, facet in enumerate(definitions.facets):
            if facet_conditions(facet) != facet_conditions(definitions.facets[among]):
                continue
            for phrase in range(len(facet.phrases or facet.vectors or ())):
                row = self.config.facets.vectors[starts[definitions.origin[number]] + phrase]
                square = signed_square_of_cosine(sentence, row.tolist())
                if best is None or square > best[0]:
                    threshold = 0.4 if facet.threshold is None else facet.threshold
                    best = square, number, Fraction(repr(threshold)) ** 2
        found = best[1] if best is not None and best[0] >= best[2] else None
        self._nearest[vector.tobytes(), among] = found
        return found

    # -- events

    def step(self, i, record):
        event = None
        if record.value is None:
            name = (record.key or b"").decode(errors="replace")
            event = {"type": "entity.deleted", "entity_id": name}
        key = (record.partition, (record.key or b"").decode(errors="replace"))
        was = self.entities.get(key)
        shown = {sid for found in self._published(key).values() for sid, _ in found}
        outcome = super().step(i, record)
        if outcome != "applied":
            return outcome
        event = event or json.loads(record.value)
        if event["type"] == "review.upserted":
            labels = {}
            for ordinal, item in enumerate(event.get("sentences") or ()):
                if isinstance(item, dict):
                    labels[f"{event['review_id']}#{ordinal}".encode()] = item.get("labels") or ()
            when = plausible(event.get("occurred_at"), record.timestamp_ms)
            self.facts[(*key, event["review_id"])] = when, labels, event
        if event["type"] == "entity.deleted":
            assert was is not None
            self._deleted_entity(i, record, event, key)
            return outcome
        deleted = set()
        if event["type"] == "review.deleted":
            rid = event["review_id"].encode()
            deleted = {sid for sid in shown if sid.rpartition(b"#")[0] == rid}
        if event["type"] == "sentences.deleted":
            deleted = shown & {sid.encode() for sid in event["sentence_ids"]}
        self._facets_after(i, record, event, key, deleted)
        return outcome

    def _published(self, key):
        return self.sets.get(key, ({key: [] for key in self._keys()}, None))[0]

    def _facets_after(self, i, record, event, key, deleted):
        members = self.members(key)
        ranked = {n: self._rank(n, found) for n, found in members.items()}
        now = {
            n: [(sid, members[n][sid][0]) for sid in ranking[0]] for n, ranking in ranked.items()
        }
        mentions = {(n, 0): len(found) for n, found in self.mentions(key).items()}
        before = self.current.get(key, {n: [] for n in now})
        self.current[key] = now
        changed = any(set(now[n]) != set(before[n]) for n in now)
        if self.config.emit_mentions:
            changed |= any(
                count != self.mentioned.get((*key, n), 0) for n, count in mentions.items()
            )
        self.mentioned |= {(*key, n): count for n, count in mentions.items()}
        behind = self.config.min_changes > 1
        body = self._body(i, record, event, key, members, ranked, now)
        if self.config.emit == "every":
            if (changed or (deleted and behind)) and self._due(now, key, deleted):
                self._publish_facets(body, now)
            return
        if changed or (deleted and behind):
            self.last_facets[key] = body, now
        self.gone.setdefault(key, set()).update(deleted)

    def end_of_batch(self):
        super().end_of_batch()
        for key, (body, now) in self.last_facets.items():
            if self._due(now, key, self.gone.get(key, ())):
                self._publish_facets(body, now)
        self.last_facets.clear()
        self.gone.clear()

    def _deleted_entity(self, i, record, event, key):
        pending = self.last_facets.pop(key, None)
        if pending is not None and not any(pending[1].values()) and self._due(pending[1], key, ()):
            self._publish_facets(*pending)
        published = self._published(key)
        self.mentioned |= {(*key, n): 0 for n in published}
        if any(published.values()):
            members = {n: {} for n in published}
            ranked = {n: self._rank(n, {}) for n in published}
            body = self._body(i, record, event, key, members, ranked, {n: [] for n in published})
            self._publish_facets(body, {n: [] for n in published})
        name = f"coversumm:{key[1]}:{self.config.epoch}:{record.offset}:facets:tombstone"
        self.emit(i, (record.key, None, str(uuid.uuid5(uuid.NAMESPACE_URL, name))))
        for known in (self.sets, self.current, self.gone):
            known.pop(key, None)
        for n in published:
            self.mentioned.pop((*key, n), None)
            self.published_mentions.pop((*key, n), None)

    def _due(self, now, key, deleted):
        published = self._published(key)
        return any(self._mentions_due(key, n) for n in now) or any(
            set(now[n]) != set(published[n])
            if self.config.min_changes == 1
            else self.is_due(now[n], published[n], deleted)
            for n in now
        )

    def _mentions_due(self, key, number):
        was, now = (of.get((*key, number), 0) for of in (self.published_mentions, self.mentioned))
        percent = self.config.emit_mentions
        return percent > 0 and was != now and abs(now - was) >= Fraction(percent * was, 100)

    def _rank(self, number, found):
        if not found:
            return (), (), ()
        facet = self.config.facets.definitions.facets[number[0]]
        k = facet.k if number[1] == 0 or facet.sides is True else facet.sides
        vectors = {sid: sentence[1] for sid, sentence in found.items()}
        ranking = self.rank(vectors, k, distinct=self.config.distinct, by_text=self.config.by_text)
        return ranking.ids, ranking.distances(), ranking.support

    def parts(self, key, members, ranked):
        """The facets of a message, in its order."""
        facets, parts = self.config.facets.definitions.facets, []
        mentions = self.mentions(key)
        for (n, sign), found in members.items():
            if sign:
                continue
            reviews = {sentence[2]: sentence[3] for sentence in found.values()}
            part = {
                "name": facets[n].name,
                "k": facets[n].k,
                "sentence_count": len(found),
                "review_count": len(reviews),
                "ratings": ratings(reviews.values()),
                "sentences": self.sentences(found, *ranked[n, 0]),
            }
            if any(facet.language for facet in facets):
                languages = facets[n].language or ()
                part["language"] = languages[0] if len(languages) == 1 else None
            if n in mentions:
                found = mentions[n]
                part["mentions"] = {"review_count": len(found), "ratings": ratings(found.values())}
            if facets[n].sides:
                for name, side in (("pros", (n, 1)), ("cons", (n, -1))):
                    part[name] = self.sentences(members[side], *ranked[side])
            parts.append(part)
        return sorted(parts, key=place)

    def now(self, key):
        """All visible facets of an entity as they are now."""
        members = self.members(key)
        return self.parts(key, members, {n: self._rank(n, found) for n, found in members.items()})

    def _body(self, i, record, event, key, members, ranked, now):
        facets, published = self.config.facets.definitions.facets, self._published(key)
        entity = self.entities.get(key)
        reviews = [] if entity is None else [r for r in entity.reviews.values() if r.live]
        body = {
            "type": "facets.changed",
            "entity_id": key[1],
            "epoch": self.config.epoch,
            "sequence": record.offset,
            "previous_sequence": self.sets.get(key, (None, None))[1],
            "changed": list(
                dict.fromkeys(
                    facets[n[0]].name
                    for n in now
                    if set(now[n]) != set(published[n]) or self._mentions_due(key, n)
                )
            ),
            "review_count": len(reviews),
            "sentence_count": 0 if entity is None else len(entity.live()),
            "facets": self.parts(key, members, ranked),
            "cause": self.cause(record, event),
            "occurred_at": event.get("occurred_at"),
            "embedding_model": self.config.limits.model,
            "algorithm": "coversumm/1",
            "ratings": ratings([review.rating for review in reviews]),
        }
        return i, key, record, body

    def _publish_facets(self, drafted, now):
        i, key, record, body = drafted
        name = f"coversumm:{key[1]}:{self.config.epoch}:{record.offset}:facets"
        self.sets[key] = now, record.offset
        for n in now:
            self.published_mentions[*key, n] = self.mentioned.get((*key, n), 0)
        self.emit(
            i, (record.key, msgspec.json.encode(body), str(uuid.uuid5(uuid.NAMESPACE_URL, name)))
        )
