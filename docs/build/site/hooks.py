"""What mkdocs does besides: headings have the anchors that code hosts give them, formulas are
MathML, and diagrams are drawn by a copy of Mermaid in the site, where there is one.
"""

import html
import os
import re
import shutil
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert
from pymdownx.superfences import fence_code_format

from worker import __version__

MERMAID = Path(__file__).resolve().parents[3] / ".cache" / "site" / "mermaid.min.js"
_FORMULA = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.S)


def on_config(config: Any) -> Any:
    """The version, a link to the repository if REPOSITORY is its address, anchors as there, and
    code for Mermaid.
    """
    config.site_name += f" {__version__}"
    if repository := os.environ.get("REPOSITORY"):
        config.copyright = f'<a href="{html.escape(repository)}">Repository</a>'
    config.mdx_configs["toc"]["slugify"] = slug
    (mermaid,) = config.mdx_configs["pymdownx.superfences"]["custom_fences"]
    mermaid["format"] = fence_code_format
    return config


def slug(heading: str, separator: str) -> str:
    """A heading's anchor."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", separator)


def on_page_content(content: str, **_: Any) -> str:
    """Formulas as MathML."""
    return _FORMULA.sub(
        lambda found: convert(
            html.unescape(found[2]), display="block" if found[1] == "div" else "inline"
        ),
        content,
    )


def on_post_page(output: str, page: Any, **_: Any) -> str:
    """The script that draws diagrams, on pages that have one."""
    if '<pre class="mermaid">' not in output:
        return output
    if not MERMAID.exists():
        return output.replace('<pre class="mermaid">', "<pre>")
    up = "../" * page.url.count("/")
    return output.replace("</head>", f'<script src="{up}mermaid.min.js"></script></head>')


def on_post_build(config: Any, **_: Any) -> None:
    """Mermaid itself."""
    if MERMAID.exists():
        shutil.copy(MERMAID, config.site_dir)
