"""The OpenAPI 3.1 document of a worker's web server.

Bodies are the types that the worker answers with; routes, queries and statuses are listed here.
`tests/docs/test_openapi.py` compares them with the router and with answers.
"""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Annotated, Any, Final, NamedTuple

import yaml
from msgspec import UNSET, Meta, Struct, UnsetType

from docs.build.schemas import MESSAGES, PUBLISHED, Published, parts
from docs.build.tables import markdown
from worker import __version__
from worker.processing import ask
from worker.processing.entity_view import (
    MOST_SENTENCES,
    MOST_WORDS,
    SENTENCES,
    THRESHOLD,
    FacetsView,
    Overview,
    ShortView,
    SummaryView,
)
from worker.processing.trend import PERIODS, TrendView
from worker.settings import Settings
from worker.state.listing import LONGEST_LIKE, LONGEST_PAGE, ListedEntity
from worker.web.page.history import ChangeHistory
from worker.web.page.watchers import MOST_WATCHERS, SHOWN_CHARACTERS
from worker.web.server import PROBES

REFERENCE: Final = "#/components/schemas/{name}"
JSON: Final = "application/json"
STREAM: Final = "text/event-stream"
VIEWS: Final = (SummaryView, ShortView, FacetsView, Overview)


class Error(Struct, frozen=True):
    """An answer that is none."""

    error: Annotated[str, Meta(description="Why, in one sentence for people.")]


class Health(Struct, frozen=True):
    """The event loop runs."""

    healthy: Annotated[bool, Meta(extra_json_schema={"const": True})]
    waiting_for: Annotated[str, Meta(description="What hinders progress now.")] | None


class Readiness(Struct, frozen=True):
    """Whether the worker processes its partitions."""

    ready: bool
    reason: Annotated[str, Meta(description="Why not; while ready, its state.")]


class Status(Struct, frozen=True):
    """A worker's state."""

    version: str
    instance_id: Annotated[str, Meta(description="COVERSUMM_INSTANCE_ID")]
    group: Annotated[str, Meta(description="COVERSUMM_APP_ID")]
    member_id: Annotated[str, Meta(description="In the group; null before it has joined.")] | None
    epoch: Annotated[int, Meta(description="COVERSUMM_EPOCH")]
    native: Annotated[bool, Meta(description="Whether native code takes usual events.")]
    facets: Annotated[bool, Meta(description="Whether it has facets.")]
    input_topic: Annotated[str, Meta(description="COVERSUMM_INPUT_TOPIC")]
    embedder: Annotated[
        str, Meta(description="COVERSUMM_EMBEDDER; with `none` a question needs a vector.")
    ]
    reads: Annotated[
        list[str], Meta(description="Languages that the model reads; empty: not declared.")
    ]
    unread: (
        Annotated[str, Meta(description="Sentences in languages that the model does not read.")]
        | None
    )
    review_url: Annotated[str, Meta(description="COVERSUMM_REVIEW_URL")]
    url: Annotated[str, Meta(description="Under which other workers ask it.")]
    ready: bool
    reason: str
    waiting_for: Annotated[str, Meta(description="What hinders progress now.")] | None
    partition_count: Annotated[int, Meta(description="Of the input topic.")]
    lag: Annotated[
        dict[str, int | None],
        Meta(description="By own partition, the records to read; null if not known yet."),
    ]
    passed: Annotated[
        dict[str, tuple[int, int]],
        Meta(
            description="By own partition, the offset up to which all is in the summaries, and a "
            "later one: no record is between them."
        ),
    ]
    standbys: Annotated[list[int], Meta(description="Partitions of which it keeps a copy.")]
    others: Annotated[
        dict[str, list[int]], Meta(description="By URL, the partitions of other workers.")
    ]


class OwnEntities(Struct, frozen=True):
    """Some entities of one worker."""

    entities: list[ListedEntity]
    after: (
        Annotated[str, Meta(description="The next page starts after it; null at the end.")] | None
    )
    searched: Annotated[int, Meta(description="Entities looked at, shown or not.")]
    partitions: Annotated[list[int], Meta(description="Those of this worker, all searched.")]
    others: Annotated[
        dict[str, list[int]],
        Meta(description="By URL, the partitions of other workers, which were not searched."),
    ]


