"""Text to sentences to vectors: the worker's only view of a review's language.

splitting      a text to its sentences; pure embedders      which engines there are, by the setting
that names one engine         what an embedding engine is; `onnx.py`, `minilm.py` and
`sentence_transformers.py` are those there are hub            models of the Hugging Face hub, at a
pinned revision
"""
