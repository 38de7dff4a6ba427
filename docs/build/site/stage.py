"""The pages in the tree of the repository, with every file that one of them links to.

So a link means the same in the repository and in the site. A link to a folder leads to its page
README.md, or to a list of its files.
"""

import re
import shutil
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
STAGE = ROOT / "build" / "pages"
SHIM = Path(__file__).with_name("iframe-worker.js")
_CODE = re.compile(r"^```.*?^```", re.M | re.S)
_LINK = re.compile(r"(\]\(|^\[[^\]]+\]: )([^)\s]+)", re.M)


def stage() -> None:
    """Fill `STAGE` anew."""
    shutil.rmtree(STAGE, ignore_errors=True)
    STAGE.mkdir(parents=True)
    shutil.copy(SHIM, STAGE)
    waiting, seen = [ROOT / "README.md"], set()
    while waiting:
        page = waiting.pop()
        if page in seen:
            continue
        seen.add(page)
        text = page.read_text("utf-8") if page.exists() else _listing(page.parent)
        text, targets = _linked(page, text)
        _target(page).write_text(_marks_removed(text), "utf-8")
        for target in targets:
            if target.suffix == ".md":
                waiting.append(target)
            else:
                shutil.copy(target, _target(target))


def _target(source: Path) -> Path:
    staged = STAGE / source.relative_to(ROOT)
    staged.parent.mkdir(parents=True, exist_ok=True)
    return staged


def _linked(page: Path, text: str) -> tuple[str, list[Path]]:
    """The text with links to folders as links to their pages, and the files that it links to."""
    targets: list[Path] = []

    def link(found: re.Match[str]) -> str:
        before, name = found.groups()
        path, _, section = name.partition("#")
        if re.match("[a-z]+:", name) or not path:
            return found[0]
        target = (page.parent / path).resolve()
        if target.is_dir():
            target, path = target / "README.md", f"{path.rstrip('/')}/README.md"
        targets.append(target)
        return f"{before}{path}" + (f"#{section}" if section else "")

    pieces, at = [], 0
    for code in [*_CODE.finditer(text), None]:
        end = len(text) if code is None else code.start()
        pieces.append(_LINK.sub(link, text[at:end]))
        if code is not None:
            pieces.append(code[0])
            at = code.end()
    return "".join(pieces), targets


def _marks_removed(text: str) -> str:
    """Without the marks of generated tables: a table begins after an empty line."""
    return re.sub(r"^<!-- /?\w+ -->$", "", text, flags=re.M)


def _listing(folder: Path) -> str:
    """The page of a folder that has none."""
    names = [
        f"{path.name}/" if path.is_dir() else path.name
        for path in sorted(folder.iterdir())
        if path.name[0] not in "._"
    ]
    lines = [f"# {folder.relative_to(ROOT).as_posix()}", "", *(f"- [{n}]({n})" for n in names)]
    return "\n".join(lines) + "\n"
