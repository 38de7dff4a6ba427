"""Files one after the other are one: numbers, bytes and what was left out count on, and each line
is found again.
"""

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.errors import SetupError
from worker.events import Record
from worker.sources import ReviewFiles

REVIEW = json.dumps({"entity_id": "e", "review_id": 1, "text": "x", "rating": "?"})
HEADER = "entity_id,review_id,text"
contents = st.lists(
    st.lists(st.sampled_from(["", REVIEW, "{broken"]), max_size=5)
    | st.lists(st.sampled_from(["", "e,1,x", 'e,1,"two\n lines"', "e"]), max_size=5).map(
        lambda rows: [HEADER, *rows]
    ),
    min_size=1,
    max_size=5,
)


def alone(path):
    """What a file gives by itself, by line from 1."""
    with ReviewFiles([path]) as reviews:
        return [
            (entry.offset + 1 if isinstance(entry, Record) else entry.line, entry)
            for entry in reviews
        ]


@given(contents, st.booleans())
def test_they_give_what_each_gives_alone(lines, ends):
    with TemporaryDirectory() as folder:
        paths = [str(Path(folder) / f"{number}") for number in range(len(lines))]
        for path, content in zip(paths, lines, strict=True):
            Path(path).write_text("\n".join(content) + ("\n" if ends else ""))
        before, expected = 0, []
        for path in paths:
            expected += [(before + line, f"{path}:{line}", entry) for line, entry in alone(path)]
            before += len(Path(path).read_text().splitlines())
        found = []
        with ReviewFiles(paths, by_name=True) as reviews:
            position = 0
            for entry in reviews:
                assert position <= reviews.position <= reviews.size
                position = reviews.position
                found.append(entry)
            assert (
                position
                <= reviews.position
                == reviews.size
                == sum(Path(path).stat().st_size for path in paths)
            )
            for entry, (line, place, own) in zip(found, expected, strict=True):
                assert reviews.where(line) == place
                if isinstance(own, Record):
                    assert entry == own._replace(offset=line - 1)
                else:
                    assert entry == own._replace(line=line)
            written = [line for path in paths for line in Path(path).read_text().splitlines()]
            left_out = reviews.left_out.get("rating")
            assert (left_out.count if left_out else 0) == written.count(REVIEW)
            assert left_out is None or left_out.first_line == written.index(REVIEW) + 1


def test_a_beginning_beyond_the_end_of_its_file_is_refused(tmp_path):
    """It does not reach into the next."""
    for name in "ab":
        (tmp_path / name).write_text(f"{REVIEW}\n" * 3)
    paths = [str(tmp_path / name) for name in "ab"]
    for first, offsets in ((3, [2, 3, 4, 5]), (4, [3, 4, 5])):
        with ReviewFiles(paths, first_line=first) as reviews:
            assert [entry.offset for entry in reviews] == offsets
    with (
        ReviewFiles(paths, first_line=5) as reviews,
        pytest.raises(SetupError, match="only 3 lines"),
    ):
        list(reviews)
