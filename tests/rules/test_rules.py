"""The list of rules fits the sources (`make rules` takes each rule out and demands that its tests
fail).
"""

import pytest

from tests.rules.rules import ROOT, RULES, Rule


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.rule)
def test_the_rule_is_in_the_code_and_has_tests(rule: Rule) -> None:
    assert (ROOT / rule.file).read_text().count(rule.code) == 1, (
        "the code has changed: change the rule with it"
    )
    assert rule.without != rule.code
    assert rule.tests
    for test in rule.tests:
        path, _, name = test.partition("::")
        assert (
            f"def {name.partition('[')[0]}(" in (ROOT / path).read_text()
            if name
            else (ROOT / path).exists()
        )


def test_rules_are_distinct() -> None:
    assert len({rule.rule for rule in RULES}) == len(RULES)