class Unreachable(Struct, frozen=True):
    """A worker that did not answer."""

    url: str
    partitions: list[int]
    why: str


class AllEntities(Struct, frozen=True):
    """Some entities of all workers."""

    entities: list[ListedEntity]
    after: (
        Annotated[str, Meta(description="The next page starts after it; null at the end.")] | None
    )
    searched: Annotated[int, Meta(description="Entities looked at, shown or not.")]
    missing: Annotated[
        list[Unreachable], Meta(description="Workers whose entities are not among these.")
    ]


class ChangeInShort(Struct, frozen=True):
    """A change of any entity's facets, of its summary without facets. A deletion has the first two
    fields alone.
    """

    entity_id: str
    deleted: bool
    sequence: int | UnsetType = UNSET
    subject: (
        Annotated[
            str, Meta(description="The facet of `text`, else those that changed; may be empty.")
        ]
        | UnsetType
    ) = UNSET
    text: (
        Annotated[
            str,
            Meta(description=f"A sentence of the new review; {SHOWN_CHARACTERS} characters."),
        ]
        | UnsetType
        | None
    ) = UNSET
    review_count: int | UnsetType = UNSET
    sentence_count: int | UnsetType = UNSET


class ChangesInShort(Struct, frozen=True):
    """The last changes."""

    count: Annotated[
        int, Meta(description="All since the last event; 0 in the first, which has older ones.")
    ]
    changes: list[ChangeInShort]


class Nothing(Struct, frozen=True):
    """No fields."""


_EXAMPLES: Final = {published.type: published.examples for published in PUBLISHED}
_MESSAGE: Final = {message.name: message for message in MESSAGES}
BODIES: Final = (
    *VIEWS,
    ask.Answer,
    TrendView,
    Error,
    Health,
    Readiness,
    Status,
    OwnEntities,
    AllEntities,
    ChangeHistory,
    ChangesInShort,
    Nothing,
)


class Query(NamedTuple):
    """A parameter in the query."""

    schema: dict[str, Any]
    description: str


class Answer(NamedTuple):
    """An answer of one status."""

    description: str
    types: tuple[type[Any], ...] = ()
    """Bodies in JSON; none: the body is text, or there is none."""
    media: str = JSON
    events: dict[str, tuple[str, ...]] | None = None
    """Of a stream, by name of an event the components that its data may have."""


class Address(NamedTuple):
    """A path, what it answers, and what its query may say."""

    path: str
    tag: str
    summary: str
    answers: dict[int, Answer]
    query: tuple[str, ...] = ()


