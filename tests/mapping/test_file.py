"""Every error of a mapping file is a line with its position, all at once."""

from __future__ import annotations

import textwrap
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.harness.debezium import MAPPING, written
from worker.errors import FileErrors
from worker.facets.toml_lines import line_of, positions
from worker.mapping import load_mapping

RULE = """\
[topic.t]
[[topic.t.rule]]
emit = "review.upserted"
entity_id = "product"
review_id = "id"
text = "body"
"""


def lines_of(folder: Path, text: str) -> list[str]:
    """The errors of a file, without its name."""
    file = written(folder, textwrap.dedent(text))
    with pytest.raises(FileErrors) as caught:
        load_mapping(file)
    assert str(caught.value).splitlines() == list(caught.value.lines)
    return [line.removeprefix(f"{file}") for line in caught.value.lines]


@pytest.mark.parametrize(
    ("more", "line", "what"),
    [
        ("", 0, ""),
        ("txt = 'x'", 7, "t: rule 1: txt: is not a field of review.upserted; is it text?"),
        ("reason = 'x'", 7, "t: rule 1: reason: is not a field of review.upserted"),
        ("seller = 'x'", 7,
         "t: rule 1: seller: is not a field of review.upserted; there are entity_id, "),
        ("language = 'l[0]'", 7, "t: rule 1: language: 'l[0]' has a [0] at character 2:"),
        ("language = 'l[*].x'", 7, "t: rule 1: language: 'l[*].x' has a [*] at character 2"),
        ("rating = { path = 'a', scale = [0, inf] }", 7, "t: rule 1: rating: scale: the lowest"),
        ("language = 5", 7, "t: rule 1: language: a path, a list"),
        ("language = []", 7, "t: rule 1: language: a path, a list"),
        ("language = { cnst = 'x' }", 7, "t: rule 1: language: a path, a list"),
        ("language = { const = 5 }", 7, "t: rule 1: language: const: Expected a text, got"),
        ("language = { const = 'en', x = 1 }", 7, "t: rule 1: language: x: is unknown here"),
        ("review_version = { const = -1 }", 7, "t: rule 1: review_version: const: Expected"),
        ("occurred_at = { const = 5 }", 7, "t: rule 1: occurred_at: const: a number"),
        ("rating = { join = ['a'] }", 7, "t: rule 1: rating: join makes a text"),
        ("language = { join = 5 }", 7, "t: rule 1: language: join: a list of paths"),
        ("language = { join = [true] }", 7, "t: rule 1: language: a path, a list"),
        ("language = { join = ['a'], with = 1 }", 7, "t: rule 1: language: with: a text"),
        ("occurred_at = { path = 'a', epoch = 'h' }", 7,
         "t: rule 1: occurred_at: epoch: 'h' is none of d, s, ms, us, ns"),
        ("rating = { path = 'a', epoch = 's' }", 7,
         "t: rule 1: rating: epoch: only occurred_at and review_version take it"),
        ("rating = { path = 'a', decimal = 101 }", 7, "t: rule 1: rating: decimal: the digits"),
        ("rating = { path = 'a', decimal = true }", 7, "t: rule 1: rating: decimal: the digits"),
        ("rating = { path = 'a', scale = [5, 1] }", 7, "t: rule 1: rating: scale: the lowest"),
        ("rating = { path = 'a', unescape = true }", 7, "t: rule 1: rating: unescape: only text"),
        ("rating = { path = 'a', scale = [1] }", 7, "t: rule 1: rating: scale: the lowest"),
        ("rating = { path = 'a', add = 1 }", 7, "t: rule 1: rating: add: only review_version"),
        ("review_version = { path = 'a', add = 1.5 }", 7,
         "t: rule 1: review_version: add: a whole number"),
        ("review_version = { record = 'key' }", 7,
         "t: rule 1: review_version: record: 'key' is none of offset, timestamp"),
        ("rating = { record = 'offset' }", 7, "t: rule 1: rating: record: rating is not one of"),
        ("review_version = { parts = ['a'] }", 7, "t: rule 1: review_version: parts: two paths"),
        ("rating = { parts = ['a', 'b'] }", 7, "t: rule 1: rating: parts make a version"),
        ("language = 'items.*.text'", 7,
         "t: rule 1: language: 'items.*.text' has a * at character 7"),
        ("when = { a = { differs = 5 } }", 7, "t: rule 1: when: a: 5 is not a path"),
        ("each = 5", 7, "t: rule 1: each: 5 is not a path"),
        ("[[topic.t.rule]]\nevent = []", 8, "t: rule 2: event: a table for each event"),
        ("rating = 'a..b'", 7, "t: rule 1: rating: 'a..b' is not a path"),
        ("rating = ''", 7, "t: rule 1: rating: '' is not a path"),
        ("rating = 'a b'", 7, "t: rule 1: rating: 'a b' is not a path"),
        ("rating = 'a.'", 7, "t: rule 1: rating: 'a.' is not a path"),
        ("rating = 'ce'", 7, "t: rule 1: rating: 'ce' needs the name"),
        ("rating = 'header:'", 7, "t: rule 1: rating: 'header:' names no header"),
        ("rating = [\n  'a',\n  5,\n]", 7, "t: rule 1: rating: a path, a list"),
        ("when = 5", 7, "t: rule 1: when: a table of paths"),
        ("when = { a = [] }", 7, "t: rule 1: when: a: a text, number or boolean"),
        ("when = { a = {} }", 7, "t: rule 1: when: a: a text, number or boolean"),
        ("when = { a = [[1]] }", 7, "t: rule 1: when: a: a text, number or boolean"),
        ("when = { a = 2026-11-20 }", 7, "t: rule 1: when: a: a text, number or boolean"),
        ("when = { 'a b' = 1 }", 7, "t: rule 1: when: a b: 'a b' is not a path"),
        ('"\\u0000" = "a"', 7, "t: rule 1: '\\x00': is not a field"),
        ("when_present = 'a'", 7, "t: rule 1: when_present: a list of paths"),
        ("when_present = [5]", 7, "t: rule 1: when_present: 5 is not a path"),
        ("name = 5", 7, "t: rule 1: name: a text"),
        ("[[topic.t.rule]]\nemit = 'ignore'", 7,
         "t: rule 2: never applies: rule 1 takes all of its records"),
        ("[[topic.t.rule]]\nwhen = { a = 1 }", 7, "t: rule 2: emit is missing"),
        ("[[topic.t.rule]]\nemit = 'review.upsert'", 8,
         "t: rule 2: emit: 'review.upsert' is none of"),
        ("[[topic.t.rule]]\nemit = ['ignore']", 8, "t: rule 2: emit: ['ignore'] is none of"),
        ("[[topic.t.rule]]\nemit = 'ignore'\ntext = 'a'", 9, "t: rule 2: text: is unknown here"),
        ("[[topic.t.rule]]\nemit = 'review.deleted'", 7,
         "t: rule 2: review.deleted needs entity_id, review_id"),
        ("[[topic.t.rule]]\nemit = 'review.upserted'\nentity_id = 'a'\nreview_id = 'b'", 7,
         "t: rule 2: review.upserted needs text or sentences"),
        ("[[topic.t.rule]]\nwhen = { a = 1 }\n[[topic.t.rule.event]]\ntext = 'a'", 9,
         "t: rule 2: event 1: emit is missing"),
        ("[[topic.t.rule]]\nwhen = { a = 1 }\n[[topic.t.rule.event]]\nemit = 'ignore'", 10,
         "t: rule 2: event 1: emit: 'ignore' is none of"),
        ("[topic.u]", 7, "u: needs rules"),
        ("[topic.u]\nrule = 5", 8, "u: rule: needs rules"),
        ("[topic.u]\nrule = [5]", 8, "u: rule 1: a table is wanted, not 5"),
        ("[topics]", 7, "topics: is unknown here; is it topic?"),
    ],
)  # fmt: skip
def test_an_error_and_its_line(tmp_path: Path, more: str, line: int, what: str) -> None:
    if not line:
        assert load_mapping(written(tmp_path, RULE))
        return
    found = lines_of(tmp_path, RULE + more)
    assert len(found) == 1, found
    assert found[0].startswith(f":{line}: {what}")


