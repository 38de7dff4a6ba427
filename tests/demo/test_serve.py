"""`serve` as its users have it: a file of their own, the page in between, an edit of the facets."""

import csv
import json
import signal
import socket
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from tests.harness.eventually import eventually
from tests.harness.node import free_port
from worker.demo.serving import AHEAD_BYTES

FIELDS = "entity_id=shop item,review_id=no,text=body"
TEXTS = ["Parking was easy. The room was quiet.", "We parked at the door. The bed was soft."]
FACETS = """
[[facet]]
name = "NAME"
phrases = ["Parking was easy."]
words = ["parking", "parked"]
"""
ENDED = "ended; everything is removed again\n"


@pytest.fixture
def reviews(tmp_path):
    """A table with column names of its own, one of whose rows has no id."""
    path = tmp_path / "mine.csv"
    rows = [(f"hotel {number % 3}", number, TEXTS[number % 2]) for number in range(30)]
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([("shop item", "no", "body"), *rows, ("hotel 1", "", "Quiet.")])
    return path


def wait_for(served, text):
    """The line of standard error that has it."""
    while text not in (line := served.process.stderr.readline()):
        assert line
    return line


def overview(address):
    """Subjects, and the number of reviews that mention each."""
    with urlopen(f"{address}entities/hotel%201/summary?view=overview", timeout=30) as answer:
        facets = json.load(answer)["facets"]
    return {facet["name"]: facet["mentions"]["review_count"] for facet in facets}


def test_a_table_is_on_the_page_which_follows_the_file_of_facets(start, reviews, tmp_path):
    """Vectors are kept, wrong facets are refused, and Ctrl-C removes everything."""
    port, facets = free_port(), tmp_path / "facets.toml"
    facets.write_text(FACETS.replace("NAME", "parking"))
    served = start(
        *("serve", str(reviews), "--fields", FIELDS, "--facets", str(facets)),
        COVERSUMM_WEB_PORT=str(port),
        COVERSUMM_REVIEW_URL="https://shop.example/{review_id}",
        COVERSUMM_WEB_ORIGINS="https://a.example",
        KAFKA_BOOTSTRAP_SERVERS="elsewhere.invalid:9092",
    )
    wait_for(served, "line 32: bad_field: no (for review_id): missing")
    address = wait_for(served, "the page: ").split()[2]
    assert address == f"http://127.0.0.1:{port}/"
    line = wait_for(served, "are on the page")
    assert line.startswith("30 reviews of 3 entities are on the page after ")
    assert line.endswith(f" s; edit {facets}: the page follows\n")
    assert overview(address) == {"parking": 10}
    with urlopen(f"{address}widget.js", timeout=30) as answer:
        assert "https://shop.example/{review_id}" in answer.read().decode()
    asked = Request(f"{address}page/entities", headers={"Origin": "https://a.example"})
    with urlopen(asked, timeout=30) as answer:
        assert len(json.load(answer)["entities"]) == 3

    facets.write_text(FACETS.replace("name", "nam"))
    assert "; the page keeps the facets that it has" in wait_for(served, "error: ")
    assert overview(address) == {"parking": 10}
    facets.write_text(FACETS.replace("NAME", "garage"))
    wait_for(served, "has changed: the page begins again")
    wait_for(served, "30 reviews of 3 entities are on the page")
    assert overview(address) == {"garage": 10}
    with urlopen(f"{address}metrics", timeout=30) as answer:
        lookups = [line for line in answer.read().decode().splitlines() if "lookups_total{" in line]
    assert {float(line.split()[-1]) == 0.0 for line in lookups if "miss" in line} == {True}

    served.process.send_signal(signal.SIGINT)
    code, _, err = served.finish()
    assert (code, err) == (0, ENDED)
    served.wait_until_nothing_is_left()


def test_facets_that_only_the_worker_can_refuse_are_put_right_later(start, reviews, tmp_path):
    facets = tmp_path / "facets.toml"
    facets.write_text(FACETS.replace("NAME", "parking"))
    arguments = ("serve", str(reviews), "--fields", FIELDS, "--facets", str(facets))
    served = start(*arguments, COVERSUMM_WEB_PORT=str(free_port()))
    wait_for(served, "are on the page")
    large = '[[facet]]\nname = "NAME"\nphrases = ["It was good."]\nk = 100\n'
    facets.write_text("".join(large.replace("NAME", f"subject {number}") for number in range(9)))
    assert f"; the page is back when {facets} is right" in wait_for(served, "error: ")
    facets.write_text(FACETS.replace("NAME", "garage"))
    wait_for(served, "are on the page")


def test_reviews_that_the_model_does_not_read_are_named(start, tmp_path):
    path = tmp_path / "german.jsonl"
    text = "Das Zimmer war sehr sauber, und das Bett war bequem."
    reviews = ({"entity_id": "e", "review_id": str(n), "text": text} for n in range(9))
    path.write_text("".join(f"{json.dumps(review)}\n" for review in reviews))
    arguments = ("serve", str(path), "--facets", "preset:stays")
    served = start(*arguments, COVERSUMM_WEB_PORT=str(free_port()))
    line = wait_for(served, "warning: 9 of 9 reviews are in de; the model reads en")
    assert "docs/vectors.md" in line


def test_long_reviews_stay_within_what_the_embedded_broker_keeps(start, tmp_path):
    path = tmp_path / "long.jsonl"
    text = " ".join(["The room was clean, and the bed was soft for all of us in the family."] * 900)
    review = {"entity_id": "e", "text": text}
    count = 4 * AHEAD_BYTES // len(text)
    path.write_text("".join(f"{json.dumps(review | {'review_id': i})}\n" for i in range(count)))
    served = start("serve", str(path), COVERSUMM_WEB_PORT=str(free_port()))
    assert "--facets preset:products" in wait_for(served, "hint: ")
    wait_for(served, f"{count} reviews of 1 entity are on the page")


def test_the_reviews_of_the_package_and_a_kill_that_leaves_nothing(start):
    port = free_port()
    served = start("serve", COVERSUMM_WEB_PORT=str(port))
    wait_for(served, "the page: ")

    def mentions():
        try:
            with urlopen(f"http://127.0.0.1:{port}/page/entities", timeout=30) as answer:
                found = json.load(answer)["entities"]
        except HTTPError:  # not a member of its group yet
            return False
        return any(entity["entity_id"].startswith("abnb:") for entity in found)

    eventually(mentions)
    served.process.kill()
    served.wait_until_nothing_is_left()


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("a,b\n1,2\n", "looks like a table with the columns a, b; say which is which: "),
        ("entity_id,review_id,text\n", "error: no reviews in "),
    ],
)
def test_a_file_that_cannot_be_used_ends_it(start, tmp_path, text, error):
    path = tmp_path / "mine.csv"
    path.write_text(text)
    served = start("serve", str(path), COVERSUMM_WEB_PORT=str(free_port()))
    code, _, err = served.finish()
    assert code == 2
    assert error in err
    served.wait_until_nothing_is_left()


def test_a_port_in_use_is_named(start, reviews):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        arguments = ("serve", str(reviews), "--fields", FIELDS)
        code, _, err = start(*arguments, COVERSUMM_WEB_PORT=str(port)).finish()
    assert code == 2
    assert f"cannot listen on 127.0.0.1:{port}" in err
    assert "set COVERSUMM_WEB_PORT" in err
