"""Two graphgroves to hold the adapter to: one that has all the limits of the real one, and the real
one if it is here.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from functools import cache
from math import ceil, log
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.bench.paper.graphgrove_real import find_python
from tests.harness.patience import PATIENCE_SECONDS

SERVER = Path(__file__).with_name("graphgrove_server.py")
U = 2.0**-24


class StandIn:
    """The interface of graphgrove 0.0.11, and its limits at their worst.

    Distances are off, and near ties left out, by as much as float32 explains. What the real one
    answers with a crash, with garbage or with a wrong neighbour is an AssertionError here.
    """

    def __init__(self, points: NDArray[np.float32], ids: NDArray[np.int64], cover: float) -> None:
        self.points, self.ids, self.cover = points, ids, cover
        self.random = np.random.default_rng(len(points))

    @classmethod
    def from_matrix(cls, points: Any, trunc: int = -1, use_multi_core: int = -1) -> StandIn:
        _check_matrix(points)
        os.write(1, b"SG Tree [v008] with base 1.3\n")
        os.write(2, b"  0% [      ]\r")
        root = np.argmin(np.linalg.norm(points - points.mean(axis=0), axis=1))
        widest = np.linalg.norm(points - points[root], axis=1).max()
        assert widest > 0, "the real one reads past a table"
        order = np.r_[root, np.delete(np.arange(len(points)), root)]
        return cls(
            points[order].copy(), order.astype(np.int64), 1.3 ** ceil(log(widest) / log(1.3))
        )

    @classmethod
    def from_string(cls, packed: bytes) -> StandIn:
        count, d = np.frombuffer(packed[:8], np.int32)
        cover = np.frombuffer(packed[8:16], np.float64)[0]
        points = np.frombuffer(packed[16 : 16 + 4 * count * d], np.float32).reshape(count, d)
        return cls(
            points.copy(),
            np.frombuffer(packed[16 + 4 * count * d :], np.int64).copy(),
            float(cover),
        )

    def serialize(self) -> bytes:
        shape = np.array(self.points.shape, np.int32).tobytes()
        return shape + np.float64(self.cover).tobytes() + self.points.tobytes() + self.ids.tobytes()

    def __len__(self) -> int:
        return len(self.points)

    def insert(self, points: Any, ids: Any = None, use_multi_core: int = -1) -> None:
        _check_matrix(points)
        assert use_multi_core <= 0, "radii are raced for"
        assert ids.dtype == np.int64
        assert ids.shape == (len(points),)
        assert ids.flags.c_contiguous
        far = np.linalg.norm(points.astype(np.float64) - self.points[0], axis=1)
        assert (far <= self.cover * (1 - 1e-5)).all(), "the root would be raised"
        self.points = np.concatenate([self.points, points])
        self.ids = np.concatenate([self.ids, ids])
        assert len(np.unique(self.points, axis=0)) == len(self.points), "equal points are dropped"

    def remove(self, point: Any) -> bool:
        return False

    def kNearestNeighbours(
        self, query: Any, k: int = 10, use_multi_core: int = -1, return_points: bool = False
    ) -> tuple[Any, Any]:
        _check_matrix(query)
        assert len(query) == 1
        assert k <= len(self), "the real one reads past the end"
        if use_multi_core <= 0:
            os.write(2, b"  0% [      ]\r")
        d = self.points.shape[1]
        exact = np.linalg.norm(self.points.astype(np.float64) - query[0], axis=1)
        off = (d / 2 + 3) * U
        seen = exact * (1 + off * self.random.uniform(-1, 1, len(exact)))
        order = np.argsort(seen)
        window = 3 * off * 2 * np.linalg.norm(self.points - self.points[0], axis=1).max()
        for skip in (40, 10, 3, 1, 0):  # as many near ties as possible give way to farther points
            last = order[min(k + skip, len(order)) - 1]
            must = [row for row in order if exact[row] < seen[last] - window and row != last]
            if len(must) < k:
                break
        may = [row for row in order if seen[row] <= seen[last] and row not in {*must, last}]
        chosen = [*must, last, *list(self.random.permutation(may).astype(int))[: k - 1 - len(must)]]
        rows = np.array(sorted(chosen, key=lambda row: seen[row]))
        return self.ids[rows][None], seen[rows].astype(np.float32)[None]


def _check_matrix(points: Any) -> None:
    assert points.dtype == np.float32, "taken as it lies in memory"
    assert points.ndim == 2
    assert points.flags.c_contiguous


class _Pipe:
    """A process with the real library."""

    def __init__(self, python: str) -> None:
        self.process = subprocess.Popen(
            [python, "-E", str(SERVER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def call(self, method: str, tree: int | None, *arguments: Any, **options: Any) -> Any:
        call = {
            "method": method,
            "tree": tree,
            "arguments": [_encode(argument) for argument in arguments],
            "options": {name: _encode(option) for name, option in options.items()},
        }
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(call) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, f"the process with graphgrove ended: {self.process.wait(PATIENCE_SECONDS)}"
        return _decode(json.loads(line))

    def close(self) -> None:
        """Its input ends, and so does the process."""
        self.process.communicate(timeout=PATIENCE_SECONDS)


_pipes: list[_Pipe] = []


@cache
def remote(python: str) -> type:
    """The tree class of the real library in that CPython's process."""
    pipe = _Pipe(python)
    _pipes.append(pipe)

    class Remote:
        def __init__(self, tree: int) -> None:
            self.tree = tree

        @classmethod
        def from_matrix(cls, points: Any, **options: Any) -> Remote:
            _check_matrix(points)
            return cls(pipe.call("from_matrix", None, points, **options))

        @classmethod
        def from_string(cls, packed: bytes) -> Remote:
            return cls(pipe.call("from_string", None, np.frombuffer(packed, np.uint8)))

        def serialize(self) -> bytes:
            return bytes(pipe.call("serialize", self.tree))

        def insert(self, points: Any, ids: Any, use_multi_core: int) -> None:
            _check_matrix(points)
            pipe.call("insert", self.tree, points, ids, use_multi_core)

        def kNearestNeighbours(self, query: Any, **options: Any) -> Any:
            _check_matrix(query)
            return pipe.call("kNearestNeighbours", self.tree, query, **options)

        def __len__(self) -> int:
            return int(pipe.call("__len__", self.tree))

        def __del__(self) -> None:
            if pipe.process.poll() is None:
                pipe.call("delete", self.tree)

    return Remote


