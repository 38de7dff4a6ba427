"""The settings: each is a field with its variable, kind, default and help.

`docs/reference/settings.md` is generated from here. No other module has defaults of its own.
"""

from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from worker.settings import kinds
from worker.text import embedders

PREFIX: Final = "COVERSUMM_"
DEFAULT_MODEL_DIMENSION: Final = 384
MAX_MESSAGE_BYTES: Final = 2**30  # also of commands that send no messages
MAX_BATCH_EVENTS: Final = 5000
MAX_SENTENCES_PER_ENTITY: Final = 2_700_000  # that the core ranks exactly, in every dimension


class Setting(NamedTuple):
    """A setting's description; `default` is Markdown."""

    variable: str
    kind: kinds.Kind
    default: str
    help: str
    secret: bool


def setting(
    default: Any,
    kind: kinds.Kind,
    help: str,
    *,
    instead: str = "",
    secret: bool = False,
    variable: str = "",
) -> Any:
    """A field. `instead`: text for a default that is computed; `variable`: name if not by field."""
    shown = instead or ("none" if default is None else f"`{kind.show(default)}`")
    about = Setting(variable, kind, shown, help, secret)
    return field(default=default, repr=not secret, metadata={"setting": about})


@dataclass(frozen=True, kw_only=True)
class Fields:
    """All settings, in the order of the reference."""

    bootstrap_servers: str = setting(
        "localhost:9092",
        kinds.SERVERS,
        "Kafka brokers, separated by commas",
        variable="KAFKA_BOOTSTRAP_SERVERS",
    )
    input_topic: str = setting(
        "marketplace.reviews.v1", kinds.name(249), "Review events; must exist"
    )
    mapping: Path | None = setting(  # noqa: RUF009 - it is a field
        None,
        kinds.FILE,
        "File that reads an input topic with fields of its own, in TOML or Python (NAME.py), see "
        "[connect](../connect.md); without one the topic has the contract's events",
    )
    schema_registry_url: str | None = setting(
        None,
        kinds.URLS,
        "Schema registry with Confluent's API: values that begin with a zero byte and a schema id "
        "are Avro (extra `avro`) or JSON Schema, see [connect](../connect.md#avro-and-json-schema)",
    )
    schema_registry_username: str | None = setting(
        None, kinds.ONE_LINE, "User name for the registry"
    )
    schema_registry_password: str | None = setting(
        None, kinds.ONE_LINE, "Password for the registry", secret=True
    )
    schema_registry_token: str | None = setting(
        None, kinds.ONE_LINE, "Bearer token for the registry, instead of both", secret=True
    )
    schema_registry_oauth_token_url: str | None = setting(
        None,
        kinds.ENDPOINT,
        "Token endpoint of an OAuth provider, whose tokens the registry accepts (client "
        "credentials), see [deploy](../deploy.md#where-kafka-runs)",
    )
    schema_registry_oauth_client_id: str | None = setting(
        None, kinds.ONE_LINE, "Client id at that provider"
    )
    schema_registry_oauth_client_secret: str | None = setting(
        None, kinds.ONE_LINE, "Client secret at that provider", secret=True
    )
    schema_registry_oauth_scope: str | None = setting(
        None, kinds.ONE_LINE, "Scope of the registry's tokens"
    )
    schema_registry_headers: str | None = setting(
        None,
        kinds.PAIRS,
        "More headers of requests to the registry, without secrets: "
        "`target-sr-cluster=lsrc-1,Confluent-Identity-Pool-Id=pool-1`",
    )
    schema_registry_ca_location: str | None = setting(
        None,
        kinds.ONE_LINE,
        "CA certificates for the registry, a PEM file",
        instead="the system's",
    )
    schema_registry_certificate_location: str | None = setting(
        None, kinds.ONE_LINE, "Client certificate for the registry, a PEM file"
    )
    schema_registry_key_location: str | None = setting(
        None, kinds.ONE_LINE, "Its private key, a PEM file"
    )
    schema_registry_key_password: str | None = setting(
        None, kinds.ONE_LINE, "Password of that private key", secret=True
    )
    output_topic: str = setting(
        "marketplace.review-summaries.v1",
        kinds.name(249),
        "Summary changes; each epoch its own topic",
    )
    output_format: str = setting(
        "json",
        kinds.choice("json", "json-row", "avro"),
        "Form of summaries and facets: `json`; `json-row`, whose arrays and objects are strings "
        "with their JSON, for sinks that write columns; or `avro` with a schema registry, after "
        "`coversumm-worker schemas register`, see [connect](../connect.md)",
    )
    dlq_topic: str = setting("", kinds.name(249), "Dead letters", instead="input topic + `.dlq`")
    facets: str = setting(
        "",
        kinds.ONE_LINE,
        "Facets, such as location, parking or critics, each with sentences of its own: a TOML "
        "file, or `preset:` and one of `stays`, `hotels`, `restaurants`, `products`, `apps`",
        instead="none",
    )
    facets_topic: str = setting(
        "marketplace.review-facets.v1",
        kinds.name(249),
        "Changes of facets, if any are defined; each epoch its own topic",
    )
    language_min: int = setting(
        5,
        kinds.integer(1, 1000),
        "A facet of one language with fewer sentences is left out of the overview",
    )
    app_id: str = setting(
        "coversumm-worker", kinds.name(200), "Consumer group: its workers share the partitions"
    )
    epoch: int = setting(
        1,
        kinds.integer(0, 2**31 - 1),
        "Build of the summaries: use a new epoch for another model, `k` or code",
    )
    k: int = setting(
        20,
        kinds.integer(1, 1000),
        "Sentences in a summary: 3 to 5 for people to read, more for programs",
    )
    distinct: bool = setting(
        False, kinds.FLAG, "Show sentences with identical vectors once; near-paraphrases stay"
    )
    weigh: str = setting(
        "reviews",
        kinds.choice("reviews", "texts"),
        "`reviews`: each sentence counts. `texts`: those with identical vectors count once, in the "
        "summary and each facet, and are shown once, as with `COVERSUMM_DISTINCT`",
    )
    emit: str = setting(
        "every",
        kinds.choice("every", "coalesced"),
        "`every` change, or `coalesced`: an entity's net change in each micro-batch",
    )
    emit_min_changes: int = setting(
        1,
        kinds.integer(1, 1000),
        "Publish only if this many sentences differ from the last published set, the set becomes "
        "empty or non-empty, or a deletion removes a quoted sentence; `1` is every change. At most "
        "`COVERSUMM_K`",
    )
    emit_mentions: int = setting(
        0,
        kinds.integer(0, 100),
        "Publish facets also if the number of reviews that mention one differs by so many percent "
        "from the last published; `0`: mentions alone publish nothing",
    )
    index: str = setting(
        "flat",
        kinds.choice("flat", "sgtree", "graphgrove"),
        "The index that refills search, all with the same results. `flat` reads the stored rows: "
        "best for embeddings. `sgtree` keeps all vectors of an entity in use in a tree in memory "
        "(they count in the cache): for few dimensions. `graphgrove` does so with that library, "
        "which only has wheels for Python 3.8 and older",
    )
    native: Literal["auto", "off", "require"] = setting(
        "auto",
        kinds.choice("auto", "off", "require"),
        "Whether [native code](../image.md#native-code) takes the usual events of entities with at "
        "most 32,768 sentences, with the same results. `auto` uses it if it is installed, "
        "`require` ends the worker if it is not, `off` processes all events in Python",
    )
    embedder: str = setting("onnx", kinds.text(embedders.PATTERN, embedders.FORMS), embedders.HELP)
    model_file: Path | None = setting(  # noqa: RUF009 - it is a field
        None,
        kinds.FILE,
        "JSON file that declares the model's `languages`, the `prefix` that it needs before each "
        "text, the `threshold` of facets that give none, and the cosines of answers, see [another "
        "model](../vectors.md#another-model)",
        instead="`coversumm.json` in the model's folder, if there is one",
    )
    embedder_precision: str = setting(
        "fp32",
        kinds.choice(*embedders.PRECISIONS),
        "Numbers of the default embedder: `bf16` is another model, faster on AMD's processors, "
        "needs avx512_bf16 or AMX, and the extra `openvino`; `auto` is `bf16` where both are "
        "there, on Intel only with AMX",
    )
    embedder_threads: int = setting(
        0, kinds.integer(1, 1024), "Threads of the embedder", instead="number of cores"
    )
    dimension: int = setting(
        DEFAULT_MODEL_DIMENSION,
        kinds.integer(1, 16_384),
        "Dimension of the embeddings with `none`; an engine brings its own",
    )
    data_dir: Path = setting(  # noqa: RUF009 - a Path is immutable
        Path("~/.local/state/coversumm-worker"),
        kinds.FOLDER,
        "Local state: a folder for each worker, locked while it runs",
    )
    model_cache_dir: Path = setting(  # noqa: RUF009
        Path("~/.cache/coversumm-worker"),
        kinds.FOLDER,
        "Models of the hub, and the default one where it is not installed",
    )
    vector_store_dir: Path | None = setting(  # noqa: RUF009 - it is a field
        None,
        kinds.FOLDER,
        "Store of vectors by text: a folder that several workers, replays and summaries of this "
        "machine may share; one of them writes, all read",
    )
    vector_store_bytes: int = setting(
        2 * 2**30,
        kinds.size(16 * 2**20, 2**36),
        "Maximum bytes of the store on disk; beyond it the oldest vectors are dropped",
    )
    instance_id: str = setting(
        "",
        kinds.name(200),
        "Name of this worker in its group and its transactional id: stable over restarts, unique "
        "among running workers",
        instead="host name and hash of the data directory",
    )
    batch_size: int = setting(
        1000, kinds.integer(1, MAX_BATCH_EVENTS), "Maximum events in a micro-batch"
    )
    batch_linger_ms: int = setting(
        50, kinds.integer(0, 60_000), "Time that a micro-batch waits for more events"
    )
    batch_ms: int = setting(
        2000,
        kinds.integer(100, 600_000),
        "Maximum expected time of a micro-batch of several events, by recent measurements: the "
        "commit interval of a slow worker",
    )
    batch_bytes: int = setting(
        16 * 2**20, kinds.size(2**10, 2**28), "Maximum bytes of a micro-batch of several events"
    )
    batch_sentences: int = setting(
        20_000,
        kinds.integer(1, 10_000_000),
        "Maximum sentences, new and replaced, of a micro-batch of several events",
    )
    transaction_records: int = setting(
        50_000,
        kinds.integer(1, 10_000_000),
        "Maximum messages and rows in a transaction of several events",
    )
    transaction_bytes: int = setting(64 * 2**20, kinds.size(2**20, 2**31), "Maximum bytes of them")
    in_flight_messages: int = setting(
        100_000,
        kinds.integer(1, 10_000_000),
        "Maximum messages and rows in flight to the broker; beyond it publishing waits",
    )
    in_flight_bytes: int = setting(
        128 * 2**20, kinds.size(2**20, 2**31 - 2**10), "Maximum bytes of them"
    )
    cache_bytes: int = setting(
        256 * 2**20, kinds.size(0, 2**40), "Memory for the entities in use; all are on disk"
    )
    rocksdb_bytes: int = setting(
        256 * 2**20,
        kinds.size(16 * 2**20, 2**40),
        "Memory for the databases of all partitions together: blocks, indexes, write buffers",
    )
    max_event_bytes: int = setting(
        4 * 2**20, kinds.size(2**10, 2**26), "Largest event; a larger one is a dead letter"
    )
    max_text_bytes: int = setting(
        256 * 2**10, kinds.size(1, 2**26), "Largest text; a larger one is a dead letter"
    )
    max_sentence_chars: int = setting(
        2000, kinds.integer(1, 100_000), "Longest sentence; a longer one is split there"
    )
    max_sentences_per_review: int = setting(
        1000,
        kinds.integer(1, 100_000),
        "Maximum sentences of a review; one with more is a dead letter",
    )
    max_sentences_per_deletion: int = setting(
        10_000,
        kinds.integer(1, 100_000),
        "Maximum sentences that a `sentences.deleted` names, or that several reviews of it have; "
        "one with more is a dead letter",
    )
    max_sentences_per_entity: int = setting(
        1_000_000,
        kinds.integer(1, MAX_SENTENCES_PER_ENTITY),
        "Maximum live sentences of an entity; an event that exceeds it is a dead letter",
    )
    max_message_bytes: int = setting(
        1_000_000,
        kinds.size(2**18, MAX_MESSAGE_BYTES),
        "Largest message of the worker; a larger dead letter keeps the value's first 64 KiB",
    )
    web_port: int = setting(8080, kinds.integer(1, 65_535), "Port of health, metrics and summaries")
    web_bind: str = setting(
        "127.0.0.1", kinds.ADDRESS, "Address of the web server; `::` is all of both families"
    )
    web_page: bool = setting(
        True,
        kinds.FLAG,
        "Serve the live page at `/`: entities, summaries as they change, their history",
    )
    web_path: str = setting(
        "",
        kinds.PATH,
        "Path under which an Ingress leads here, such as `/reviews`: all but probes and metrics "
        "answer below it too, the page at `/reviews/`",
    )
    web_advertised_url: str = setting(
        "", kinds.URL, "URL for the other workers", instead="made of bind and port"
    )
    web_tls_certificate_location: str | None = setting(
        None,
        kinds.ONE_LINE,
        "Certificate of the web server with its chain, a PEM file: it then speaks HTTPS alone. "
        "Files that change are read again",
    )
    web_tls_key_location: str | None = setting(
        None, kinds.ONE_LINE, "Its private key, a PEM file without a password"
    )
    web_tls_ca_location: str | None = setting(
        None,
        kinds.ONE_LINE,
        "CA certificates of the other workers, a PEM file; for commands that ask workers too",
        instead="the system's",
    )
    web_token: str | None = setting(
        None,
        kinds.TOKENS,
        "Bearer token that a request needs, but for probes and metrics; two, separated by a comma, "
        "while a new one replaces it. Workers and commands ask others with the first",
        secret=True,
    )
    web_rate: int | None = setting(
        None,
        kinds.integer(1, 1_000_000),
        "Requests a second that this worker answers for one client; more get 429",
        instead="no limit",
    )
    web_burst: int = setting(
        100,
        kinds.integer(1, 1_000_000),
        "Requests of one client at once, if `COVERSUMM_WEB_RATE` is set: the page needs about 30",
    )
    web_proxies: str | None = setting(
        None,
        kinds.NETWORKS,
        "Networks of proxies, and of the other workers, whose `X-Forwarded-For` names the client "
        "that `COVERSUMM_WEB_RATE` counts",
    )
    web_allowed_hosts: str | None = setting(
        None,
        kinds.HOSTS,
        "Host names that requests may have besides IP addresses, `localhost` and the host of "
        "`COVERSUMM_WEB_ADVERTISED_URL`: those of a Service, an Ingress or a proxy. Others are "
        "refused (421)",
    )
    web_origins: str | None = setting(
        None,
        kinds.ORIGINS,
        "Origins of web pages, as `https://shop.example`, that may read entities from this worker: "
        "those with the [widget](../page.md#the-widget); `*` is every page",
    )
    review_url: str = setting(
        "",
        kinds.REVIEW_URL,
        "Address of a review, to which page and widget link each quote, such as "
        "`https://shop.example/products/{entity_id}#review-{review_id}`; the ids are "
        "percent-encoded",
        instead="none: no links",
    )
    security_protocol: str = setting(
        "PLAINTEXT",
        kinds.choice("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
        "`PLAINTEXT`, `SSL`, `SASL_PLAINTEXT` or `SASL_SSL`",
    )
    sasl_mechanism: str | None = setting(
        None,
        kinds.choice("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "AWS_MSK_IAM"),
        "`PLAIN`, `SCRAM-SHA-256` or `SCRAM-SHA-512` with user name and password, `OAUTHBEARER` "
        "with client credentials, or `AWS_MSK_IAM` with AWS's own (extra `msk`), see "
        "[deploy](../deploy.md#where-kafka-runs)",
    )
    sasl_username: str | None = setting(None, kinds.ONE_LINE, "User name for SASL")
    sasl_password: str | None = setting(None, kinds.ONE_LINE, "Password for SASL", secret=True)
    sasl_password_location: str | None = setting(
        None,
        kinds.ONE_LINE,
        "File with the password for SASL, instead of `COVERSUMM_SASL_PASSWORD`: a changed one is "
        "read again, see [rotation](../deploy.md#passwords-and-certificates-that-change)",
    )
    sasl_oauth_token_url: str | None = setting(
        None, kinds.ENDPOINT, "Token endpoint of an OAuth provider, for `OAUTHBEARER`"
    )
    sasl_oauth_client_id: str | None = setting(None, kinds.ONE_LINE, "Client id at that provider")
    sasl_oauth_client_secret: str | None = setting(
        None, kinds.ONE_LINE, "Client secret at that provider", secret=True
    )
    sasl_oauth_scope: str | None = setting(None, kinds.ONE_LINE, "Scope of the tokens")
    sasl_oauth_audience: str | None = setting(
        None, kinds.ONE_LINE, "Audience of the tokens, for providers that ask for it"
    )
    sasl_oauth_extensions: str | None = setting(
        None,
        kinds.PAIRS,
        "SASL extensions beside the token: `logicalCluster=lkc-1,identityPoolId=pool-1`",
    )
    sasl_oauth_ca_location: str | None = setting(
        None, kinds.ONE_LINE, "CA certificates of that provider beside the system's, a PEM file"
    )
    sasl_aws_region: str | None = setting(
        None,
        kinds.matching("[a-z0-9-]{4,40}", "an AWS region like eu-central-1"),
        "Region of the MSK cluster, for `AWS_MSK_IAM`",
        instead="that of the brokers' names",
    )
    client_options: str | None = setting(
        None,
        kinds.PAIRS,
        "More options of the librdkafka clients: `compression.type=lz4,client.rack=eu-1a`. Options "
        "that would break delivery are refused, each with the reason",
    )
    ssl_ca_location: str | None = setting(
        None, kinds.ONE_LINE, "CA certificates, a PEM file", instead="the system's"
    )
    ssl_certificate_location: str | None = setting(
        None, kinds.ONE_LINE, "Client certificate, a PEM file; changed files are read again"
    )
    ssl_key_location: str | None = setting(None, kinds.ONE_LINE, "Its private key, a PEM file")
    ssl_key_password: str | None = setting(
        None, kinds.ONE_LINE, "Password of the private key", secret=True
    )
    standby_replicas: int = setting(
        0, kinds.integer(0, 16), "Workers that keep a warm copy of a partition's state"
    )
    session_timeout_ms: int = setting(
        10_000,
        kinds.integer(6000, 1_800_000),
        "Time without a heartbeat after which a worker loses its partitions; a restart within it "
        "keeps them",
    )
    broker_timeout_ms: int = setting(
        10_000,
        kinds.MILLISECONDS,
        "Time without an answer of any broker after which the worker is not ready",
    )
    transaction_timeout_ms: int = setting(
        10_000,
        kinds.integer(1000, 900_000),
        "Time after which the broker aborts a dead worker's transaction",
    )
    commit_timeout_ms: int = setting(
        25_000,
        kinds.MILLISECONDS,
        "Deadline for writing a commit's records, and for the broker's answer; after it the commit "
        "is in doubt",
    )
    shutdown_timeout_ms: int = setting(
        20_000, kinds.MILLISECONDS, "Deadline of an orderly stop; after it the worker exits"
    )
    stall_timeout_ms: int = setting(
        300_000,
        kinds.MILLISECONDS,
        "Time without progress, while events wait, after which the worker exits",
    )
    log_level: str = setting(
        "INFO",
        kinds.choice("DEBUG", "INFO", "WARNING", "ERROR"),
        "`DEBUG`, `INFO`, `WARNING`, `ERROR`",
    )
    log_format: str = setting("text", kinds.choice("text", "json"), "`text`, or `json` lines")


def settings_by_field() -> dict[str, Setting]:
    """The description of each field, in order."""
    described = {field_.name: field_.metadata["setting"] for field_ in fields(Fields)}
    return {
        name: setting._replace(variable=setting.variable or PREFIX + name.upper())
        for name, setting in described.items()
    }
