"""`llms.txt` names every page of the site in a sentence, and each is beside it as Markdown."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from docs.build.render import ROOT
from docs.build.site import llms
from docs.build.site.stage import STAGE, stage


def test_every_page_of_the_site_is_listed_with_what_it_says(tmp_path: Path) -> None:
    stage()
    llms.write(tmp_path, STAGE, ROOT / "mkdocs.yml")
    text = (tmp_path / "llms.txt").read_text()
    assert text.startswith("# coversumm-worker\n\n> What reviews say of each product, by subject")
    listed = re.findall(r"^- \[(.+?)\]\(([\w./-]+)\): (\S.{10,}\.)$", text, re.M)
    nav = yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]
    labelled = [page for section in nav for pages in section.values() for page in pages]
    pages = [name for page in labelled for name in page.values()]
    assert [name for _, name, _ in listed] == pages
    assert all((tmp_path / name).read_text().startswith("# ") for name in pages)
    assert not re.search(r"\]\(.*\]\(|```", text)
