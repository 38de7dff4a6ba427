"""Generated pages are those of the code and the records, and the tables have every row."""

import re

from docs.build.__main__ import main
from docs.build.limits import LIMITS
from docs.build.render import ROOT, TABLES
from worker.limits import Limit
from worker.settings import PREFIX, settings_by_field


def test_every_file_is_as_generated() -> None:
    assert main([]) == 0, "run `make docs`"


def test_every_place_for_a_table_is_filled() -> None:
    marks = {
        path.relative_to(ROOT).as_posix(): set(
            re.findall(r"^<!-- (\w+) -->$", path.read_text(), flags=re.M)
        )
        for path in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md"))
    }
    assert {name: found for name, found in marks.items() if found} == {
        name: set(tables) for name, tables in TABLES.items()
    }


def test_every_limit_is_described_and_names_settings_that_exist() -> None:
    variables = {setting.variable for setting in settings_by_field().values()}
    assert {limit.value for limit in Limit} <= {limit.name for limit in LIMITS}
    for described in LIMITS:
        assert {PREFIX + name for name in described.variables} <= variables
        assert (described.seen_in == "the counter") == (described.name in set(Limit))
