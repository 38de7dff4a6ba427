"""Settings: defaults, what is accepted, and one clear line for what is not."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import KafkaException

import worker
from tests.harness.certificates import Authority
from tests.settings.sasl import SASL
from worker.errors import SetupError
from worker.kafka.clients import KafkaClients
from worker.kafka.errors import is_retriable
from worker.settings import Settings
from worker.settings.environment import environment_with


def test_defaults_are_the_contracts() -> None:
    settings = Settings.from_environment({})
    given = {
        "input_topic": "marketplace.reviews.v1",
        "output_topic": "marketplace.review-summaries.v1",
        "dlq_topic": "marketplace.reviews.v1.dlq",
        "app_id": "coversumm-worker",
        **{"epoch": 1, "k": 20, "distinct": False, "emit": "every", "index": "flat"},
        **{"embedder": "onnx", "dimension": 384},
    }
    assert {name: getattr(settings, name) for name in given} == given
    assert (settings.max_sentence_chars, settings.max_sentences_per_review) == (2000, 1000)
    assert settings.data_dir.is_absolute()
    assert settings.model_cache_dir.is_absolute()
    assert settings.embedder_threads >= 1


def test_variables_are_read(tmp_path: Path) -> None:
    settings = Settings.from_environment(
        {
            "KAFKA_BOOTSTRAP_SERVERS": " a:1, [::1]:2 ",
            "COVERSUMM_INPUT_TOPIC": "in",
            "COVERSUMM_EPOCH": "0",
            "COVERSUMM_DISTINCT": "Yes",
            "COVERSUMM_EMIT": "COALESCED",
            "COVERSUMM_EMBEDDER": "none",
            "COVERSUMM_DIMENSION": "768",
            "COVERSUMM_DATA_DIR": str(tmp_path),
            "COVERSUMM_CACHE_BYTES": "1 GiB",
            "COVERSUMM_MAX_TEXT_BYTES": "1000",
            "COVERSUMM_WEB_ADVERTISED_URL": "http://w-0:8080/",
            "COVERSUMM_WEB_ORIGINS": "https://Shop.example:443, http://[::1]:8000/",
            "COVERSUMM_REVIEW_URL": "https://shop.example/p/{entity_id}?r={review_id}",
            "COVERSUMM_K": "",
            "HOME": "/nowhere",
        }
    )
    assert settings.bootstrap_servers == "a:1,[::1]:2"
    assert (settings.input_topic, settings.dlq_topic) == ("in", "in.dlq")
    assert (settings.epoch, settings.distinct, settings.emit) == (0, True, "coalesced")
    assert (settings.embedder, settings.dimension, settings.data_dir) == ("none", 768, tmp_path)
    assert (settings.cache_bytes, settings.max_text_bytes) == (2**30, 1000)
    assert settings.web_advertised_url == "http://w-0:8080"
    assert settings.web_origins == "https://shop.example,http://[::1]:8000"
    assert settings.review_url == "https://shop.example/p/{entity_id}?r={review_id}"
    assert settings.k == 20


@pytest.mark.parametrize(
    ("bind", "kept", "url", "local"),
    [
        ("::", "::", "http://[::]:8080", "http://127.0.0.1:8080"),
        ("::1", "::1", "http://[::1]:8080", "http://[::1]:8080"),
        ("[fd00::5]", "fd00::5", "http://[fd00::5]:8080", "http://[fd00::5]:8080"),
        ("10.0.0.1", "10.0.0.1", "http://10.0.0.1:8080", "http://10.0.0.1:8080"),
    ],
)
def test_urls_of_ipv6_addresses_have_brackets(bind: str, kept: str, url: str, local: str) -> None:
    settings = Settings.from_environment({"COVERSUMM_WEB_BIND": bind})
    assert (settings.web_bind, settings.web_advertised_url) == (kept, url)
    assert settings.local_url == local


BAD = [
    ("KAFKA_BOOTSTRAP_SERVERS", "localhost"),
    ("KAFKA_BOOTSTRAP_SERVERS", "localhost:9092,"),
    ("KAFKA_BOOTSTRAP_SERVERS", "localhost:0"),
    ("KAFKA_BOOTSTRAP_SERVERS", "localhost:99999"),
    ("KAFKA_BOOTSTRAP_SERVERS", "kafka://localhost:9092"),
    ("COVERSUMM_INPUT_TOPIC", "a topic"),
    ("COVERSUMM_INPUT_TOPIC", ".."),
    ("COVERSUMM_OUTPUT_TOPIC", "t" * 250),
    ("COVERSUMM_DLQ_TOPIC", "a/b"),
    ("COVERSUMM_APP_ID", "é"),
    ("COVERSUMM_EPOCH", "-1"),
    ("COVERSUMM_EPOCH", "one"),
    ("COVERSUMM_K", "0"),
    ("COVERSUMM_K", "20.0"),
    ("COVERSUMM_K", "2_0"),
    ("COVERSUMM_K", "٢٠"),
    ("COVERSUMM_K", "9" * 9999),
    ("COVERSUMM_DISTINCT", "maybe"),
    ("COVERSUMM_EMIT", "final"),
    ("COVERSUMM_INDEX", "annoy"),
    ("COVERSUMM_EMBEDDER", "openai"),
    ("COVERSUMM_EMBEDDER", "onnx:"),
    ("COVERSUMM_EMBEDDER", "sentence-transformers"),
    ("COVERSUMM_EMBEDDER_THREADS", "0"),
    ("COVERSUMM_DIMENSION", "0"),
    ("COVERSUMM_DIMENSION", "768"),
    ("COVERSUMM_INSTANCE_ID", "a b"),
    ("COVERSUMM_BATCH_SIZE", "100000"),
    ("COVERSUMM_BATCH_BYTES", "1GB"),
    ("COVERSUMM_BATCH_BYTES", "1GiB"),
    ("COVERSUMM_CACHE_BYTES", "-1"),
    ("COVERSUMM_CACHE_BYTES", "1.5GiB"),
    ("COVERSUMM_MAX_TEXT_BYTES", "8MiB"),
    ("COVERSUMM_TRANSACTION_BYTES", "3MiB"),
    ("COVERSUMM_TRANSACTION_RECORDS", "100001"),
    ("COVERSUMM_TRANSACTION_BYTES", "129MiB"),
    ("COVERSUMM_MAX_SENTENCES_PER_ENTITY", "2700001"),
    ("COVERSUMM_MAX_SENTENCES_PER_DELETION", "0"),
    ("COVERSUMM_ROCKSDB_BYTES", "15MiB"),
    ("COVERSUMM_VECTOR_STORE_BYTES", "15MiB"),
    ("COVERSUMM_VECTOR_STORE_BYTES", "65GiB"),
    ("COVERSUMM_VECTOR_STORE_DIR", "~nobody-of-this-name/vectors"),
    ("COVERSUMM_WEB_PORT", "65536"),
    ("COVERSUMM_WEB_PORT", "tcp://10.0.0.1:8080"),
    ("COVERSUMM_WEB_BIND", "a b"),
    ("COVERSUMM_WEB_BIND", "[127.0.0.1]"),
    ("COVERSUMM_WEB_BIND", "[::1]:8080"),
    ("COVERSUMM_WEB_BIND", "localhost:8080"),
    ("COVERSUMM_WEB_BIND", "fe80::1%eth0"),
    ("COVERSUMM_WEB_ADVERTISED_URL", "worker-0:8080"),
    ("COVERSUMM_WEB_ORIGINS", "shop.example"),
    ("COVERSUMM_WEB_ORIGINS", "https://shop.example/products"),
    ("COVERSUMM_WEB_ORIGINS", "https://a.example,*"),
    ("COVERSUMM_REVIEW_URL", "https://shop.example/reviews"),
    ("COVERSUMM_REVIEW_URL", "https://{review_id}.example/"),
    ("COVERSUMM_REVIEW_URL", "javascript:alert('{review_id}')"),
    ("COVERSUMM_REVIEW_URL", "https://shop.example/{review_id}/{user}"),
    ("COVERSUMM_WEB_ADVERTISED_URL", "http://[::1:8080"),
    ("COVERSUMM_WEB_ADVERTISED_URL", "http://worker:port"),
    ("COVERSUMM_SCHEMA_REGISTRY_URL", "registry:8081"),
    ("COVERSUMM_SCHEMA_REGISTRY_URL", "http://registry:8081?a=b"),
    ("COVERSUMM_SCHEMA_REGISTRY_URL", "http://registry:0"),
    ("COVERSUMM_SECURITY_PROTOCOL", "TLS"),
    ("COVERSUMM_SASL_MECHANISM", "GSSAPI"),
    ("COVERSUMM_SASL_USERNAME", "u"),
    ("COVERSUMM_SSL_CA_LOCATION", __file__),
    ("COVERSUMM_STANDBY_REPLICAS", "-1"),
    ("COVERSUMM_SESSION_TIMEOUT_MS", "10"),
    ("COVERSUMM_TRANSACTION_TIMEOUT_MS", "25000"),
    ("COVERSUMM_COMMIT_TIMEOUT_MS", "10000"),
    ("COVERSUMM_COMMIT_TIMEOUT_MS", "300000"),
    ("COVERSUMM_LOG_LEVEL", "LOUD"),
    ("COVERSUMM_LOG_FORMAT", "xml"),
]


@pytest.mark.parametrize(("variable", "value"), BAD)
def test_what_is_not_accepted_is_one_line_that_names_variable_and_value(
    variable: str, value: str
) -> None:
    with pytest.raises(SetupError) as caught:
        Settings.from_environment({variable: value})
    message = str(caught.value)
    assert variable in message
    assert "\n" not in message
    assert len(message) < 300
    if variable not in ("COVERSUMM_SASL_USERNAME", "COVERSUMM_SSL_CA_LOCATION"):
        assert value[:100] in message
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"INSTANCE_ID": "dlq"}, "COVERSUMM_INSTANCE_ID: dlq"),
        ({"OUTPUT_TOPIC": "marketplace.reviews.v1"}, "COVERSUMM_OUTPUT_TOPIC"),
        ({"INPUT_TOPIC": "t" * 249}, "249"),
        (
            {"K": "5", "EMIT_MIN_CHANGES": "6"},
            r"COVERSUMM_EMIT_MIN_CHANGES: 6 must be at most COVERSUMM_K \(5\)",
        ),
    ],
)
def test_settings_that_do_not_go_together(given: dict[str, str], words: str) -> None:
    with pytest.raises(SetupError, match=words):
        Settings.from_environment({f"COVERSUMM_{name}": text for name, text in given.items()})


def test_a_vector_store_is_not_a_data_directory(tmp_path: Path) -> None:
    """It may be in there: `reset --local` removes databases, and nothing else."""
    environ = {
        "COVERSUMM_DATA_DIR": str(tmp_path),
        "COVERSUMM_VECTOR_STORE_DIR": str(tmp_path / "vectors"),
    }
    assert Settings.from_environment(environ).vector_store_dir == tmp_path / "vectors"
    assert Settings.from_environment({}).vector_store_dir is None
    with pytest.raises(SetupError, match=r"COVERSUMM_VECTOR_STORE_DIR: .* is COVERSUMM_DATA_DIR"):
        Settings.from_environment({**environ, "COVERSUMM_VECTOR_STORE_DIR": str(tmp_path)})


@pytest.mark.parametrize(
    "missing", ["COVERSUMM_SASL_MECHANISM", "COVERSUMM_SASL_USERNAME", "COVERSUMM_SASL_PASSWORD"]
)
def test_sasl_is_whole_or_not_at_all(missing: str) -> None:
    assert Settings.from_environment(SASL).sasl_mechanism == "SCRAM-SHA-512"
    with pytest.raises(SetupError, match=f"{missing}: not set"):
        Settings.from_environment({name: value for name, value in SASL.items() if name != missing})
    with pytest.raises(SetupError, match="not used with"):
        Settings.from_environment({missing: SASL[missing]})


def test_certificates_are_files_and_pairs(tmp_path: Path) -> None:
    pem = tmp_path / "a.pem"
    ssl = {"COVERSUMM_SECURITY_PROTOCOL": "SSL", "COVERSUMM_SSL_CERTIFICATE_LOCATION": str(pem)}
    with pytest.raises(
        SetupError, match=r"COVERSUMM_SSL_CERTIFICATE_LOCATION: '.*a\.pem' is not a file"
    ):
        Settings.from_environment(ssl)
    pem.touch()
    with pytest.raises(SetupError, match="both or neither"):
        Settings.from_environment(ssl)
    with pytest.raises(SetupError, match="COVERSUMM_SSL_KEY_PASSWORD"):
        Settings.from_environment({"COVERSUMM_SSL_KEY_PASSWORD": "secret"})


def test_a_password_may_be_in_a_file_which_is_read_for_each_client(tmp_path: Path) -> None:
    file, other = tmp_path / "password", "COVERSUMM_SASL_PASSWORD"
    file.write_text("first\n")
    given = {**SASL, f"{other}_LOCATION": str(file)}
    with pytest.raises(SetupError, match=f"{other}: set, but not used with .*{other}_LOCATION"):
        Settings.from_environment(given)
    settings = Settings.from_environment({n: v for n, v in given.items() if n != other})
    assert settings.secrets() == ["first"]
    file.write_text("second")
    assert settings.kafka_client_config()["sasl.password"] == "second"
    for wrong in ("", "two\nlines"):
        file.write_text(wrong)
        with pytest.raises(SetupError, match=f"{other}_LOCATION: .* must have a password"):
            replace(settings)
        with pytest.raises(KafkaException, match="must have a password"):
            KafkaClients(settings).admin()
    with pytest.raises(SetupError, match=f"{other}_LOCATION: .* not a file that can be read"):
        replace(settings, sasl_password_location="nowhere")
    with pytest.raises(SetupError, match=f"{other}_LOCATION: set, but not used"):
        Settings.from_environment({f"{other}_LOCATION": str(file)})


def test_certificates_and_keys_must_be_usable(tmp_path: Path) -> None:
    """What librdkafka would stumble over, and what OpenSSL would ask for at the terminal, ends in
    one line at the start.
    """
    certificate, key = Authority(tmp_path, "authority").issue("client", "secret")
    _, other_key = Authority(tmp_path, "other").issue("other", "secret")
    given = {
        "COVERSUMM_SECURITY_PROTOCOL": "SSL",
        "COVERSUMM_SSL_CERTIFICATE_LOCATION": str(certificate),
        "COVERSUMM_SSL_KEY_LOCATION": str(key),
        "COVERSUMM_SSL_KEY_PASSWORD": "secret",
    }
    settings = Settings.from_environment(given)
    config = settings.kafka_client_config()
    assert config["ssl.certificate.location"] == str(certificate)
    assert config["ssl.key.location"] == str(key)
    assert config["ssl.key.password"] == "secret"
    assert settings.tls_context() is not None
    (tmp_path / "empty.pem").touch()
    for change in (
        {"COVERSUMM_SSL_KEY_PASSWORD": "MARKER"},
        {"COVERSUMM_SSL_KEY_PASSWORD": ""},
        {"COVERSUMM_SSL_KEY_LOCATION": str(other_key)},
        {"COVERSUMM_SSL_KEY_LOCATION": str(tmp_path / "empty.pem")},
        {"COVERSUMM_SSL_CERTIFICATE_LOCATION": str(key)},
        {"COVERSUMM_SSL_CA_LOCATION": str(tmp_path / "empty.pem")},
    ):
        with pytest.raises(SetupError, match="TLS files cannot be used") as refused:
            Settings.from_environment(given | change)
        assert "MARKER" not in str(refused.value)
    assert Settings().tls_context() is None
    clients = KafkaClients(replace(settings, client_options="client.rack=a"))
    key.write_bytes(b"half")  # while the files are replaced
    with pytest.raises(KafkaException) as broken:
        clients.producer({})
    assert is_retriable(broken.value)


def test_librdkafka_takes_the_client_config() -> None:
    from confluent_kafka import Producer

    Producer(Settings.from_environment({}).kafka_client_config())
    config = Settings.from_environment(SASL).kafka_client_config()
    assert config["sasl.mechanism"] == "SCRAM-SHA-512"
    Producer({**config, "log_level": 0})


def test_secrets_are_shown_nowhere() -> None:
    settings = Settings.from_environment(SASL)
    assert settings.secrets() == ["secret"]
    assert "secret" not in repr(settings)
    with pytest.raises(SetupError) as caught:
        Settings.from_environment(SASL | {"COVERSUMM_SASL_PASSWORD": "secret\nline"})
    assert "secret" not in str(caught.value)


REGISTRY = {"COVERSUMM_SCHEMA_REGISTRY_URL": "http://a:8081/ , https://b/apis/ccompat/v7/"}
OF_REGISTRY = "COVERSUMM_SCHEMA_REGISTRY_"


def test_a_registry_has_several_urls_and_one_way_to_log_in() -> None:
    settings = Settings.from_environment(REGISTRY)
    assert settings.schema_registry_url == "http://a:8081,https://b/apis/ccompat/v7"
    user = {f"{OF_REGISTRY}USERNAME": "u", f"{OF_REGISTRY}PASSWORD": "secret"}
    assert Settings.from_environment(REGISTRY | user).secrets() == ["secret"]
    for given, words in (
        (user | {f"{OF_REGISTRY}TOKEN": "t"}, "TOKEN: set, and so is"),
        ({f"{OF_REGISTRY}USERNAME": "u"}, "set both or neither"),
        ({f"{OF_REGISTRY}CA_LOCATION": "/no/file"}, "not a file that can be read"),
        ({f"{OF_REGISTRY}CA_LOCATION": __file__}, "registry's TLS files"),
    ):
        with pytest.raises(SetupError, match=words):
            Settings.from_environment(REGISTRY | given)
    with pytest.raises(SetupError, match=r"REGISTRY_URL: not set, but needed with .*TOKEN"):
        Settings.from_environment({f"{OF_REGISTRY}TOKEN": "t"})
    with pytest.raises(SetupError, match="URL: its value is not accepted") as refused:
        Settings.from_environment({f"{OF_REGISTRY}URL": "http://user:marker@registry:8081"})
    assert "marker" not in str(refused.value)
    with pytest.raises(SetupError, match="COVERSUMM_SCHEMA_REGISTRY_URI: there is no such setting"):
        Settings.from_environment({"COVERSUMM_SCHEMA_REGISTRY_URI": ""})


def test_misspelt_variables_are_refused_and_others_left_alone() -> None:
    for variable in ("COVERSUMM_EMITT", "COVERSUMM_BATCHSIZE", "COVERSUMM_WEBPORT"):
        with pytest.raises(SetupError, match=variable):
            Settings.from_environment({variable: "1"})
    kubernetes = ("COVERSUMM_WORKER_SERVICE_HOST", "COVERSUMM_WORKER_PORT_8080_TCP_ADDR")
    for variable in (*kubernetes, "COVERSUMM_PORT", "COVERSUM_K"):
        Settings.from_environment({variable: "tcp://10.0.0.1"})


def test_instances_differ_by_data_directory(tmp_path: Path) -> None:
    ids = {Settings(data_dir=tmp_path / name).instance_id for name in "ab"}
    assert len(ids) == 2
    assert Settings(data_dir=tmp_path / "a").instance_id in ids
    assert all(re.fullmatch(r"[A-Za-z0-9._-]{1,200}", instance) for instance in ids)


def test_a_child_gets_the_given_settings_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COVERSUMM_K", "7")
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", "elsewhere:1")
    monkeypatch.setenv("COVERSUMM_SCHEMA_REGISTRY_URL", "http://registry:8081")
    monkeypatch.setenv("UNRELATED", "kept")
    child = environment_with({"COVERSUMM_EPOCH": "2"})
    assert child["UNRELATED"] == "kept"
    assert Settings.from_environment(child) == Settings(epoch=2)


def test_only_settings_reads_the_environment() -> None:
    package = Path(worker.__file__).parent
    readers = {
        path.relative_to(package).as_posix()
        for path in package.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if (
            isinstance(node, ast.Attribute)
            and node.attr in ("environ", "environb", "getenv", "expandvars")
        )
        or (
            isinstance(node, ast.ImportFrom)
            and {"environ", "getenv"} & {name.name for name in node.names}
        )
    }
    # text/onnx.py only sets a variable for a library that is about to be imported;
    # cli/group.py answers a shell, whose question is a variable and no setting;
    # demo/closing.py asks where the user's shell is.
    assert readers == {
        "cli/group.py",
        "demo/closing.py",
        "settings/__init__.py",
        "settings/environment.py",
        "text/onnx.py",
    }
