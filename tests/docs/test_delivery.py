"""The page about delivery names every rule that `make rules` takes out, and no other, with the file
it is in.
"""

from __future__ import annotations

import re

import pytest

from tests.rules.rules import ROOT, RULES

PAGE = (ROOT / "docs" / "delivery.md").read_text(encoding="utf-8")
WORDS = " ".join(PAGE.split())
RULE_NAMES = {rule.rule for rule in RULES}


def test_every_rule_is_named_and_nothing_else_is() -> None:
    bold = {" ".join(name.split()) for name in re.findall(r"\*\*(.+?)\*\*", PAGE, flags=re.S)}
    assert RULE_NAMES - bold == set()
    assert bold - RULE_NAMES == {"The guarantee."}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.rule)
def test_a_rule_is_named_in_the_section_of_its_file(rule) -> None:
    sections = [" ".join(section.split()) for section in re.split(r"^## ", PAGE, flags=re.M)]
    (section,) = [section for section in sections if f"**{rule.rule}**" in section]
    assert f"`{rule.file}`" in section
