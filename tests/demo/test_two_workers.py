"""Two workers on the embedded broker: any of them knows where an entity's summary is."""

import json
import socket
import subprocess
import sys
import urllib.error
import urllib.request

import pytest
from confluent_kafka import Producer

from tests.harness.eventually import eventually
from tests.harness.patience import PATIENCE_SECONDS
from worker.kafka.topics import partition_of, topic_specs
from worker.settings import Settings, environment_with

PARTITIONS = 4
ENTITIES = [f"entity/{number} é" for number in range(8)]


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return probe.getsockname()[1]


class Answer(urllib.request.HTTPRedirectHandler):
    """Does not follow redirects."""

    def redirect_request(self, *_):
        return None


def get(url, follow=True):
    """Status, final URL or redirect target, and body."""
    opener = urllib.request.build_opener() if follow else urllib.request.build_opener(Answer)
    try:
        with opener.open(url, timeout=10) as answer:
            return answer.status, answer.url, json.loads(answer.read())
    except urllib.error.HTTPError as refusal:
        return refusal.code, refusal.headers["Location"], None
    except OSError:
        return None, None, None


@pytest.fixture
def workers(embedded_broker, tmp_path):
    """The URLs of two workers that share the partitions."""
    for spec in topic_specs(Settings(data_dir=tmp_path)).values():
        embedded_broker.create_topic(spec.name, PARTITIONS)
    urls, processes = [], []
    for name in ("a", "b"):
        port = free_port()
        environment = environment_with(
            {
                "KAFKA_BOOTSTRAP_SERVERS": embedded_broker.bootstrap_servers,
                "COVERSUMM_DATA_DIR": str(tmp_path / name),
                "COVERSUMM_WEB_PORT": str(port),
                "COVERSUMM_EMBEDDER": "none",
                "COVERSUMM_DIMENSION": "2",
            }
        )
        with (tmp_path / f"{name}.log").open("wb") as log:
            processes.append(
                subprocess.Popen(
                    [sys.executable, "-m", "tests.demo.patient_worker", "run"],
                    env=environment,
                    stdout=log,
                    stderr=log,
                )
            )
        urls.append(f"http://127.0.0.1:{port}")
    yield urls
    for process in processes:
        process.kill()
        process.wait()


def half_each(urls):
    shares = []
    for url in urls:
        status, _, body = get(f"{url}/readyz")
        shares.append(status == 200 and body["reason"].startswith("processing 2 of 4"))
    return all(shares)


def send(broker, settings):
    client = Producer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "partitioner": "murmur2_random",
            "log_level": 0,
        }
    )
    for entity_id in ENTITIES:
        event = {
            "type": "review.upserted",
            "entity_id": entity_id,
            "review_id": "r",
            "sentences": [{"text": f"about {entity_id}", "embedding": [1, 0]}],
        }
        client.produce(settings.input_topic, json.dumps(event), entity_id)
    assert client.flush(PATIENCE_SECONDS) == 0


def test_either_worker_leads_to_every_summary(embedded_broker, workers, tmp_path):
    eventually(lambda: half_each(workers), lambda: "the workers did not share the partitions")
    send(embedded_broker, Settings(data_dir=tmp_path))

    def page(url, entity_id):
        return f"{url}/entities/{urllib.request.quote(entity_id, safe='')}/summary"

    for url in workers:
        eventually(
            lambda url=url: all(get(page(url, e))[0] == 200 for e in ENTITIES),
            lambda: "a summary is missing",
        )
    owners = {}
    for entity_id in ENTITIES:
        answers = {url: get(page(url, entity_id), follow=False) for url in workers}
        (owner,) = [url for url, (status, _, _) in answers.items() if status == 200]
        (other,) = [url for url in workers if url != owner]
        assert answers[owner][2]["sentences"][0]["text"] == f"about {entity_id}"
        assert answers[other][:2] == (307, page(owner, entity_id))
        owners.setdefault(partition_of(entity_id, PARTITIONS), set()).add(owner)
        assert get(page(other, entity_id))[1:] == (page(owner, entity_id), answers[owner][2])
    assert all(len(one) == 1 for one in owners.values())
    assert {owner for one in owners.values() for owner in one} == set(workers)
    assert {get(page(url, "unknown"))[0] for url in workers} == {404}
