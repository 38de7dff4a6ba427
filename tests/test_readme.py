"""The README says what the code does."""

import re

from tests.readme import README, render
from worker.cli import commands_table


def test_the_generated_tables_are_those_of_the_code_and_the_records() -> None:
    assert README.read_text() == render(README.read_text()), "run `make docs`"


def test_every_command_the_readme_shows_exists() -> None:
    known = set(re.findall(r"^\| `(\w+)", commands_table(), flags=re.M))
    shown = set(re.findall(r"coversumm-worker (\w+)", README.read_text()))
    assert known
    assert shown <= known