@pytest.mark.parametrize(
    ("head", "what"),
    [
        ("kay = 'json'", "t: kay: is unknown here; is it key?"),
        ("key = 'avro'", "t: key: 'avro' is none of plain, json, framed"),
        ("key = 5", "t: key: 5 is none of"),
        ("value = 'plain'", "t: value: 'plain' is none of json, framed"),
        ("unwrap = 5", "t: unwrap: the name of a member"),
        ("parse = 'after'", "t: parse: a list of paths"),
        ("parse = ['key.id']", "t: parse: key.id is not in the value"),
        ("tombstone = 'delete'", "t: tombstone: 'delete' is none of ignore, entity.deleted"),
        ("tombstone = { entity_id = 'product' }", "t: tombstone: a tombstone has no value"),
        ("tombstone = { review_id = 'key' }", "t: tombstone: review_id: is not a field of entity"),
        ("tombstone = { emit = 'review.upserted' }", "t: tombstone: emit: 'review.upserted' is no"),
        (
            "tombstone = { emit = 'review.deleted', entity_id = 'key', review_id = 'id' }",
            "t: tombstone: a tombstone has no value: ids must come from key or header",
        ),
    ],
)
def test_an_error_of_a_topic(tmp_path: Path, head: str, what: str) -> None:
    found = lines_of(tmp_path, RULE.replace("[topic.t]", f"[topic.t]\n{head}"))
    assert any(line.startswith(f":2: {what}") for line in found)


def test_all_errors_are_reported_in_order(tmp_path: Path) -> None:
    text = """\
        # a comment
        [topic."a.b"]
        key = "x"
        [[topic."a.b".rule]]
        emit = "x"
        [topic.c]
        value = "x"
        [[topic.c.rule]]
        emit = "ignore"
        when = { x = [
          1,
        ], y = {} }
        [[topic.c.rule]]
        text = '''
        [topic.d]
        '''
        """
    assert [line.split(": ")[0] for line in lines_of(tmp_path, text)] == [
        ":3", ":5", ":7", ":10", ":13",
    ]  # fmt: skip


