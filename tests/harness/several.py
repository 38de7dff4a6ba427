"""Records with several events: a mapping of lists of events, and what a model makes of them."""

from copy import deepcopy
from operator import itemgetter

import msgspec

from worker.events import json_codec


class Lists:
    """A mapping of records that are an event of the contract, or a list of events."""

    needs_headers = False
    digest = ""

    def read_all(self, record):
        value = json_codec.parse(record.value)
        members = value if isinstance(value, list) else [value]
        return [json_codec.decode(msgspec.json.encode(member)) for member in members]

    def explain(self, record, rejected):
        return rejected


class OneStep:
    """Before a `Model`: the events of a record are one step of each of their entities, or none of
    them is applied.
    """

    _later = None  # of a record with several events: changes by entity, after all of its events

    def run(self, records):
        _, outcomes = super().run(records)
        out = {}
        for i, of_record in self.out.items():
            out[i] = sorted(of_record, key=itemgetter(0))
        return [message for i in sorted(out) for message in out[i]], outcomes

    def step(self, i, record):
        try:
            value = json_codec.parse(record.value)
        except Exception:
            return "dead_letter:bad_json"
        if not isinstance(value, list):
            value = [value]
        if not value:
            return "ignored:by_mapping"
        ended = {event["entity_id"] for event in value if event["type"] == "entity.deleted"}
        written = {event["entity_id"] for event in value if event["type"] != "entity.deleted"}
        if ended & written:
            return "dead_letter:bad_field"
        kept = deepcopy({n: v for n, v in vars(self).items() if n not in ("config", "embed")})
        self._later, outcomes = {}, []
        for event in value:
            key = event["entity_id"].encode()
            single = record._replace(key=key, value=msgspec.json.encode(event))
            outcomes.append(super().step(i, single))
            if outcomes[-1].startswith("dead_letter:"):
                vars(self).update(kept, _later=None)
                return outcomes[-1]
        later, self._later = self._later, None
        for (change, _), (arguments, deleted) in later.items():
            getattr(super(), change)(*arguments, deleted)
        return "applied" if "applied" in outcomes else outcomes[0]

    def changed(self, i, record, event, key, deleted=frozenset()):
        self._put_off("changed", (i, record, event, key), deleted)

    def _facets_after(self, i, record, event, key, deleted):
        self._put_off("_facets_after", (i, record, event, key), deleted)

    def _put_off(self, change, arguments, deleted):
        _, before = self._later.get((change, arguments[-1]), ((), set()))
        self._later[change, arguments[-1]] = arguments, before | set(deleted)