def close_remotes() -> None:
    """End the processes, and forget their classes."""
    remote.cache_clear()
    while _pipes:
        _pipes.pop().close()


def _encode(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        data = base64.b64encode(value.tobytes()).decode()
        return {"dtype": str(value.dtype), "shape": value.shape, "data": data}
    return value


def _decode(value: Any) -> Any:
    if isinstance(value, dict):
        data = base64.b64decode(value["data"])
        return np.frombuffer(data, value["dtype"]).reshape(value["shape"])
    if isinstance(value, list):
        return [_decode(item) for item in value]
    return value


def install(monkeypatch: pytest.MonkeyPatch, tree: Any) -> None:
    """Make `graphgrove.sgtree.NNS_L2` this class."""
    package, module = ModuleType("graphgrove"), ModuleType("graphgrove.sgtree")
    package.__path__ = []
    if tree is not None:
        module.NNS_L2 = tree  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "graphgrove", package)
    monkeypatch.setitem(sys.modules, "graphgrove.sgtree", module)


PYTHON, WHY = find_python()
LIBRARIES = ["stand-in", *(["real"] if PYTHON is not None else [])]
"""The real one is among them where a CPython has it (see `graphgrove_real`)."""


def tree_class(name: str) -> Any:
    if name == "stand-in":
        return StandIn
    assert PYTHON is not None
    return remote(PYTHON)
