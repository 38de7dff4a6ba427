"""Metrics: what a committed batch adds, what is looked up at each scrape."""

import platform
import time
from collections import Counter
from pathlib import Path

import pytest
from cryptography import x509
from prometheus_client.parser import text_string_to_metric_families

from tests.harness.certificates import Authority
from tests.harness.identity import oauth_settings
from worker import __version__
from worker.coversumm import Counters
from worker.credentials.tokens import Token, kafka_tokens
from worker.limits import Limit
from worker.processing.stats import Stats
from worker.settings import Settings
from worker.telemetry.metrics import Metrics


class Moment:
    """A worker's state, to be changed between scrapes."""

    def __init__(self):
        self.is_ready, self.lags, self.open = True, {0: 0}, {0: 0}

    def ready(self):
        return self.is_ready, ""

    def lag(self):
        return self.lags

    def partitions(self):
        return 2, 6

    def undecided(self):
        return self.open

    def broker_silent_seconds(self):
        return {"consumer": 0.04, "producer": 12.34}

    def refusal(self):
        return None

    def rocksdb_bytes(self):
        return 4096


@pytest.fixture
def metrics():
    return Metrics()


def samples(metrics, moment=None):
    """By name, and by name and the values of the labels in the order of their names."""
    found = {}
    for family in text_string_to_metric_families(metrics.page(moment or Moment()).decode()):
        for sample in family.samples:
            labels = [value for _, value in sorted(sample.labels.items())]
            found[(sample.name, *labels) if labels else sample.name] = sample.value
    return found


def stats(**changes):
    outcomes = Counter(
        {
            ("review.upserted", "applied"): 5,
            ("review.deleted", "ignored:not_newer"): 2,
            ("unreadable", "dead_letter:bad_json"): 3,
        }
    )
    core = Counters(steps=9, proved_reservoir=7, refilled=2, evaluations=6, visited=1000)
    given = {
        "outcomes": outcomes,
        "lone_surrogates": 2,
        "future_dates": 3,
        "changes": 4,
        "facets_changes": 3,
        "tombstones": 1,
        "sentences_embedded": 8,
        "embed_seconds": 0.3,
        "process_seconds": 0.4,
        "core": core,
        "cached_entities": 7,
        "cache_bytes": 12345,
    }
    return Stats(**(given | changes))


def test_batches_add_up(metrics):
    metrics.observe_batch(stats())
    metrics.observe_batch(stats(cache_bytes=99, sentences_embedded=0))
    found = samples(metrics)
    assert found["coversumm_events_total", "applied", "review.upserted"] == 10
    assert found["coversumm_events_total", "ignored:not_newer", "review.deleted"] == 4
    assert found["coversumm_events_total", "dead_letter:bad_json", "unreadable"] == 6
    assert found["coversumm_dead_letters_total", "bad_json"] == 6
    assert found["coversumm_lone_surrogates_total"] == 4
    assert found["coversumm_future_dates_total"] == 6
    assert found["coversumm_summary_changes_total"] == 8
    assert found["coversumm_facets_changes_total"] == 6
    assert found["coversumm_tombstones_total"] == 2
    decided = {
        name: found["coversumm_steps_total", name] for name in ("proved_reservoir", "refilled")
    }
    assert decided == {"proved_reservoir": 14, "refilled": 4}
    assert found["coversumm_refills_total"] == 4
    assert found["coversumm_refill_sentences_total"] == 2000
    assert found["coversumm_evaluations_total"] == 12
    assert found["coversumm_batch_events_sum"] == 20
    assert found["coversumm_process_seconds_sum"] == pytest.approx(0.8)
    assert found["coversumm_cache_bytes"] == 99
    assert found["coversumm_cache_entities"] == 7


def test_lookups_in_the_vector_store(metrics):
    metrics.observe_batch(stats())
    found = samples(metrics)
    assert found["coversumm_vector_store_lookups_total", "hit"] == 0
    assert found["coversumm_vector_store_bytes"] == 0
    metrics.observe_batch(stats(vectors_found=5, vectors_missed=2, vector_store_bytes=77))
    metrics.observe_batch(stats(vectors_found=1, vectors_missed=1, vector_store_bytes=99))
    found = samples(metrics)
    assert found["coversumm_vector_store_lookups_total", "hit"] == 6
    assert found["coversumm_vector_store_lookups_total", "miss"] == 3
    assert found["coversumm_vector_store_bytes"] == 99


def test_commits_and_restores(metrics):
    metrics.observe_commit(0.02)
    metrics.observe_restore(500, 20)
    found = samples(metrics)
    assert found["coversumm_commit_seconds_bucket", "0.025"] == 1
    assert found["coversumm_commit_seconds_bucket", "0.01"] == 0
    assert (found["coversumm_restore_rows"], found["coversumm_restore_remaining"]) == (500, 20)


