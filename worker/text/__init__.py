"""Text to sentences to vectors.

`splitting` splits a text. `embedders` maps the setting to an engine, `engine` defines the protocol;
engines are `onnx` (with `minilm`, `layout` and `packed`; `openvino` runs the default model in bf16)
and `sentence_transformers`. `hub` loads models of the Hugging Face hub at a pinned revision,
`identity` tells whether vectors may be reused.
"""
