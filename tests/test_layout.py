"""Dependencies point downwards: who may import what, read from the sources."""

import ast
import io
import logging
import re
import sys
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

import click
import pytest

from tests.layers import FLOOR, ROOT, SOURCES, tree_of

# Only what puts things together may know the composition root.
ROOT_USERS = ("worker.cli", "worker.demo", "worker.operations")
# The algorithm and the texts stand alone, and a summary of a file needs no stream.
CLOSED = {
    "worker.coversumm": {"worker", "worker.coversumm"},
    "worker.text": {"worker.errors", "worker.extras", "worker.text"},
    "worker.processing": {
        "worker",
        "worker.clock",
        "worker.coversumm",
        "worker.errors",
        "worker.events",
        "worker.facets",
        "worker.limits",
        "worker.processing",
        "worker.settings",
        "worker.state",
        "worker.text",
    },
    "worker.summarizer": {
        "worker.events",
        "worker.processing",
        "worker.settings",
        "worker.state",
        "worker.text",
    },
}
# Packages that only some places may know.
CONFINED = {
    "faust": ("worker/stream/faust/", "worker/web/routes.py"),
    "aiokafka": ("worker/kafka/group.py", "worker/kafka/topics.py", "worker/stream/"),
    "confluent_kafka": (
        "worker/bridge.py",
        "worker/cli/skip.py",
        "worker/kafka/",
        "worker/operations/",
        "worker/published/",
    ),
    "rocksdict": ("worker/storage/",),
    "opentelemetry": ("worker/telemetry/spans.py",),
    "onnxruntime": ("worker/text/",),
    "openvino": ("worker/text/openvino.py",),
    "py3langid": ("worker/text/language.py",),
    "pyarrow": ("worker/sources/",),
    "fastavro": ("worker/registry/",),
    "aws_msk_iam_sasl_signer": ("worker/credentials/tokens.py",),
}


def module_of(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def room_of(module: str) -> str:
    """The package of `worker`, or the module beside them, that a module is in."""
    parts = module.split(".")
    room = ".".join(parts[:2])
    return room if room in FLOOR else "worker"


def imported(path: str) -> set[str]:
    """The modules a file imports, wherever in it; `from worker import web` is `worker.web`."""
    names: set[str] = set()
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            module = node.module or ""
            names |= (
                {f"{module}.{alias.name}" for alias in node.names}
                if module == "worker"
                else {module}
            )
    return names


def violations(path: str) -> Iterator[str]:
    """What a file imports that it may not."""
    room = room_of(module_of(path))
    for name in sorted(imported(path)):
        package = name.split(".")[0]
        if package == "worker":
            other = room_of(name)
            if other != room and FLOOR[other] <= FLOOR[room]:
                yield f"{path} imports {name}, which is not below it"
            elif other not in CLOSED.get(room, {other}):
                yield f"{path} imports {name}, {room} does without it"
            elif other == "worker.app" and room not in (*ROOT_USERS, "worker.app"):
                yield f"{path} imports the composition root"
        elif room == "worker.coversumm" and package not in {"numpy", *sys.stdlib_module_names}:
            yield f"{path} imports {name}: the core needs NumPy alone"
        elif not path.startswith(CONFINED.get(package, "worker/")):
            yield f"{path} imports {name}"
        elif room == "worker.processing" and package == "asyncio":
            yield f"{path} imports {name}: a micro-batch is processed without waiting"


def test_every_module_has_its_floor() -> None:
    assert {room_of(module_of(path)) for path in SOURCES} == set(FLOOR)


def test_nothing_imports_upwards() -> None:
    found = [violation for path in SOURCES for violation in violations(path)]
    assert not found, "\n".join(found)


def modules_used(path: str, modules: Collection[str]) -> set[str]:
    """Those of these modules that a file imports, wherever in it, also for its types alone."""
    used: set[str] = set()
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            used |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            parts = {f"{node.module}.{alias.name}" for alias in node.names}
            # a module of a package does not need the package's own file
            used |= parts & set(modules) or {node.module or ""}
    return used & set(modules)


def circles(used: Mapping[str, set[str]]) -> list[set[str]]:
    """The groups of modules that need one another."""
    above = {module: {module} for module in used}  # those that need it, however indirectly
    while True:
        before = {module: set(found) for module, found in above.items()}
        for module, found in used.items():
            for other in found:
                above[other] |= above[module]
        if above == before:
            break
    found = {
        frozenset(other for other in above[module] if module in above[other]) for module in used
    }
    return [set(circle) for circle in found if len(circle) > 1]


def test_no_files_import_one_another_in_a_circle() -> None:
    modules = {module_of(path): path for path in SOURCES}
    assert circles({name: modules_used(path, modules) for name, path in modules.items()}) == []


def test_no_files_of_native_code_use_one_another_in_a_circle() -> None:
    files = {path.stem: path.read_text() for path in ROOT.glob("worker/native/src/*.rs")}
    used = {name: {*re.findall(r"\bcrate::(\w+)", text)} for name, text in files.items()}
    assert len(used) > 10
    assert circles(used) == []


def test_no_admin_client_is_collected_before_its_futures_are_done() -> None:
    """Else one of 150 is never done on a busy machine; `list_topics` has its answer at once."""
    tests = {str(path): path.read_text() for path in ROOT.joinpath("tests").rglob("*.py")}
    lost = re.compile(r"(admin\(\)|AdminClient\([^()]*\))\s*\.(?!list_topics\()")
    assert [path for path, text in (SOURCES | tests).items() if lost.search(text)] == []


def test_no_public_class_name_stands_twice() -> None:
    """One name for one thing in the whole package."""
    places: dict[str, list[str]] = {}
    for path in SOURCES:
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(path)
    assert {name: where for name, where in places.items() if len(where) > 1} == {}


def test_a_public_method_without_a_docstring_overrides_one_that_has_one() -> None:
    """Ruff cannot know which methods override, so its rule D102 is off."""
    foreign = (click.Group, click.ParamType, io.TextIOWrapper, logging.Handler, logging.Formatter)
    documented = {name for base in foreign for name in dir(base)}
    bare: dict[str, str] = {}
    for path in SOURCES:
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.ClassDef):
                for method in node.body:
                    if isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef):
                        if ast.get_docstring(method):
                            documented.add(method.name)
                        elif not node.name.startswith("_") and not method.name.startswith("_"):
                            bare[method.name] = f"{path} {node.name}"
    assert {name: place for name, place in bare.items() if name not in documented} == {}


def test_no_subpackage_has_fewer_than_four_modules() -> None:
    modules: dict[str, set[str]] = {}
    for path in SOURCES:
        modules.setdefault(str(Path(path).parent), set()).add(path)
    assert {room: found for room, found in modules.items() if len(found) < 4} == {}


BUDGET = re.findall(
    r"^\| `(worker|tests)` \| ([\d,]+) \|$", (ROOT / "CONTRIBUTING.md").read_text(), re.MULTILINE
)


@pytest.mark.parametrize(("folder", "most"), BUDGET)
def test_the_budget_holds(folder: str, most: str) -> None:
    lines = sum(path.read_text().count("\n") for path in (ROOT / folder).rglob("*.py"))
    assert lines <= int(most.replace(",", "")), (
        f"{folder} has {lines:,} lines of Python: take away as much as you add"
    )