def test_the_moment_is_looked_up_at_each_scrape(metrics):
    moment = Moment()
    moment.lags, moment.open = {0: 3, 1: None, 2: 7}, {0: 11}
    found = samples(metrics, moment)
    assert found["coversumm_ready"] == 1
    assert (found["coversumm_lag_records", "0"], found["coversumm_lag_records", "2"]) == (3, 7)
    assert ("coversumm_lag_records", "1") not in found
    assert found["coversumm_upstream_open_transaction_records", "0"] == 11
    moment.is_ready, moment.lags, moment.open = False, {2: 1}, {}
    found = samples(metrics, moment)
    assert found["coversumm_ready"] == 0
    assert ("coversumm_lag_records", "0") not in found
    assert found["coversumm_lag_records", "2"] == 1


def test_limits_are_there_before_they_are_hit_and_add_up(metrics):
    found = samples(metrics)
    assert all(found["coversumm_limit_hits_total", limit.value] == 0 for limit in Limit)
    metrics.observe_batch(stats(limits=Counter({Limit.CACHE_BYTES: 3, Limit.EVENT_BYTES: 1})))
    metrics.observe_batch(stats(limits=Counter({Limit.CACHE_BYTES: 2})))
    metrics.observe_limit(Limit.IN_FLIGHT)
    found = samples(metrics)
    assert found["coversumm_limit_hits_total", "cache_bytes"] == 5
    assert found["coversumm_limit_hits_total", "event_bytes"] == 1
    assert found["coversumm_limit_hits_total", "in_flight"] == 1
    assert found["coversumm_limit_hits_total", "batch_bytes"] == 0


def expiry(certificate):
    return x509.load_pem_x509_certificate(certificate.read_bytes()).not_valid_after_utc.timestamp()


def test_the_volume_and_the_oldest_record_are_looked_up_at_each_scrape(tmp_path):
    metrics, waiting = Metrics(settings=Settings(data_dir=tmp_path, input_topic="in")), {3: 5.04}
    metrics.oldest = lambda: waiting
    found = samples(metrics)
    free, size = (
        found[f"coversumm_data_volume_{figure}_bytes", str(tmp_path)] for figure in ("free", "size")
    )
    assert 0 < free < size
    assert found["coversumm_oldest_unprocessed_seconds", "3", "in"] == 5.0
    waiting.clear()
    assert ("coversumm_oldest_unprocessed_seconds", "3", "in") not in samples(metrics)


@pytest.mark.parametrize("days", [2, 30_000])
def test_a_chain_expires_with_the_first_of_its_certificates(tmp_path, days):
    """From 2050 on a time in a certificate has another form."""
    authority = Authority(tmp_path, "authority")
    certificate, key = map(str, authority.issue("client", seconds=days * 86_400))
    settings = Settings(
        security_protocol="SSL", ssl_certificate_location=certificate, ssl_key_location=key
    )
    metrics, file = Metrics("bridge", settings), Path(certificate)
    name = ("coversumm_certificate_expiry_seconds", certificate)
    assert samples(metrics)[name] == expiry(file)
    with file.open("ab") as chain:
        chain.write(authority.path.read_bytes())
    assert samples(metrics)[name] == min(expiry(authority.path), expiry(file))
    file.write_text("no certificate")
    assert name not in samples(metrics)
    file.unlink()
    assert name not in samples(metrics)


def test_a_token_expires(monkeypatch):
    settings = oauth_settings("https://expires")
    tokens = kafka_tokens(settings)
    monkeypatch.setattr(tokens, "_fetch", lambda: Token("text", time.time() + 1000.0))
    metrics = Metrics(settings=settings)
    name = ("coversumm_token_expiry_seconds", "OAUTHBEARER")
    assert name not in samples(metrics)
    assert tokens.token().expires == samples(metrics)[name]


def test_the_build_is_named(metrics):
    of_others = ((Metrics(component), component) for component in ("bridge", "replay"))
    for made, component in ((metrics, "worker"), *of_others):
        (sample,) = (
            sample.labels
            for family in text_string_to_metric_families(made.page(Moment()).decode())
            for sample in family.samples
            if sample.name == "coversumm_build_info"
        )
        assert sample == {
            "version": __version__,
            "python": platform.python_version(),
            "component": component,
        }


def test_every_metric_is_among_the_families(metrics):
    exposed = {
        family.name for family in text_string_to_metric_families(metrics.page(Moment()).decode())
    }
    ours = {name for name in exposed if name.startswith("coversumm_")}
    assert ours == {family.name.removesuffix("_total") for family in metrics.families}


def test_a_commit_in_doubt_counts_by_what_became_of_it(metrics):
    name = "coversumm_commits_in_doubt_total"
    assert (samples(metrics)[name, "committed"], samples(metrics)[name, "repeated"]) == (0, 0)
    metrics.observe_doubt(committed=True)
    metrics.observe_doubt(committed=False)
    metrics.observe_doubt(committed=False)
    assert (samples(metrics)[name, "committed"], samples(metrics)[name, "repeated"]) == (1, 2)


def test_sentences_by_the_languages_of_the_model(metrics):
    metrics.observe_batch(stats())
    metrics.observe_batch(stats(read_by_model=Counter(yes=3, unknown=1)))
    found = samples(metrics)
    counts = [
        found["coversumm_model_languages_sentences_total", known]
        for known in ("yes", "no", "unknown")
    ]
    assert counts == [3, 0, 1]
