"""`replay` before it asks a broker: what its options mean, and what is wrong with them."""

import pytest


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--until", "soon"], "'soon' is not a time like 2026-11-20T12:00:00Z"),
        (["--since", "latest"], "'latest' is not a time like"),
        (
            ["--partitions", "one"],
            "--partitions 'one' is not accepted: write numbers like 0,3 or 0-3",
        ),
        (["--entities", "@nowhere.txt"], "--entities @nowhere.txt: the file cannot be read"),
        (["--name", "a/b"], "--name 'a/b': up to 60 letters"),
        (["--to", "marketplace.reviews.v1"], "that is a topic of the live worker"),
        (["--fields", "text=body"], "--fields is for files: name some with --from"),
        (["--from", "a", "--from", "b"], "--from b: one topic is replayed at a time"),
        (["--max-events-per-s", "0"], "0.0 is not in the range x>0"),
    ],
)
def test_what_cannot_be(run, arguments, says):
    ended = run("replay", *arguments)
    assert ended.code == 2
    assert says in ended.err


def test_files_that_are_not_of_one_kind(run, tmp_path):
    """An archive beside plain files, or beside a topic that it is not of."""
    (tmp_path / "archive.jsonl").write_text(
        '{"topic": "t", "partition": 0, "offset": 0, "key": "e", "value": null}\n'
    )
    (tmp_path / "plain.jsonl").write_text('{"entity_id": "e", "review_id": "r", "text": "Good."}\n')
    both = run("replay", "--from", f"{tmp_path}/")
    assert (both.code, "replay them apart" in both.err) == (2, True)
    other = run("replay", "--from", "u", "--from", f"{tmp_path}/archive.jsonl")
    assert (other.code, "the files are an archive of t" in other.err) == (2, True)


def test_a_restart_asks(run):
    ended = run("replay", "--restart")
    assert (ended.code, "pass --yes" in ended.err) == (2, True)
