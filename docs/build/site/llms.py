"""`llms.txt`: the site for machines that read (llmstxt.org): a list of pages, each as Markdown."""

import re
import shutil
from pathlib import Path
from typing import Any

import yaml

SUMMARY = re.compile(r"^(?!#|!|\||```|<|- )(\S.*?)(?:\.\s|\n\n|\Z)", re.M | re.S)
IMAGE_OR_LINK = re.compile(r"!?\[([^\]]*)\](?:\([^)]*\)|\[[^\]]*\])")


def write(site: Path, pages: Path, config: Path) -> None:
    """Write it into a built site, and a copy of each of its pages beside it."""
    about = yaml.safe_load(config.read_text("utf-8"))
    lines = [f"# {about['site_name']}", "", f"> {_summary(pages / 'README.md')}"]
    for section in about["nav"]:
        for title, labelled in section.items():
            names = [name for page in labelled for name in page.values()]
            lines += ["", f"## {title}", "", *(_line(pages, name) for name in names)]
            for name in names:
                target = site / name
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(pages / name, target)
    (site / "llms.txt").write_text("\n".join(lines) + "\n", "utf-8")


def _line(pages: Path, name: str) -> str:
    heading: Any = re.search(r"^# (.+)$", (pages / name).read_text("utf-8"), re.M)
    return f"- [{heading[1]}]({name}): {_summary(pages / name)}"


def _summary(page: Path) -> str:
    """The first sentence under the heading."""
    text = re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.M | re.S)
    found = SUMMARY.search(text.partition("\n")[2])
    text = "" if found is None else " ".join(found[1].split())
    return IMAGE_OR_LINK.sub(r"\1", text).rstrip(".:") + "."
