"""The page about delivery explains every file that holds a rule of `make rules`, and no file that
is gone.
"""

from __future__ import annotations

import re

from tests.rules.rules import ROOT, RULES

PAGE = (ROOT / "docs" / "delivery.md").read_text(encoding="utf-8")


def test_every_file_with_a_rule_is_on_the_page() -> None:
    named = set(re.findall(r"`((?:worker|tests)/[\w/]+\.py)`", PAGE))
    assert {rule.file for rule in RULES} - named == set()
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []
