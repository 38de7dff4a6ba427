"""The default engine: ONNX Runtime, without torch.

Any model folder with `onnx/model.onnx` (see `layout.py`), of this machine or of the hub; the default model's graph is
made in memory from its weights (`minilm.py`).

Why the same sentence has the same bits on every call: a matrix product's bits depend on its shape, never on the values
of other rows. So a sentence is padded to a length that is a function of that sentence alone, no batch has a single row
(ONNX Runtime has other kernels for it), a batch runs on one thread, and pooling is done here, row by row.
"""

import os
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker.text.batching import Batch, batches, well_formed
from worker.text.errors import EngineError
from worker.text.hub import HubUnavailable, hub_folder
from worker.text.layout import Layout, digest, read_layout

LENGTH_STEP = 2
"""A sentence is padded to a multiple of this many tokens. 1 saves the padding, and finds fewer sentences to run together:
measured on reviews, 2 wastes 6 % of a thousand sentences, 14 % of a hundred; 8 wastes a quarter of both."""
POOL = 1024
"""Sentences tokenized and sorted by length at a time: bounds what a call holds, and what a shutdown waits for."""

_HUB = re.compile(r"(?P<name>[\w.-]+/[\w.-]+)@(?P<revision>[0-9a-f]{40})")
_HUB_FILES = ["*.json", "*/config.json", "onnx/model.onnx", "onnx/model.onnx_data"]
_INPUTS = {"input_ids", "attention_mask", "token_type_ids"}
_OUTPUTS = ("last_hidden_state", "token_embeddings")


class OnnxEngine:
    """A transformer in an ONNX Runtime session, with tokenizer and pooling around it.

    `threads` batches run at a time, each on one thread: no thread waits for others within a batch, as ONNX Runtime's own
    would, and the number of threads cannot touch the bits.
    """

    def __init__(self, model: str, layout: Layout, session: Any, threads: int) -> None:
        self.model = model
        self.dimension = layout.dimension
        self._layout = layout
        self._session = session
        self._inputs = {given.name for given in session.get_inputs()}
        self._output = _hidden_states(model, session)
        if unknown := self._inputs - _INPUTS:
            raise EngineError(f"{model}: the ONNX graph wants unknown inputs: {', '.join(sorted(unknown))}")
        self._tokenizer = _tokenizer(layout)
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="embed")

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """One row per text, `(len(texts), dimension)`."""
        vectors = np.empty((len(texts), self.dimension), np.float32)
        for start in range(0, len(texts), POOL):
            self._embed(texts[start : start + POOL], vectors[start : start + POOL])
        return vectors

    def _embed(self, texts: Sequence[str], vectors: NDArray[np.float32]) -> None:
        """Fill `vectors`; each batch has rows of its own there."""
        tokens = [self._tokens(text) for text in texts]

        def run(batch: Batch) -> None:
            hidden = self._run([tokens[i] for i in batch.rows], batch.length)
            for row, i in enumerate(batch.rows):
                vectors[i] = self._vector(hidden[row, : len(tokens[i])])

        for _ in self._pool.map(
            run, batches([len(ids) for ids in tokens], LENGTH_STEP, self._layout.max_tokens)
        ):
            pass  # raises what a batch raised

    def _tokens(self, text: str) -> list[int]:
        text = well_formed(text).strip()
        ids: list[int] = self._tokenizer.encode(text.lower() if self._layout.lower_case else text).ids
        return ids

    def _run(self, tokens: Sequence[list[int]], length: int) -> NDArray[np.float32]:
        """Hidden states `(rows, length, dimension)` of at least two rows: a single sentence runs beside a copy of itself."""
        rows = max(2, len(tokens))
        ids = np.full((rows, length), self._layout.pad_id, np.int64)
        mask = np.zeros((rows, length), np.int64)
        for row in range(rows):
            sentence = tokens[min(row, len(tokens) - 1)]
            ids[row, : len(sentence)] = sentence
            mask[row, : len(sentence)] = 1
        feed = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        hidden: NDArray[np.float32] = self._session.run(
            [self._output], {name: feed[name] for name in self._inputs}
        )[0]
        return hidden

    def _vector(self, hidden: NDArray[np.float32]) -> NDArray[np.float64]:
        """The sentence's vector from its tokens' hidden states `(tokens, dimension)`."""
        vector: NDArray[np.float64]
        if self._layout.pooling == "cls":
            vector = hidden[0].astype(np.float64)
        else:
            vector = hidden.sum(axis=0, dtype=np.float64) / len(hidden)
        if self._layout.normalize:
            vector /= max(float(np.sqrt((vector * vector).sum())), 1e-12)
        return vector


