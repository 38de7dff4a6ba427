"""The precision of the default engine: what `auto` chooses, and why `bf16` is refused."""

import importlib.util
import logging
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.harness.patience import PATIENCE_SECONDS
from worker.errors import SetupError
from worker.settings import Settings
from worker.state import Fingerprint
from worker.state.errors import FingerprintMismatch
from worker.state.partition import refuse_other
from worker.text import identity
from worker.text.embedders import load_engine, resolve_precision
from worker.text.engine import EngineError
from worker.text.minilm import BF16_MODEL, MODEL


@pytest.fixture
def processor(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The file that is read in place of /proc/cpuinfo. OpenVINO counts as installed."""
    path = tmp_path / "cpuinfo"
    monkeypatch.setattr(identity, "_CPUINFO", path)
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: object())
    return path


@pytest.mark.parametrize(
    ("vendor", "flags"),
    [("AuthenticAMD", "avx avx512_bf16 avx512f"), ("GenuineIntel", "amx_bf16 avx512_bf16")],
)
def test_auto_is_bf16_where_it_is_faster(
    processor: Path, vendor: str, flags: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    processor.write_text(f"processor : 0\nvendor_id : {vendor}\nflags : {flags}\n")
    assert resolve_precision("onnx", "auto") == resolve_precision("onnx", "bf16") == "bf16"
    assert caplog.messages == ["COVERSUMM_EMBEDDER_PRECISION=auto: bf16"]
    assert resolve_precision("onnx", "fp32") == "fp32"
    for other in ("none", "onnx:folder", "sentence-transformers:x"):
        assert resolve_precision(other, "auto") == "fp32"


def test_auto_is_fp32_where_bf16_is_known_to_be_slower(
    processor: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    processor.write_text("vendor_id\t: GenuineIntel\nflags\t\t: avx512_bf16 avx512_fp16\n")
    assert (resolve_precision("onnx", "auto"), resolve_precision("onnx", "bf16")) == (
        "fp32",
        "bf16",
    )
    slower = "on Intel processors without AMX bf16 embeds 0.6 to 0.9 times as fast as fp32"
    assert [(line.levelname, line.getMessage()) for line in caplog.records] == [
        ("INFO", f"COVERSUMM_EMBEDDER_PRECISION=auto: fp32 ({slower})"),
        ("WARNING", f"COVERSUMM_EMBEDDER_PRECISION=bf16: {slower}"),
    ]


def test_another_processor_computes_in_fp32_alone(
    processor: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    processor.write_text("flags : avx avx2 avx512f avx512_vnni\n")
    assert resolve_precision("onnx", "auto") == "fp32"
    (line,) = caplog.messages
    assert "auto: fp32 (this processor has neither avx512_bf16 nor amx_bf16" in line
    with pytest.raises(EngineError, match=r"PRECISION=bf16: this processor .* set .*=fp32") as why:
        load_engine("onnx", precision="bf16")
    assert "\n" not in str(why.value)


def test_without_the_extra_the_line_says_how_to_install_it(
    processor: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    processor.write_text("flags : avx512_bf16\n")
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    assert resolve_precision("onnx", "auto") == "fp32"
    with pytest.raises(EngineError, match=r"not installed: .* -m pip install .*openvino"):
        load_engine("onnx", precision="bf16")


@pytest.mark.parametrize("other", ["none", "onnx:folder", "sentence-transformers:x"])
def test_other_embedders_have_no_bf16(other: str, tmp_path: Path) -> None:
    environment = {
        "COVERSUMM_EMBEDDER": other,
        "COVERSUMM_EMBEDDER_PRECISION": "bf16",
        "COVERSUMM_DATA_DIR": str(tmp_path),
    }
    with pytest.raises(SetupError, match=r"COVERSUMM_EMBEDDER_PRECISION: bf16 is for"):
        Settings.from_environment(environment)
    with pytest.raises(EngineError, match="for the embedder onnx alone"):
        load_engine(other, precision="bf16")


def test_a_command_that_cannot_compute_in_bf16_ends_with_one_line(tmp_path: Path) -> None:
    """On every processor: the command reads its instruction sets from a file of the test."""
    program = (
        "import sys; from pathlib import Path; from worker.text import identity; "
        "identity._CPUINFO = Path(sys.argv.pop(1)); from worker.cli import main; main()"
    )
    reviews = tmp_path / "reviews.jsonl"
    reviews.write_text('{"entity_id": "a", "review_id": "b", "text": "Fine room."}\n')
    (tmp_path / "cpuinfo").write_text("flags : avx2\n")
    ended = subprocess.run(
        [sys.executable, "-c", program, tmp_path / "cpuinfo", "summarize", reviews],
        capture_output=True,
        text=True,
        env={"COVERSUMM_EMBEDDER_PRECISION": "bf16"},
        timeout=PATIENCE_SECONDS,
    )
    assert ended.returncode == 2
    (line,) = ended.stderr.splitlines()
    assert "this processor has neither avx512_bf16 nor amx_bf16" in line


def test_the_state_of_one_precision_is_refused_by_the_other() -> None:
    """Also where `auto` chose it: the state records what was chosen."""
    made = Fingerprint(MODEL, 384, "splitter-1", 20, False, 8, "reviews", 1)
    with pytest.raises(FingerprintMismatch) as refused:
        refuse_other(made.fields(), replace(made, model=BF16_MODEL))
    assert (
        f"model: stored '{MODEL}', configured '{BF16_MODEL}' "
        "(COVERSUMM_EMBEDDER and COVERSUMM_EMBEDDER_PRECISION)"
    ) in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.bf16
def test_auto_loads_what_it_chose() -> None:
    assert load_engine("onnx", threads=1, precision="auto").model == BF16_MODEL
    assert load_engine("onnx", threads=1).model == MODEL
