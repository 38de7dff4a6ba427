"""What a file declares of a model: its languages, its prefix, the threshold of facets."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.text.models import tiny_folder
from worker.errors import SetupError
from worker.processing.config import configured_engine, processor_config
from worker.settings import Settings
from worker.text.declared import DeclaredEngine, ModelFacts, facts_of, read_facts
from worker.text.embedders import load_engine
from worker.text.engine import EngineError
from worker.text.identity import engine_identity

FACETS = """
[[facet]]
name = "parking"
phrases = ["There was no parking."]
[[facet]]
name = "price"
phrases = ["It was cheap."]
threshold = 0.5
[[facet]]
name = "critics"
rating = { max = 2 }
"""


class Recording:
    """Keeps what it embeds; reads texts of at most 12 characters."""

    model, dimension, libraries = "mine@0123", 2, ("numpy",)

    def __init__(self) -> None:
        self.texts: list[str] = []

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.texts += texts
        return np.ones((len(texts), 2), np.float32)

    def reads_all(self, text: str) -> bool:
        return len(text) <= 12


def declare(folder: Path, **facts: object) -> None:
    (folder / "coversumm.json").write_text(json.dumps(facts))


def test_the_prefix_is_before_each_text_also_where_its_length_counts() -> None:
    inner = Recording()
    engine = DeclaredEngine(inner, ModelFacts(prefix="query: "))
    engine.embed(["quiet", " clean "])
    assert inner.texts == ["query: quiet", "query: clean"]
    assert (engine.reads_all("quiet"), engine.reads_all("quieter")) == (True, False)
    assert (engine.dimension, engine.libraries) == (2, ("numpy",))


def test_each_prefix_is_a_model_and_a_key_of_the_vector_store() -> None:
    engines = [
        DeclaredEngine(Recording(), ModelFacts(prefix=prefix))
        for prefix in ("", "query: ", "query:")
    ]
    assert len({engine.model for engine in engines}) == 3
    assert all(engine.model.startswith("mine@") for engine in engines)
    assert len({engine_identity(engine).digest for engine in engines}) == 3


def test_a_folder_s_own_file_is_read(tmp_path: Path) -> None:
    folder = tiny_folder(tmp_path)
    plain = load_engine(f"onnx:{folder}", threads=1)
    assert plain is not None
    assert facts_of(plain) == ModelFacts()
    declare(folder, languages=["fr"], prefix="query: ", threshold=0.84)
    engine = load_engine(f"onnx:{folder}", threads=1)
    assert engine is not None
    assert facts_of(engine) == ModelFacts(languages=("fr",), prefix="query: ", threshold=0.84)
    assert engine.model != plain.model
    np.testing.assert_array_equal(engine.embed(["clean"]), plain.embed(["query: clean"]))


def test_the_setting_names_a_file_elsewhere_and_wins(tmp_path: Path) -> None:
    folder = tiny_folder(tmp_path / "model")
    declare(folder, prefix="passage: ")
    declare(tmp_path, prefix="query: ")
    settings = Settings(
        embedder=f"onnx:{folder}", model_file=tmp_path / "coversumm.json", data_dir=tmp_path
    )
    assert facts_of(configured_engine(settings)).prefix == "query: "


def test_a_threshold_is_that_of_facets_that_give_none(tmp_path: Path) -> None:
    folder = tiny_folder(tmp_path / "model")
    (tmp_path / "facets.toml").write_text(FACETS)

    def thresholds_and_identity(**facts: object) -> tuple[list[float | None], str | None]:
        declare(folder, **facts)
        settings = Settings(
            embedder=f"onnx:{folder}", facets=str(tmp_path / "facets.toml"), data_dir=tmp_path
        )
        config = processor_config(settings, 1, configured_engine(settings))
        assert config.facets is not None
        facets = config.facets.definitions.facets
        return [facet.threshold for facet in facets], config.fingerprint.facets

    usual, identity = thresholds_and_identity()
    assert usual == [None, 0.5, None]
    assert thresholds_and_identity(threshold=0.4) == (usual, identity)
    other, another = thresholds_and_identity(threshold=0.84)
    assert other == [0.84, 0.5, None]
    assert identity != another


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("", "malformed|truncated"),
        ("[]", "Expected `?object"),
        ('{"prefx": "query: "}', "unknown field prefx"),
        ('{"languages": "en"}', "Expected array"),
        ('{"languages": []}', "length >= 1"),
        ('{"languages": ["en-US"]}', "matching regex"),
        ('{"threshold": 84}', "<= 1"),
        ('{"prefix": "\xff"}', "utf-8"),
    ],
)
def test_a_wrong_file_is_one_line(tmp_path: Path, content: str, problem: str) -> None:
    file = tmp_path / "model.json"
    file.write_text(content, "latin-1")
    with pytest.raises(EngineError, match=problem) as raised:
        read_facts(file)
    assert str(raised.value).startswith(f"{file}: ")
    assert "\n" not in str(raised.value)


def test_a_missing_file_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match=r"cannot read .*: No such file"):
        load_engine(f"onnx:{tiny_folder(tmp_path)}", model_file=tmp_path / "none.json")


def test_a_file_without_a_model_is_refused(tmp_path: Path) -> None:
    environment = {
        "COVERSUMM_EMBEDDER": "none",
        "COVERSUMM_MODEL_FILE": "facts.json",
        "COVERSUMM_DATA_DIR": str(tmp_path),
    }
    with pytest.raises(SetupError, match="COVERSUMM_MODEL_FILE: set, and"):
        Settings.from_environment(environment)
