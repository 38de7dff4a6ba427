"""What `[tool.compiled]` of pyproject.toml names can be compiled, and is compiled as a whole (`make
check-compiled`).
"""

from __future__ import annotations

import ast
import importlib
import os
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MODULES: list[str] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["compiled"][
    "modules"
]
NAMES = [name.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for name in MODULES]
SUFFIX = ".so" if os.environ.get("EXPECT_COMPILED") == "1" else ".py"


def structs(source: str) -> list[str]:
    """The classes of a module that are msgspec's structs, by their bases and options."""
    classes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ClassDef)]
    return [
        one.name
        for one in classes
        if one.keywords
        or any(ast.unparse(base).rpartition(".")[2] == "Struct" for base in one.bases)
    ]


def test_each_is_there_once() -> None:
    assert sorted(set(MODULES)) == MODULES
    assert [name for name in MODULES if not (ROOT / name).is_file()] == []


def test_none_holds_a_struct() -> None:
    """mypyc compiles a struct without a word, and then it is another: a mapping instead of an
    array, fields of any type.
    """
    found = {name: structs((ROOT / name).read_text()) for name in MODULES}
    assert {name: names for name, names in found.items() if names} == {}


def test_a_struct_is_seen() -> None:
    assert "LastSummary" in structs((ROOT / "worker/events/outputs.py").read_text())
    assert structs("import msgspec\nclass A(msgspec.Struct): ...\nclass B(NamedTuple): ...") == [
        "A"
    ]


def test_all_run_compiled_or_none() -> None:
    loaded = {name: str(importlib.import_module(name).__file__) for name in NAMES}
    assert [name for name, file in loaded.items() if not file.endswith(SUFFIX)] == []


def test_processes_that_tests_start_run_the_same() -> None:
    code = f"import {NAMES[0]} as module; print(module.__file__)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == importlib.import_module(NAMES[0]).__file__