QUERIES: Final = {
    "prefix": Query({"type": "string"}, "Entities whose id begins with it."),
    "contains": Query({"type": "string"}, "Entities whose id contains it."),
    "after": Query({"type": "string"}, "Continue after this id: `after` of the last page."),
    "order": Query(
        {"enum": ["id", "reviews"], "default": "id"},
        "`id`: by length, then bytes. `reviews`: a page has those with the most reviews among all "
        "that it searched. The next one searches further: show the greatest of all pages.",
    ),
    "near": Query(
        {"type": "string", "maxLength": LONGEST_LIKE},
        "Instead of `order`: ids that are most like this one come first, among those searched.",
    ),
    "limit": Query(
        {"type": "integer", "minimum": 1, "maximum": LONGEST_PAGE, "default": 100},
        "Entities of a page. A page may have fewer and still not be the last.",
    ),
    "id": Query(
        {"type": "string"},
        "The entity id, if the path has none. For the ids `.` and `..`, which clients remove from "
        "paths: `/entities//summary?id=..`",
    ),
    "view": Query(
        {"enum": ["set", "short", "facets", "overview"]},
        "`set`: the summary. `short`: without what says nearly the same. `facets`: each facet. "
        "`overview`: the facets in turn. The default is that of the path, `set` or `facets`.",
    ),
    "sentences": Query(
        {"type": "integer", "minimum": 1, "maximum": MOST_SENTENCES},
        f"Of `short` and `overview`: at most so many sentences. Default: {SENTENCES}, or as many "
        f"as `words` allows. Of an answer: at most {ask.MOST_SENTENCES}; default: "
        f"{ask.Question('').sentences}.",
    ),
    "words": Query(
        {"type": "integer", "minimum": 1, "maximum": MOST_WORDS},
        "Of `short` and `overview`: at most so many words in all. Default: any number.",
    ),
    "threshold": Query(
        {"type": "number", "minimum": 0, "exclusiveMaximum": 1, "default": THRESHOLD},
        "Of `short` and `overview`: a sentence with a higher cosine to an earlier one is left out.",
    ),
    "language": Query(
        {"type": "string"},
        "Of `facets` and `overview`: the facets of this language, if they have languages. Of an "
        "answer: only reviews in this language.",
    ),
    "q": Query({"type": "string", "maxLength": ask.LONGEST_QUESTION}, "The question."),
    "vector": Query(
        {"type": "string"},
        "The embedding of the question, base64 of float32, little-endian; with "
        "COVERSUMM_EMBEDDER=none instead of `q`.",
    ),
    "rating_min": Query({"type": "number"}, "Of an answer: only reviews rated so high."),
    "rating_max": Query({"type": "number"}, "Of an answer: only reviews rated so low."),
    "country": Query({"type": "string"}, "Of an answer: only reviews from this country."),
    "verified": Query({"type": "boolean"}, "Of an answer: only verified reviews, or others."),
    "since": Query({"type": "string"}, "Of an answer: only reviews from this date on."),
    "until": Query({"type": "string"}, "Of an answer: only reviews before this date."),
    "by": Query({"enum": [*PERIODS], "default": "month"}, "Of a trend: its periods."),
    "before": Query(
        {"type": "integer", "minimum": 0},
        "Changes at lower offsets: `before` of the last answer.",
    ),
    "facets": Query({"enum": ["1"]}, "Changes of the entity's facets instead of its summary."),
    "here": Query({"type": "string"}, "Set by workers that relay a request: relay it no further."),
}
_LIST: Final = ("prefix", "contains", "after", "order", "near", "limit")
_VIEW: Final = ("id", "view", "sentences", "words", "threshold", "language", "here")
_ASK: Final = ("id", "q", "vector", "sentences", "rating_min", "rating_max", "language", "country")
_WRONG: Final = Answer("The query or the id is wrong.", (Error,))
_UNKNOWN: Final = Answer("There is no such entity.", (Error,))
_AWAY: Final = Answer(
    "The worker is not ready or busy, no known worker has the entity, or it is not yet there, "
    "because its partition is behind. Ask again after the seconds of `Retry-After`.",
    (Error,),
)
_VIEWED: Final = {200: Answer("The view as of the last commit.", VIEWS), 400: _WRONG, 404: _UNKNOWN}
_HELLO: Final = {"hello": ("Nothing",), "skipped": ("Nothing",)}
_FULL: Final = Answer(f"{MOST_WATCHERS} streams are open, or no known worker answers.", (Error,))

