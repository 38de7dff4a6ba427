"""The pages: links lead somewhere, README is short and as wide as a terminal, and names what
exists.
"""

import re
from pathlib import Path

from docs.build.render import ROOT
from worker.settings import settings_by_field

PAGES = sorted(
    [*ROOT.glob("*.md"), *(ROOT / "deploy").rglob("*.md"), *(ROOT / "docs").rglob("*.md")]
)
README = ROOT / "README.md"


def links(path: Path) -> set[str]:
    """The targets inside the project that a page links to."""
    text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.M | re.S)
    targets = re.findall(r"\]\(([^)\s]+)\)", text) + re.findall(
        r"^\[[^\]]+\]: (\S+)$", text, flags=re.M
    )
    return {target for target in targets if not target.startswith("https://")}


def anchors(path: Path) -> set[str]:
    """The anchors of a page's headings, as Markdown renderers make them."""
    headings = re.findall(r"^#+ (.+)$", path.read_text(encoding="utf-8"), flags=re.M)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_link_leads_somewhere() -> None:
    for path in PAGES:
        for link in links(path):
            file, _, section = link.partition("#")
            target = (path.parent / file).resolve() if file else path
            assert target.exists(), (path, link)
            assert not section or section in anchors(target), (path, link)


def test_every_page_is_linked_to() -> None:
    linked = {
        (path.parent / link.partition("#")[0]).resolve() for path in PAGES for link in links(path)
    }
    assert [path for path in PAGES if path not in linked and path != README] == []


def test_every_setting_exists() -> None:
    known = {setting.variable for setting in settings_by_field().values()}
    known |= {"COVERSUMM_GRAPHGROVE_PYTHON"}  # of the paper's benchmark
    named = {
        (name, path)
        for path in PAGES
        for name in re.findall(r"\bCOVERSUMM_[A-Z_]*[A-Z]\b", path.read_text(encoding="utf-8"))
    }
    assert named
    assert [link for link in sorted(named) if link[0] not in known] == []


def test_every_make_target_exists() -> None:
    targets = set(
        re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.M)
    )
    named = {
        target
        for path in PAGES
        for target in re.findall(
            r"(?:`|^)make ([a-z-]+)", path.read_text(encoding="utf-8"), flags=re.M
        )
    }
    assert "demo" in named
    assert named <= targets
