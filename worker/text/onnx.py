"""The default engine: ONNX Runtime, without torch.

Runs the default model (`minilm.py`), or a model folder with `onnx/model.onnx` (see `layout.py`),
local or from the hub.

The same sentence has the same bits on every call: the encoder groups sentences so that the group
does not change them (`packed.py`), a batch runs on one thread, and pooling is done here, sentence
by sentence.
"""

import os
import re
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from worker.text.declared import NOTHING, ModelFacts
from worker.text.engine import EngineError, first_line, most_tokens, well_formed
from worker.text.hub import HubUnavailable, hub_folder
from worker.text.layout import Layout, digest, read_layout
from worker.text.packed import PaddedEncoder


def open_session(graph: str | bytes, weights: dict[str, NDArray[np.float32]] | None = None) -> Any:
    """An ONNX Runtime session for the calling thread; it copies `weights`, the external
    initializers.

    Raises EngineError.
    """
    # ONNX Runtime reports its use to Microsoft, unless this is set before its import.
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    import onnxruntime

    try:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        options.log_severity_level = 3  # errors; they are raised as well
        _share_memory()
        options.add_session_config_entry("session.use_env_allocators", "1")
        # Kept memory plans per input shape: there are hundreds of shapes, and they save nothing.
        options.enable_mem_pattern = False
        if weights:
            values = [onnxruntime.OrtValue.ortvalue_from_numpy(value) for value in weights.values()]
            options.add_external_initializers(list(weights), values)
        return onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # the library's errors have no base but Exception
        where = graph if isinstance(graph, str) else "the graph"
        raise EngineError(f"ONNX Runtime cannot load {where}: {first_line(error)}") from error


@cache
def _share_memory() -> None:
    """Use one arena for all sessions: only one of them needs its memory at a time."""
    import onnxruntime

    kind = onnxruntime.OrtAllocatorType.ORT_ARENA_ALLOCATOR
    memory = onnxruntime.OrtMemoryInfo("Cpu", kind, 0, onnxruntime.OrtMemType.DEFAULT)
    onnxruntime.create_and_register_allocator(memory, onnxruntime.OrtArenaCfg(0, -1, -1, -1))


LIBRARIES = ("numpy", "onnxruntime", "tokenizers")  # the packages that compute the vectors
POOL = 1024
"""Sentences tokenized and sorted together; bounds a call's memory and the wait at shutdown."""
TOKENIZED = 64  # sentences that a thread tokenizes at a time
_HUB = re.compile(r"(?P<name>[\w.-]+/[\w.-]+)@(?P<revision>[0-9a-f]{40})")
_HUB_FILES = ["*.json", "*/config.json", "onnx/model.onnx", "onnx/model.onnx_data"]


class Encoder(Protocol):
    """A transformer: the tokens of sentences to their hidden states."""

    def batches(self, tokens: Sequence[int], threads: int) -> Sequence[Sequence[int]]:
        """The sentences of each batch, from their numbers of tokens and the number of threads."""

    def run(self, tokens: Sequence[Sequence[int]]) -> Sequence[NDArray[np.float32]]:
        """The hidden states `(tokens, dimension)` of each sentence of a batch, in the calling
        thread.
        """