def test_a_file_that_is_no_toml(tmp_path: Path) -> None:
    (line,) = lines_of(tmp_path, "[topic.t]\nkey =\n")
    assert "not TOML" in line
    assert "line 2" in line
    deep = ".".join("a" * 5000)
    for text in (f"a = {'9' * 5000}", f"a = {'[' * 50_000}", f"[{deep}]", f"{deep} = 1"):
        assert lines_of(tmp_path, text)[0].count("not TOML: ") == 1
    (line,) = lines_of(tmp_path, "")
    assert line.startswith(":1: topic: a table for each topic")
    with pytest.raises(FileErrors, match="cannot be read"):
        load_mapping(tmp_path / "none.toml")
    (tmp_path / "bytes.toml").write_bytes(b"\xef\xbb\xbf" + RULE.encode())
    assert load_mapping(tmp_path / "bytes.toml")
    (tmp_path / "bytes.toml").write_bytes(b"\xff")
    with pytest.raises(FileErrors, match="not UTF-8"):
        load_mapping(tmp_path / "bytes.toml")


TWO = """
[topic.t]
[[topic.t.rule]]
{first}
emit = "ignore"
[[topic.t.rule]]
{second}
emit = "ignore"
"""


@pytest.mark.parametrize(
    ("first", "second", "reached"),
    [
        ("when = { op = 'c' }", "when = { op = 'u' }", True),
        ("when = { op = ['c', 'u'] }", "when = { op = 'u' }", False),
        ("when = { op = 'u' }", "when = { op = ['c', 'u'] }", True),
        ("when = { op = 'u', a = 1 }", "when = { op = 'u' }", True),
        ("when = { op = 'u' }", "when = { op = 'u', a = 1 }", False),
        ("when = { 'op' = 'u' }", "when = { '\"op\"' = 'u' }", False),
        ("when = { a = 1 }", "when = { a = true }", True),
        ("when = { a = 1 }", "when = { a = 1.0 }", False),
        ("when_present = ['a']", "when = { a = 1 }", False),
        ("when = { a = 1 }", "when_present = ['a']", True),
        ("", "when = { a = 1 }", False),
    ],
)
def test_a_rule_that_never_applies(tmp_path: Path, first: str, second: str, reached: bool) -> None:
    text = TWO.format(first=first, second=second)
    if reached:
        assert load_mapping(written(tmp_path, text))
    else:
        (line,) = lines_of(tmp_path, text)
        assert line == ":6: t: rule 2: never applies: rule 1 takes all of its records"


@pytest.mark.parametrize(
    ("third", "reached"),
    [
        ("when = { op = ['c', 'u'] }", False),
        ("when = { op = ['c', 'u'], a = 1 }", False),
        ("when = { op = ['c', 'u', 'r'] }", True),
        ("when_present = ['op']", True),
    ],
)
def test_rules_hide_another_one_together(tmp_path: Path, third: str, reached: bool) -> None:
    text = TWO.format(first="when = { op = 'c' }", second="when = { op = 'u' }")
    text += f"[[topic.t.rule]]\n{third}\nemit = 'ignore'\n"
    if reached:
        assert load_mapping(written(tmp_path, text))
    else:
        (line,) = lines_of(tmp_path, text)
        assert line == ":9: t: rule 3: never applies: rule 1 and rule 2 take all of its records"


def test_the_digest_is_of_what_the_file_says_of_the_topic(tmp_path: Path) -> None:
    def digest(text: str) -> str:
        return load_mapping(written(tmp_path, text))["t"].digest

    assert digest(RULE) == digest("# comment\n" + RULE.replace(" = ", "=") + "\n")
    assert digest(RULE) == digest(RULE + RULE.replace("topic.t", "topic.u"))
    assert digest(RULE) != digest(RULE.replace("body", "words"))
    assert digest(RULE) != digest(RULE.replace("[topic.t]", "[topic.t]\nkey = 'json'"))


def test_positions_are_those_of_the_statements() -> None:
    text = MAPPING.replace("\n", "\r\n")
    found = positions(text)
    lines = text.split("\r\n")

    def places(node: Any, above: tuple[str | int, ...]) -> list[tuple[str | int, ...]]:
        items = enumerate(node) if isinstance(node, list) else node.items()
        inner = [((*above, at), item) for at, item in items]
        return [place for place, _ in inner] + [
            deeper
            for place, item in inner
            if isinstance(item, dict | list)
            and (isinstance(item, dict) or isinstance(item[0], dict))
            for deeper in places(item, place)
        ]

    for place in places(tomllib.loads(MAPPING), ()):
        if isinstance(place[-1], str) and len(place) > 2 and place[-1] != "rule":
            assert place[-1] in lines[line_of(found, place) - 1], place
