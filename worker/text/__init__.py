"""Text to sentences to vectors: the worker's only view of a review's language.

`split_sentences` and `cap_sentence` are pure; `load_engine` gives the model that embeds what they return.
"""

from worker.text.engine import EmbeddingEngine
from worker.text.errors import EngineError
from worker.text.loading import load_engine
from worker.text.splitting import SPLITTER, cap_sentence, split_sentences

__all__ = ["SPLITTER", "EmbeddingEngine", "EngineError", "cap_sentence", "load_engine", "split_sentences"]
