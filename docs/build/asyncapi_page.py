"""`python -m docs.build.asyncapi_page`: write build/asyncapi.html, one file that shows the AsyncAPI
document without a network.
"""

import json
import sys
from typing import Any, Final

from docs.build.asyncapi import document
from docs.build.render import ROOT
from tests.deploy.tools import ASYNCAPI, install_asyncapi

PAGE: Final = ROOT / "build" / "asyncapi.html"
_HTML: Final = """<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>{title}</title><style>{style}</style></head>
<body style="font-family: sans-serif">
<div id="asyncapi"></div>
<script>{script}</script>
<script>
AsyncApiStandalone.render(
  {{schema: {schema}, config: {{show: {{errors: true}}}}}}, document.getElementById("asyncapi")
);
</script>
</body>
</html>
"""


def page(shown: dict[str, Any]) -> str:
    """The page; the viewer must be installed."""
    viewer = ASYNCAPI / "node_modules" / "@asyncapi" / "react-component"
    return _HTML.format(
        title=shown["info"]["title"],
        style=(viewer / "styles" / "default.min.css").read_text("utf-8"),
        script=_inlined((viewer / "browser" / "standalone" / "index.js").read_text("utf-8")),
        schema=_inlined(json.dumps(shown)),
    )


def _inlined(script: str) -> str:
    """A script that does not end the element it is in."""
    return script.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def main() -> int:
    """Write the page; return 1 without Node.js."""
    if not install_asyncapi():
        return 1
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page(document()), "utf-8")
    print(f"written: {PAGE.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
