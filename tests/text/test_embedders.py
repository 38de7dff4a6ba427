"""The setting, its help, its errors and the loader agree on what names an embedder, since all have
it from one table.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from worker.errors import SetupError
from worker.settings import Settings
from worker.text.embedders import EMBEDDERS, FORMS, PATTERN, load_engine
from worker.text.engine import EngineError

NAMED = {
    "onnx": "onnx",
    "onnx:~/model": "onnx:FOLDER",
    "onnx:/models/hub:a": "onnx:FOLDER",
    "onnx:hub:owner/name@main": "onnx:hub:OWNER/NAME@REVISION",
    "sentence-transformers:owner/name": "sentence-transformers:NAME_OR_FOLDER",
    "none": "none",
}
UNKNOWN = (
    "onyx",
    "ONNX",
    "onnx:",
    "onnx:hub:",
    "onnx:a\nb",
    "sentence-transformers",
    "sentence-transformers:",
    "none:x",
)


@pytest.mark.parametrize(("spec", "form"), NAMED.items())
def test_each_spec_is_of_one_form_and_a_setting(spec: str, form: str, tmp_path: Path) -> None:
    assert [embedder.form for embedder in EMBEDDERS if re.fullmatch(embedder.pattern, spec)] == [
        form
    ]
    environment = {"COVERSUMM_EMBEDDER": spec, "COVERSUMM_DATA_DIR": str(tmp_path)}
    assert Settings.from_environment(environment).embedder == spec


@pytest.mark.parametrize("spec", UNKNOWN)
def test_what_names_none_is_refused_by_the_setting_and_by_the_loader(
    spec: str, tmp_path: Path
) -> None:
    assert re.fullmatch(PATTERN, spec) is None
    environment = {"COVERSUMM_EMBEDDER": spec, "COVERSUMM_DATA_DIR": str(tmp_path)}
    with pytest.raises(SetupError, match=re.escape(FORMS)):
        Settings.from_environment(environment)
    with pytest.raises(EngineError, match=re.escape(FORMS)):
        load_engine(spec)


def test_settings_import_no_engine() -> None:
    """They are read before NumPy's threads are limited, and for every `--help`."""
    heavy = {"numpy", "onnxruntime", "onnx", "tokenizers", "nupunkt", "huggingface_hub", "msgspec"}
    program = f"import sys, worker.settings; print(sorted({heavy!r} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"
