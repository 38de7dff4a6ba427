"""Dependencies point inwards: who may import what, read from the sources."""

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SOURCES = sorted((ROOT / "worker").rglob("*.py"))

# Each package, and which of the project's own it may import.
LAYERS = {
    "worker/coversumm": (),
    "worker/text": ("worker.errors", "worker.text"),
    "worker/events": ("worker.coversumm", "worker.errors", "worker.events", "worker.limits"),
    "worker/state": ("worker.coversumm", "worker.errors", "worker.events", "worker.state"),
    "worker/tools": (
        "worker.errors",
        "worker.events",
        "worker.settings",
        "worker.state",
        "worker.stream",
    ),
    "worker/stream": (
        "worker.coversumm",
        "worker.errors",
        "worker.events",
        "worker.limits",
        "worker.metrics",
        "worker.settings",
        "worker.state",
        "worker.stream",
        "worker.text",
        "worker.web",
    ),
}
# Packages that only few files may know.
CONFINED = {
    "faust": {
        "worker/stream/consumer.py",
        "worker/stream/table.py",
        "worker/stream/topology.py",
        "worker/web.py",
    },
    "rocksdict": {
        "worker/state/files.py",
        "worker/state/store.py",
        "worker/stream/rocksdb.py",
        "worker/stream/table.py",
        "worker/tools/stored.py",
    },
    "onnxruntime": {"worker/text/onnx.py", "worker/text/__init__.py"},
}


def imported(source: Path) -> set[str]:
    """The absolute names a file imports, wherever in it."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(source.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{source}: relative import"
            names.add(node.module or "")
    return names


@pytest.mark.parametrize("layer", LAYERS)
def test_dependencies_point_inwards(layer: str) -> None:
    allowed = (*LAYERS[layer], layer.replace("/", "."))
    for source in (ROOT / layer).rglob("*.py"):
        own = {name for name in imported(source) if name.split(".")[0] == "worker" and name != "worker"}
        outwards = {name for name in own if not name.startswith(allowed)}
        assert not outwards, f"{source.relative_to(ROOT)} imports {outwards}"


def test_the_core_needs_numpy_alone() -> None:
    for source in (ROOT / "worker/coversumm").rglob("*.py"):
        packages = {name.split(".")[0] for name in imported(source)} - set(sys.stdlib_module_names)
        assert packages <= {"numpy", "worker"}, f"{source.relative_to(ROOT)} imports {packages}"


@pytest.mark.parametrize("package", CONFINED)
def test_confined_packages(package: str) -> None:
    users = {
        str(source.relative_to(ROOT))
        for source in SOURCES
        if package in {name.split(".")[0] for name in imported(source)}
    }
    assert users
    assert users <= CONFINED[package]


def test_the_processor_knows_no_broker() -> None:
    for source in [ROOT / "worker/stream/processor.py", *(ROOT / "worker/stream/processing").glob("*.py")]:
        packages = {name.split(".")[0] for name in imported(source)}
        assert not packages & {"faust", "aiokafka", "confluent_kafka", "rocksdict", "asyncio"}, source
