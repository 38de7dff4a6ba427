"""The page about delivery names every rule that `make rules` takes out, and no other, with the file
it is in.
"""

from __future__ import annotations

import re

from tests.rules.rules import ROOT, RULES

PAGE = (ROOT / "docs" / "delivery.md").read_text(encoding="utf-8")
WORDS = " ".join(PAGE.split())
RULE_NAMES = {rule.rule for rule in RULES}


def test_every_rule_is_named_and_nothing_else_is() -> None:
    bold = {" ".join(name.split()) for name in re.findall(r"\*\*(.+?)\*\*", PAGE, flags=re.S)}
    assert RULE_NAMES - bold == set()
    assert bold - RULE_NAMES == {"The guarantee."}


def test_a_rule_is_named_in_one_section_which_names_its_file() -> None:
    sections = [" ".join(section.split()) for section in re.split(r"^## ", PAGE, flags=re.M)]
    for rule in RULES:
        named = [f"`{rule.file}`" in one for one in sections if f"**{rule.rule}**" in one]
        assert named == [True], rule.rule