ADDRESSES: Final = (
    Address(
        "/",
        "page",
        "The page; without it (COVERSUMM_WEB_PAGE) a list of addresses.",
        {200: Answer("The page, or the list.", media="text/html, text/plain")},
    ),
    Address(
        "/healthz",
        "probes",
        "Whether the event loop runs: for a liveness probe.",
        {200: Answer("It does.", (Health,))},
    ),
    Address(
        "/readyz",
        "probes",
        "Whether the worker processes its partitions: for a readiness probe.",
        {
            200: Answer("It does.", (Readiness,)),
            503: Answer("It does not; `reason` says why.", (Readiness,)),
        },
    ),
    Address(
        "/metrics",
        "probes",
        "Metrics for Prometheus.",
        {200: Answer("All metrics as text.", media="text/plain")},
    ),
    Address(
        "/status",
        "probes",
        "Identity, readiness and partitions of the worker, and the owners of the others.",
        {200: Answer("Whether it is ready or not.", (Status,))},
    ),
    Address(
        "/entities",
        "summaries",
        "Entities of this worker.",
        {200: Answer("A page of them.", (OwnEntities,)), 400: _WRONG, 503: _AWAY},
        _LIST,
    ),
    *(
        Address(
            f"/entities/{{id}}/{name}",
            "summaries",
            f"{what} of an entity, from the worker that has it.",
            {**_VIEWED, 503: _AWAY},
            _VIEW,
        )
        for name, what in (("summary", "The summary"), ("facets", "The facets"))
    ),
    Address(
        "/entities/{id}/ask",
        "summaries",
        "The sentences of an entity that [answer a question](../ask.md).",
        {
            200: Answer(
                "As of the last commit; `answered` is false if nobody says so.", (ask.Answer,)
            ),
            400: _WRONG,
            404: _UNKNOWN,
            429: Answer("Too many questions wait, or were asked in the last second.", (Error,)),
            503: _AWAY,
        },
        (*_ASK, "verified", "since", "until", "here"),
    ),
    Address(
        "/entities/{id}/trend",
        "summaries",
        "How many reviews [mention each facet](../ask.md#trends) over time.",
        {
            200: Answer("As of the last commit.", (TrendView,)),
            400: _WRONG,
            404: _UNKNOWN,
            503: _AWAY,
        },
        ("id", "by", "here"),
    ),
    Address(
        "/page/{file}",
        "page",
        "The page's own scripts, styles and pictures.",
        {200: Answer("The file.", media="text/javascript, text/css, image/svg+xml")},
    ),
    Address(
        "/widget.js",
        "page",
        "The [widget](../page.md#the-widget): a script for pages of other sites.",
        {200: Answer("The script.", media="text/javascript")},
    ),
    Address("/page/status", "page", "As `/status`.", {200: Answer("Ready or not.", (Status,))}),
    Address(
        "/page/entities",
        "page",
        "As `/entities`, of all workers: this one asks the others.",
        {200: Answer("A page of them.", (AllEntities,)), 400: _WRONG, 503: _AWAY},
        _LIST,
    ),
    Address(
        "/page/entities/{id}/history",
        "page",
        "The last changes of an entity, from the topic.",
        {200: Answer("The changes, the newest last.", (ChangeHistory,)), 400: _WRONG, 503: _AWAY},
        ("id", "before", "facets"),
    ),
    Address(
        "/page/entities/{id}/changes",
        "page",
        "A stream of an entity's changes as they are published, from the worker that has it.",
        {
            200: Answer(
                "Server-sent events. `change` and `facets` have the body of the message, null "
                "after a deletion. `skipped`: changes were left out, because they came too fast.",
                media=STREAM,
                events=_HELLO
                | {"change": ("SummaryChanged", "null"), "facets": ("FacetsChanged", "null")},
            ),
            404: _UNKNOWN,
            503: _FULL,
        },
        ("id", "here"),
    ),
    Address(
        "/page/changes",
        "page",
        "A stream of the changes of facets at this worker, else of summaries, in short.",
        {
            200: Answer(
                "Server-sent events. `skipped`: events were left out.",
                media=STREAM,
                events=_HELLO | {"changes": ("ChangesInShort",)},
            ),
            503: _FULL,
        },
    ),
)


def addresses_table() -> str:
    """The addresses, each with what it answers and its parameters."""
    rows = (
        (
            f"`{address.path}`",
            address.summary,
            ", ".join(map(str, address.answers)),
            ", ".join(f"`{name}`" for name in address.query),
        )
        for address in ADDRESSES
    )
    return markdown(("address", "answers", "status", "query"), rows)


def parameters_table() -> str:
    """The parameters of queries."""
    return markdown(
        ("name", "meaning"), ((f"`{name}`", query.description) for name, query in QUERIES.items())
    )


def static_files() -> list[str]:
    """The page's files below `/page`."""
    static = files("worker.web.page").joinpath("static")
    return sorted(
        path.name for path in static.iterdir() if path.name not in ("page.html", "widget.js")
    )


def openapi_yaml() -> str:
    """The text of the document."""
    head = "# Generated from the code by `make docs`.\n"
    return head + yaml.safe_dump(document(), sort_keys=False, allow_unicode=True, width=100)


