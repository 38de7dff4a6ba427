"""The memory that the chart gives to workers, held against workers that were measured: `make
bench-memory`.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.bench.tables import read_record
from tests.deploy.chart import render, worker
from worker.settings.fields import Fields

pytestmark = pytest.mark.helm

ROWS = read_record("memory.json")["rows"]


def memory_mib(settings: dict[str, Any]) -> tuple[int, int]:
    """Request and limit of a worker with these settings."""
    given = {name: int(value) if value.isdigit() else value for name, value in settings.items()}
    resources = worker(render({"commandLine": {"EMBEDDER": "none"} | given}))["resources"]
    request, limit = (
        int(resources[of]["memory"].removesuffix("Mi")) for of in ("requests", "limits")
    )
    return request, limit


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["case"])
def test_no_worker_took_more_than_it_may(row: dict[str, Any]) -> None:
    """With a tenth to spare: of the request, but while all sentences of a large entity were
    searched.
    """
    request, limit = memory_mib(row["settings"])
    assert row["peak_mib"] * 1.1 <= request
    assert row["restoring_mib"] * 1.1 <= (limit if row["entities"] == 1 else request)


def test_the_request_is_no_waste() -> None:
    """Of a worker whose caches are full, more than half of it was used."""
    full = [row for row in ROWS if row["cache_mib"] * 2**20 >= 0.9 * Fields.cache_bytes]
    assert len(full) >= 3
    assert all(row["peak_mib"] > 0.5 * memory_mib(row["settings"])[0] for row in full)


@pytest.mark.parametrize(
    ("settings", "more"),
    [
        ({"CACHE_BYTES": "512MiB"}, 320),
        ({"CACHE_BYTES": str(512 * 2**20)}, 320),
        ({"ROCKSDB_BYTES": "1GiB"}, 960),
        ({"TRANSACTION_BYTES": "65MiB"}, 3),
        ({"BATCH_BYTES": "17408KiB"}, 4),
        ({"EMBEDDER": "onnx"}, 250),
        ({"EMBEDDER": "onnx", "EMBEDDER_PRECISION": "bf16", "EMBEDDER_THREADS": "3"}, 550),
    ],
)
def test_the_request_is_that_of_the_page(settings: dict[str, Any], more: int) -> None:
    request, limit = memory_mib({})
    assert request == 300 + 1.25 * (256 + 256) + 3 * 64 + 4 * 16
    assert memory_mib(settings) == (request + more, limit + more)


@pytest.mark.parametrize(
    ("settings", "mib"),
    [({}, 732), ({"DIMENSION": "768"}, 1464), ({"MAX_SENTENCES_PER_ENTITY": "100000"}, 73)],
)
def test_the_limit_has_room_for_the_largest_entity(settings: dict[str, Any], mib: int) -> None:
    request, limit = memory_mib(settings)
    assert limit - request == mib


@pytest.mark.parametrize(
    ("settings", "processors"),
    [({}, 2), ({"EMBEDDER_THREADS": 4}, 4), ({"EMBEDDER": "none", "EMBEDDER_THREADS": 4}, 1)],
)
def test_processors_are_those_of_the_embedder(settings: dict[str, Any], processors: int) -> None:
    resources = worker(render({"commandLine": settings}))["resources"]
    assert resources["requests"]["cpu"] == str(processors)
    assert resources["limits"]["cpu"] == str(processors + 1)


def test_resources_go_before_the_formula() -> None:
    given = {"requests": {"memory": "1Gi"}, "limits": {"example.com/gpu": 1}}
    resources = worker(render({"resources": given}))["resources"]
    assert resources["requests"]["memory"] == "1Gi"
    assert resources["limits"]["memory"] != "1Gi"
    assert resources["limits"]["example.com/gpu"] == 1
