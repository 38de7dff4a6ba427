"""Names, patterns and folders stand for files, each once, in order of their paths."""

import os

import pytest

from worker.errors import SetupError
from worker.sources import find_files


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Reviews, in folders as query engines write them, and what lies beside."""
    for name in (
        "reviews/date=2/part-0.jsonl",
        "reviews/date=10/part-1.jsonl.gz",
        "reviews/date=10/part-0.jsonl.gz",
        "reviews/date=10/.part-0.jsonl.gz.crc",
        "reviews/_SUCCESS",
        "reviews/README.md",
        "reviews/part-00000",
        "reviews/.cache/old.jsonl",
        "other/[1].csv",
        "other/1.csv",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "reviews" / "all").symlink_to(tmp_path / "reviews", target_is_directory=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_folder_is_all_that_can_be_reviews_in_order_of_paths(folder):
    found = find_files(["reviews/"])
    assert found.paths == [
        "reviews/date=10/part-0.jsonl.gz",
        "reviews/date=10/part-1.jsonl.gz",
        "reviews/date=2/part-0.jsonl",
        "reviews/part-00000",
    ]
    assert [os.path.normpath(path) for path in found.skipped] == [
        "reviews/.cache",
        "reviews/README.md",
        "reviews/_SUCCESS",
        "reviews/all",
        "reviews/date=10/.part-0.jsonl.gz.crc",
    ]


def test_patterns(folder):
    assert find_files(["reviews/*/*.gz"]).paths == find_files(["reviews/date=10"]).paths
    assert (
        find_files(["reviews/date*"]).paths
        == find_files(["reviews/date=10", "reviews/date=2"]).paths
    )
    assert find_files(["other/**"]).paths == ["other/1.csv", "other/[1].csv"]
    assert find_files(["other/[1].csv"]).paths == ["other/[1].csv"], (
        "a file of that name comes first"
    )


def test_the_order_of_names_is_kept(folder):
    assert find_files(["other/1.csv", "-", "reviews/part-00000"]).paths == [
        "other/1.csv",
        "-",
        "reviews/part-00000",
    ]


@pytest.mark.parametrize(
    ("named", "message"),
    [
        (["nowhere/*.csv"], "nowhere/*.csv matches no file"),
        (["nowhere"], "nowhere does not exist"),
        (["reviews/.cache", "empty"], "there are no files of reviews in empty"),
        (
            ["other/1.csv", "./other/?.csv"],
            "./other/1.csv is named twice, also as other/1.csv: name each",
        ),
        (["-", "-"], "- is named twice: name each file once"),
    ],
)
def test_what_stands_for_no_file_or_for_one_twice_is_refused(folder, named, message):
    (folder / "empty").mkdir()
    with pytest.raises(SetupError) as raised:
        find_files(named)
    assert message in str(raised.value)
