"""The real graphgrove behind a pipe: run by a CPython that has it (3.8, no project imports), one
JSON line a call.

`libraries.remote` is the other end. Arrays travel as type, shape and base64. What the library
prints goes to standard error, so that standard output has the answers alone.
"""

import base64
import json
import os
import sys

import numpy as np


def decode(value):
    if isinstance(value, dict):
        data = np.frombuffer(base64.b64decode(value["data"]), value["dtype"]).reshape(
            value["shape"]
        )
        return data.copy()
    return value


def encode(value):
    if isinstance(value, np.ndarray):
        data = base64.b64encode(np.ascontiguousarray(value).tobytes()).decode()
        return {"dtype": str(value.dtype), "shape": value.shape, "data": data}
    if isinstance(value, bytes):
        return {"dtype": "uint8", "shape": [len(value)], "data": base64.b64encode(value).decode()}
    if isinstance(value, (list, tuple)):
        return [encode(item) for item in value]
    return value


def main():
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    from graphgrove.sgtree import NNS_L2

    trees = {}
    for line in sys.stdin:
        call = json.loads(line)
        arguments = [decode(argument) for argument in call["arguments"]]
        options = {name: decode(option) for name, option in call["options"].items()}
        answer = None
        if call["method"] == "from_matrix":
            answer = len(trees)
            trees[answer] = NNS_L2.from_matrix(*arguments, **options)
        elif call["method"] == "from_string":
            answer = len(trees)
            trees[answer] = NNS_L2.from_string(arguments[0].tobytes())
        elif call["method"] == "delete":
            trees[call["tree"]] = None
        else:
            answer = getattr(trees[call["tree"]], call["method"])(*arguments, **options)
        out.write(json.dumps(encode(answer)) + "\n")
        out.flush()


main()
