"""Queries through any worker, by TLS and with a token, while one is killed and comes back."""

from __future__ import annotations

import json
import random
import threading
import time
import urllib.error
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.harness.broker import KafkaBroker
from tests.harness.certificates import Authority
from tests.harness.eventually import eventually
from tests.harness.patience import TEST_SECONDS
from tests.harness.small_load import FACETS, SETTINGS, check, events, feed
from tests.harness.workers import Pipeline, WorkerProcess, pipeline, run_command

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(TEST_SECONDS)]

PATH = "/reviews"
CLIENTS = 4
HANGING_SECONDS = 40.0  # more than a worker waits for another


def secured(directory: Path) -> dict[str, str]:
    """Settings of workers with TLS, a token, a path, and a limit beyond these clients."""
    authority = Authority(directory, "authority")
    certificate, key = authority.issue("workers")
    return {
        **SETTINGS,
        **FACETS,
        "COVERSUMM_WEB_TLS_CERTIFICATE_LOCATION": str(certificate),
        "COVERSUMM_WEB_TLS_KEY_LOCATION": str(key),
        "COVERSUMM_WEB_TLS_CA_LOCATION": str(authority.path),
        "COVERSUMM_WEB_TOKEN": "of-this-test-alone,of-the-next-test-alone",
        "COVERSUMM_WEB_PATH": PATH,
        "COVERSUMM_WEB_RATE": "100000",
        "COVERSUMM_WEB_PROXIES": "127.0.0.0/8",
    }


def ask(worker: WorkerProcess, path: str) -> tuple[int, bytes]:
    """Status and body; 0 if the connection fails."""
    try:
        with worker.get(path, HANGING_SECONDS) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as refusal:
        return refusal.code, refusal.read()
    except TimeoutError:
        raise
    except OSError as why:
        return 0, repr(why).encode()


@dataclass
class Clients:
    """Ask for entities through all workers at random, until they are stopped."""

    workers: list[WorkerProcess]
    right: dict[str, bytes]  # by path what the owner answers
    dead: set[int] = field(default_factory=set)  # ports of workers that may refuse connections
    statuses: Counter[int] = field(default_factory=Counter)
    wrong: list[object] = field(default_factory=list)
    slowest_s: float = 0.0

    def __post_init__(self) -> None:
        self._over = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=(seed,)) for seed in range(CLIENTS)
        ]

    def __enter__(self) -> Clients:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _run(self, seed: int) -> None:
        chosen = random.Random(seed)
        paths = sorted(self.right)
        while not self._over.wait(0.02):
            worker, path = chosen.choice(self.workers), chosen.choice(paths)
            was_dead, began = worker.web_port in self.dead, time.monotonic()
            try:
                status, body = ask(worker, PATH + path)
            except TimeoutError:
                status, body = -1, b"it hangs"
            self.slowest_s = max(self.slowest_s, time.monotonic() - began)
            self.statuses[status] += 1
            may_be_dead = was_dead or worker.web_port in self.dead
            if not (
                (status == 200 and body == self.right[path])
                or (status == 503 and list(json.loads(body)) == ["error"])
                or (status == 0 and may_be_dead)
            ):
                self.wrong.append((worker.name, path, status, body[:500]))


def unlike(workers: list[WorkerProcess], right: dict[str, bytes]) -> list[object]:
    """What these workers answer otherwise."""
    found = []
    for path, body in right.items():
        for worker in workers:
            status, other = ask(worker, PATH + path)
            if (status, other) != (200, body):
                found.append((worker.name, path, status, other, body))
    return found


def as_its_owner(workers: list[WorkerProcess], right: dict[str, bytes]) -> bool:
    """Whether each worker answers with the bytes of the owner."""
    return all(
        ask(worker, PATH + path) == (200, body)
        for path, body in right.items()
        for worker in workers
    )


def owned(site: Pipeline, paths: list[str]) -> tuple[dict[str, bytes], Counter[str]]:
    """What the owner of each entity answers, and how many entities each worker has."""
    right, owners = {}, Counter[str]()
    for path in paths:
        joint = "&" if "?" in path else "?"
        for worker in site.workers:
            status, body = ask(worker, f"{path}{joint}here=1")
            if status == 200:
                right[path] = body
                owners[worker.name] += 1
    return right, owners


@pytest.mark.long
def test_one_of_three_is_killed_under_queries(kafka: KafkaBroker, tmp_path: Path) -> None:
    """Each answer is that of the owner, or a refusal for the moment."""
    settings = secured(tmp_path)
    with pipeline(kafka, "one-address", tmp_path, partitions=6, settings=settings) as site:
        load = events(150)
        feed(site, load)
        workers = site.start(3)
        site.wait_caught_up()
        ids = sorted(
            {record.key.decode() for record in load if record.key and record.key.isascii()}
        )
        paths = [f"/entities/{quote(identifier, safe='')}/summary" for identifier in ids]
        paths += [f"{path}?view=overview" for path in paths[:10]]
        paths = [path for path in paths if ask(workers[0], path)[0] == 200]
        assert len(paths) > 12
        right, owners = owned(site, paths)
        assert (len(right), len(owners)) == (len(paths), 3), owners
        assert as_its_owner(workers, right)
        with Clients(workers, right) as clients:
            time.sleep(2)
            assert set(clients.statuses) == {200}, (clients.statuses, clients.wrong)
            victim = workers[1]
            clients.dead.add(victim.web_port)
            victim.kill()
            others = [workers[0], workers[2]]
            eventually(
                lambda: not unlike(others, right), lambda: unlike(others, right)[:1], timeout_s=60
            )
            victim.start()
            victim.wait_ready()
            clients.dead.clear()
            eventually(lambda: not unlike(workers, right), lambda: unlike(workers, right)[:1])
            settled = clients.statuses.copy()
            time.sleep(2)
            assert (clients.statuses - settled).keys() == {200}
        again, _ = owned(site, paths)
        assert as_its_owner(workers, again)
        assert clients.wrong == []
        assert clients.statuses[200] > 500, clients.statuses
        assert clients.slowest_s < HANGING_SECONDS
        print(clients.statuses, clients.slowest_s)
        assert ask_without(workers[0], "COVERSUMM_WEB_TOKEN", paths[0])[0] == 401
        assert ask_without(workers[0], "COVERSUMM_WEB_TLS_CA_LOCATION", paths[0])[0] == 0
        shown = run_command("inspect", ids[0], environment=workers[2].environment)
        assert (shown.returncode, json.loads(shown.stdout)["entity_id"]) == (0, ids[0])
        status = run_command("status", environment=workers[2].environment)
        found = json.loads(status.stdout)["workers"]
        assert [(worker["ready"], worker["url"][:8]) for worker in found] == [
            (True, "https://")
        ] * 3
        check(site)


def ask_without(worker: WorkerProcess, variable: str, path: str) -> tuple[int, bytes]:
    """The answer to a client that lacks what this setting gives to others."""
    kept = worker.environment
    worker.environment = {name: value for name, value in kept.items() if name != variable}
    try:
        return ask(worker, path)
    finally:
        worker.environment = kept
