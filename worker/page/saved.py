"""The history of an entity as the live page in one file, with its data inside (`history --html`).

The file loads nothing and sends nothing. Texts of reviews are data, never markup: the page's own
scripts set them as text.
"""

import json
import re
from base64 import b64encode
from collections.abc import Sequence
from hashlib import sha256
from importlib.resources import files
from typing import Any, Final

import msgspec

from worker.events import SummaryChanged
from worker.published.history import HistoryStep, PublishedChange

_STYLES: Final = ("page.css", "timeline.css")
_SCRIPTS: Final = (
    *("dom.js", "changes.js", "facets.js", "overview.js", "timeline.js", "entity.js"),
    "saved.js",  # in place of `server.js`
)
_MODULE: Final = re.compile("^import .*\n|^export ", re.MULTILINE)
"""What makes modules of the scripts: one script needs neither."""
_PAGE: Final = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>History</title>
<style>{style}</style>
</head>
<body class="saved one">
<main><section id="shown"></section></main>
<noscript>This page needs JavaScript; `coversumm-worker history` does not.</noscript>
<script type="application/json" id="saved">{data}</script>
<script>{script}</script>
</body>
</html>
"""


def saved_page(entity_id: str, source: str, steps: Sequence[HistoryStep]) -> str:
    """The history of a summary, or of facets, from this topic or file, as one HTML file.

    There is at least one step, the newest is the last.
    """
    has_facets = any(one.publication.facet is not None for one in steps)
    last = steps[-1].publication.body
    data = {
        "entity_id": entity_id,
        "source": source,
        "view": "facets" if has_facets else "ranking",
        "summary": None if has_facets else last,
        "facets": {"ratings": {"mean": None}, "facets": _facets(steps)} if has_facets else None,
        "changes": [PublishedChange.of(step) for step in steps],
        "is_incomplete": any(step.incomplete for step in steps),
    }
    style = "".join(map(_read, _STYLES))
    script = '"use strict";\n' + "".join(_MODULE.sub("", _read(one)) for one in _SCRIPTS)
    digest = b64encode(sha256(script.encode()).digest()).decode()
    # Only this script runs, and nothing is loaded, whatever a text may hold.
    policy = (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; "
        "base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; "
        "trusted-types 'none'"
    )
    # Without `<` no text can end its element, and in ASCII none can turn what is around it.
    shown = json.dumps(msgspec.to_builtins(data)).replace("<", "\\u003c")
    return _PAGE.format(policy=policy, style=style, data=shown, script=script)


def _facets(steps: Sequence[HistoryStep]) -> list[dict[str, Any]]:
    """The facets of the steps as after the last one, the largest first."""
    last: dict[str, SummaryChanged] = {}
    for step in steps:
        facet, body = step.publication.facet, step.publication.body
        if body is None:
            last.clear()
        elif facet is not None:
            last[facet] = body
    ordered = sorted(last.items(), key=lambda one: (-one[1].sentence_count, one[0]))
    return [{"name": name, **msgspec.to_builtins(body)} for name, body in ordered]


def _read(name: str) -> str:
    return files(__package__).joinpath("static", name).read_text("utf-8")