def load_folder(folder: Path, threads: int, name: str | None = None) -> OnnxEngine:
    """The model in `folder`; its name is `name` or the folder's, with the hash of everything that makes a vector."""
    layout = read_layout(folder)
    graph = folder / "onnx" / "model.onnx"
    if not graph.is_file():
        raise EngineError(f"{graph} is missing: export the model to ONNX into this folder")
    weights = sorted(path for path in graph.parent.iterdir() if path.name.startswith(graph.name))
    parts = [*weights, layout.tokenizer]
    settings = repr(layout._replace(tokenizer=Path(layout.tokenizer.name)))
    model = f"{name or folder.resolve().name}@{digest(parts, settings)[:12]}"
    return OnnxEngine(model, layout, open_session(str(graph)), threads)


def load_hub(spec: str, threads: int, cache_dir: Path | None) -> OnnxEngine:
    """`OWNER/NAME@REVISION` of the Hugging Face hub, taken from its cache or downloaded into it."""
    named = _HUB.fullmatch(spec)
    if named is None:
        raise EngineError(
            f"onnx:hub:{spec}: must be OWNER/NAME@REVISION with the revision's full commit hash (40 hexadecimal digits): "
            "a branch or tag may change under the state"
        )
    try:
        folder = hub_folder(named["name"], named["revision"], _HUB_FILES, cache_dir)
    except HubUnavailable as error:
        raise EngineError(
            f"cannot get {spec} from the Hugging Face hub ({error}): check name, revision and network, "
            "or download the model's folder and use onnx:FOLDER"
        ) from error
    return load_folder(folder, threads, named["name"].rpartition("/")[2])


def open_session(graph: str | bytes, weights: dict[str, NDArray[np.float32]] | None = None) -> Any:
    """An ONNX Runtime session that runs in the calling thread; `weights` are the graph's external initializers."""
    # ONNX Runtime reports its use to Microsoft, unless this is set before its import.
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 3  # errors; they are raised as well
    # Kept memory plans per input shape: there are hundreds of shapes, and they save nothing.
    options.enable_mem_pattern = False
    if weights:
        values = [onnxruntime.OrtValue.ortvalue_from_numpy(value) for value in weights.values()]
        options.add_external_initializers(list(weights), values)
    try:
        return onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # the library's errors have no base but Exception
        where = graph if isinstance(graph, str) else "the graph"
        raise EngineError(f"ONNX Runtime cannot load {where}: {str(error).splitlines()[0]}") from error


def _tokenizer(layout: Layout) -> Any:
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_file(str(layout.tokenizer))
    except Exception as error:  # the library raises bare Exception
        raise EngineError(f"{layout.tokenizer} is no tokenizer: {error}") from error
    # The file may ship padding to a fixed length, and another truncation than the model was trained with.
    tokenizer.no_padding()
    tokenizer.enable_truncation(layout.max_tokens)
    return tokenizer


def _hidden_states(model: str, session: Any) -> str:
    """Name of the output with a hidden state per token."""
    names = [output.name for output in session.get_outputs()]
    for name in _OUTPUTS:
        if name in names:
            return name
    raise EngineError(
        f"{model}: the ONNX graph has no output {' or '.join(_OUTPUTS)}, but {', '.join(names)}"
    )