def document() -> dict[str, Any]:
    """The document. It refers to nothing outside of it."""
    made = {
        "openapi": "3.1.0",
        "info": {
            "title": "coversumm-worker",
            "version": __version__,
            "description": "The web server of a worker (COVERSUMM_WEB_PORT), read-only. Every "
            "address also answers HEAD. Other methods get 405, requests with a body 413, unknown "
            "hosts 421 (COVERSUMM_WEB_ALLOWED_HOSTS), those without the token of "
            "COVERSUMM_WEB_TOKEN 401, and those beyond COVERSUMM_WEB_RATE 429 with Retry-After. "
            "`/healthz`, `/readyz` and `/metrics` need no token, have no limit, and answer without "
            "COVERSUMM_WEB_PATH alone; a bridge has them too. Addresses below `/page` are those of "
            "the page and may change with it.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [
            {
                "url": "{scheme}://{host}{path}",
                "variables": {
                    "scheme": {
                        "enum": ["http", "https"],
                        "default": "http",
                        "description": "https with COVERSUMM_WEB_TLS_CERTIFICATE_LOCATION.",
                    },
                    "host": {
                        "default": f"localhost:{Settings().web_port}",
                        "description": "COVERSUMM_WEB_PORT, or the name of an Ingress.",
                    },
                    "path": {
                        "default": "",
                        "description": "COVERSUMM_WEB_PATH: empty, or a path like /reviews.",
                    },
                },
            }
        ],
        "security": [{}, {"token": []}],
        "tags": [
            {"name": "summaries", "description": "For other programs."},
            {"name": "probes", "description": "For orchestration and monitoring."},
            {"name": "page", "description": "For the page itself."},
        ],
        "paths": {address.path: {"get": _operation(address)} for address in ADDRESSES},
        "components": {
            "schemas": _schemas(),
            "parameters": {name: _parameter(name, query) for name, query in QUERIES.items()},
            "responses": {"Refused": _answer(Answer("Any other refusal.", (Error,)))},
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "COVERSUMM_WEB_TOKEN, if it is set.",
                }
            },
        },
    }
    return json.loads(json.dumps(made))  # type: ignore[no-any-return]  # without aliases in YAML


def _schemas() -> dict[str, Any]:
    schemas: dict[str, Any] = {}
    wanted = [Published(body.__name__, body, _EXAMPLES.get(body, [])) for body in BODIES]
    wanted += [_MESSAGE["summary.changed"], _MESSAGE["facets.changed"]]
    for published in wanted:
        body, components = parts(published, REFERENCE)
        del body["title"]
        if published.examples:
            body["examples"] = published.examples
        schemas |= {**components, published.type.__name__: body}
    change = schemas["PublishedChange"]
    change["required"] = list(change["properties"])  # those with a default are written too
    return dict(sorted(schemas.items()))


def _parameter(name: str, query: Query) -> dict[str, Any]:
    return {
        "name": name,
        "in": "query",
        "description": query.description,
        "schema": query.schema,
    }


def _operation(address: Address) -> dict[str, Any]:
    words = address.path.replace("{id}/", "").replace("{file}", "file").split("/")
    parameters = [{"$ref": f"#/components/parameters/{name}"} for name in address.query]
    if "{id}" in address.path:
        described = "The entity id, percent-encoded, `/` too."
        parameters.insert(0, _in_path("id", {"type": "string"}, described))
    if "{file}" in address.path:
        parameters.insert(0, _in_path("file", {"enum": static_files()}, "Its name."))
    answers = {str(status): _answer(answer) for status, answer in address.answers.items()}
    return {
        "operationId": "get" + ("".join(word.capitalize() for word in words) or "Index"),
        "tags": [address.tag],
        "summary": address.summary,
        **({"security": []} if address.path in PROBES else {}),
        **({"parameters": parameters} if parameters else {}),
        "responses": {**answers, "default": {"$ref": "#/components/responses/Refused"}},
    }


def _in_path(name: str, schema: dict[str, Any], description: str) -> dict[str, Any]:
    return {
        "name": name,
        "in": "path",
        "required": True,
        "description": description,
        "schema": schema,
    }


def _answer(answer: Answer) -> dict[str, Any]:
    refs = [_ref(kind.__name__) for kind in answer.types]
    schema = {"type": "string"} if not refs else refs[0] if len(refs) == 1 else {"anyOf": refs}
    content: dict[str, Any] = {"schema": schema}
    if answer.events is not None:
        content["x-events"] = {
            name: {"anyOf": [_ref(name) for name in names]} for name, names in answer.events.items()
        }
    return {
        "description": answer.description,
        "content": dict.fromkeys(answer.media.split(", "), content),
    }


def _ref(name: str) -> dict[str, Any]:
    return {"type": "null"} if name == "null" else {"$ref": REFERENCE.format(name=name)}
