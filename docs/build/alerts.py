"""`python -m docs.build.alerts RUNBOOK_URL [FILE]`: write the alerting rules to FILE or standard
output, with links to a copy of the runbook.

Only the links change: `deploy/alerts.yml` is the source of the rules.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

SOURCE: Final = Path(__file__).resolve().parents[2] / "deploy" / "alerts.yml"
LINK: Final = "runbook_url: RUNBOOK.md#"


def rendered(rules: str, runbook_url: str) -> str:
    """The rules with absolute links. Raises ValueError unless `runbook_url` is an http or https
    address without a fragment.
    """
    parts = urlsplit(runbook_url)
    if (
        parts.scheme not in ("http", "https")
        or not parts.hostname
        or "#" in runbook_url
        or runbook_url.split() != [runbook_url]
    ):
        raise ValueError(
            f"{runbook_url!r} is not the runbook's address: https://wiki.example.com/RUNBOOK.md"
        )
    return rules.replace(LINK, f"runbook_url: {runbook_url}#")


def main(arguments: Sequence[str]) -> int:
    """Write the rules; return 2 if the arguments are wrong."""
    if len(arguments) not in (1, 2):
        print(
            "usage: make alerts RUNBOOK_URL=https://.../RUNBOOK.md [ALERTS=FILE]", file=sys.stderr
        )
        return 2
    try:
        text = rendered(SOURCE.read_text(encoding="utf-8"), arguments[0])
    except ValueError as cause:
        print(f"error: {cause}", file=sys.stderr)
        return 2
    if len(arguments) == 1:
        sys.stdout.write(text)
        return 0
    target = Path(arguments[1])
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text, encoding="utf-8")
    print(f"written: {target}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
