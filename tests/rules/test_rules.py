"""The list of rules fits the sources (`make rules` takes each rule out and demands that its tests
fail).
"""

from tests.rules.rules import ROOT, RULES


def test_a_rule_is_in_the_code_once() -> None:
    changed = [rule for rule in RULES if (ROOT / rule.file).read_text().count(rule.code) != 1]
    assert changed == [], "the code has changed: change the rules with it"
    assert [rule for rule in RULES if rule.without == rule.code] == []


def test_a_rule_has_tests() -> None:
    for rule in RULES:
        assert rule.tests, rule.rule
        for test in rule.tests:
            path, _, name = test.partition("::")
            assert (ROOT / path).exists(), (rule.rule, test)
            if name:
                text = (ROOT / path).read_text()
                assert f"def {name.partition('[')[0]}(" in text, (rule.rule, test)


def test_rules_are_distinct() -> None:
    assert len({rule.rule for rule in RULES}) == len(RULES)
