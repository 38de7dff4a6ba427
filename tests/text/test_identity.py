"""Engines of one identity give the same bits; whatever else gives others has another identity."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.harness.patience import PATIENCE_SECONDS
from tests.text.precisions import PRECISIONS
from worker.text import identity
from worker.text.embedders import load_engine
from worker.text.identity import DIGEST_BYTES, engine_identity, machine_type, software
from worker.text.sentence_transformers import SentenceTransformersEngine


class Engine:
    model = "model@1"
    dimension = 2
    libraries = ("onnxruntime",)

    def __init__(self, bit: int = 0) -> None:
        self.bit = bit

    def embed(self, texts):
        vectors = np.array([[len(text), 0.1] for text in texts], np.float32)
        vectors[-1].view(np.uint32)[1] ^= self.bit
        return vectors


def test_the_same_engine_is_the_same():
    identity = engine_identity(Engine())
    assert identity == engine_identity(Engine())
    assert len(identity.digest) == DIGEST_BYTES
    assert identity.digest == engine_identity(Engine()).digest
    assert (identity.model, identity.dimension) == ("model@1", 2)
    assert "onnxruntime " in identity.software
    assert identity.machine == machine_type()


def test_another_bit_of_one_vector_is_another_engine():
    assert engine_identity(Engine()).digest != engine_identity(Engine(bit=1)).digest


@pytest.mark.parametrize("field", ["model", "dimension", "machine", "software", "probe"])
def test_everything_is_in_the_digest(field):
    identity = engine_identity(Engine())
    assert (
        identity._replace(**{field: 3 if field == "dimension" else "other"}).digest
        != identity.digest
    )


@pytest.mark.parametrize("precision", PRECISIONS)
def test_threads_and_processes_do_not_matter(precision):
    """Of the real engine."""
    program = (
        "from worker.text.embedders import load_engine; from worker.text.identity import "
        "engine_identity;"
        f"engine = load_engine('onnx', threads=2, precision='{precision}');"
        "print(engine_identity(engine).digest.hex())"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=True,
        cwd=Path(__file__).parents[2],
    )
    engine = load_engine("onnx", threads=1, precision=precision)
    identity = engine_identity(engine)
    assert ended.stdout.strip() == identity.digest.hex()
    names = [package.partition(" ")[0] for package in identity.software.split(", ")]
    more = ["openvino"] if precision == "bf16" else []
    assert names == ["numpy", "onnxruntime", *more, "tokenizers"]


@pytest.mark.parametrize(
    ("text", "machine"),
    [
        (
            "processor\t: 0\nflags\t\t: fpu sse2 avx avx2 smep sme fma\nflags : other",
            "m avx avx2 fma sse2",
        ),
        ("Features\t: fp asimd evtstrm sve i8mm sme\n", "m asimd i8mm sme sve"),
        ("nothing of the kind", "m"),
        (None, "m"),
    ],
)
def test_the_type_of_a_machine(monkeypatch, tmp_path, text, machine):
    path = tmp_path / "cpuinfo"
    if text is not None:
        path.write_text(text)
    monkeypatch.setattr(identity, "_CPUINFO", path)
    monkeypatch.setattr(identity.platform, "machine", lambda: "m")
    assert machine_type() == machine


def test_software_has_the_versions():
    assert (
        software(["numpy", "no-such-package"]) == f"no-such-package unknown, numpy {np.__version__}"
    )


def test_an_engine_may_name_no_packages():
    engine = Engine()
    engine.libraries = ()
    assert engine_identity(engine).software == ""
    assert "torch" in SentenceTransformersEngine.libraries