class OnnxEngine:
    """An encoder in ONNX Runtime, with tokenizer and pooling.

    `threads` batches run in parallel, each on one thread: unlike with ONNX Runtime's own threads,
    none waits within a batch, and the number of threads cannot change the bits.
    """

    def __init__(
        self,
        model: str,
        layout: Layout,
        encoder: Encoder,
        threads: int,
        libraries: tuple[str, ...] = LIBRARIES,
        facts: ModelFacts = NOTHING,
    ) -> None:
        self.facts = facts
        self.model = model
        self.libraries = libraries
        self.dimension = layout.dimension
        self._layout = layout
        self._encoder = encoder
        self._tokenizer = _tokenizer(layout)
        # some tokenizers begin a text with a token of their own, besides the special ones
        special = self._tokenizer.num_special_tokens_to_add(False) + 1
        self._surely_read = layout.max_tokens - special
        self._threads = threads
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="embed")

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """One row per text, `(len(texts), dimension)`."""
        vectors = np.empty((len(texts), self.dimension), np.float32)
        for start in range(0, len(texts), POOL):
            self._embed(texts[start : start + POOL], vectors[start : start + POOL])
        return vectors

    def _embed(self, texts: Sequence[str], vectors: NDArray[np.float32]) -> None:
        """Fill `vectors`; each batch writes its own rows. A single text, such as a reader's
        question, does not wait for the batches of a micro-batch.
        """
        in_parts: Callable[..., Iterable[Any]] = self._pool.map if len(texts) > 1 else map
        parts = (texts[start : start + TOKENIZED] for start in range(0, len(texts), TOKENIZED))
        tokens = list(chain.from_iterable(in_parts(self.tokens, parts)))

        def run(batch: Sequence[int]) -> None:
            for i, hidden in zip(batch, self._encoder.run([tokens[i] for i in batch]), strict=True):
                vectors[i] = self._vector(hidden)

        batches = self._encoder.batches([len(ids) for ids in tokens], self._threads)
        for _ in in_parts(run, batches):
            pass  # raises what a batch raised

    def tokens(self, texts: Sequence[str]) -> list[list[int]]:
        """Each text's tokens, truncated to the model's length."""
        prepared = [self._prepared(text) for text in texts]
        return [encoding.ids for encoding in self._tokenizer.encode_batch_fast(prepared)]

    def reads_all(self, text: str) -> bool:
        """True if the text has at most the model's number of tokens. Most texts are too short for
        more, so that nothing is tokenized.
        """
        cased = text.lower() if self._layout.lower_case else text
        if most_tokens(cased) <= self._surely_read:
            return True
        return not self._tokenizer.encode(self._prepared(text)).overflowing

    def _prepared(self, text: str) -> str:
        stripped = well_formed(text).strip()
        return stripped.lower() if self._layout.lower_case else stripped

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
    """The model in `folder`; its name ends with a hash of everything that determines a vector."""
    layout = read_layout(folder)
    graph = folder / "onnx" / "model.onnx"
    if not graph.is_file():
        raise EngineError(f"{graph} is missing: export the model to ONNX into this folder")
    weights = sorted(path for path in graph.parent.iterdir() if path.name.startswith(graph.name))
    parts = [*weights, layout.tokenizer]
    settings = repr(layout._replace(tokenizer=Path(layout.tokenizer.name)))
    model = f"{name or folder.resolve().name}@{digest(parts, settings)[:12]}"
    return OnnxEngine(
        model, layout, PaddedEncoder(model, layout, open_session(str(graph))), threads
    )


def load_hub(spec: str, threads: int, cache_dir: Path | None) -> OnnxEngine:
    """`OWNER/NAME@REVISION` of the Hugging Face hub, from its cache or downloaded."""
    named = _HUB.fullmatch(spec)
    if named is None:
        raise EngineError(
            f"onnx:hub:{spec}: must be OWNER/NAME@REVISION with the revision's full commit hash "
            "(40 hexadecimal digits): "
            "a branch or tag may change under the state"
        )
    try:
        folder = hub_folder(named["name"], named["revision"], _HUB_FILES, cache_dir)
    except HubUnavailable as error:
        raise EngineError(
            f"cannot get {spec} from the Hugging Face hub ({error}): check name, revision and "
            "network, "
            "or download the model's folder and use onnx:FOLDER"
        ) from error
    return load_folder(folder, threads, named["name"].rpartition("/")[2])


def _tokenizer(layout: Layout) -> Any:
    # Batches are tokenized in the engine's threads, not in more of the library's own.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_file(str(layout.tokenizer))
    except Exception as error:  # the library raises bare Exception
        raise EngineError(f"{layout.tokenizer} is not a tokenizer: {error}") from error
    # The file may ship padding to a fixed length, and another truncation than the model was trained
    # with.
    tokenizer.no_padding()
    tokenizer.enable_truncation(layout.max_tokens)
    return tokenizer
