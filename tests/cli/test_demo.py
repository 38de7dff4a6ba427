"""`demo`: its options; what it does is in tests/demo."""

import pytest

import worker.demo.play
from worker.cli.demo import DEFAULT_K, DEFAULT_REVIEWS


@pytest.fixture
def asked(monkeypatch):
    """What the demo is run with."""
    asked = []
    monkeypatch.setattr(worker.demo.play, "run_demo", lambda *arguments: asked.append(arguments))
    return asked


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ([], (DEFAULT_REVIEWS, DEFAULT_K, False, True, False)),
        (["--json"], (DEFAULT_REVIEWS, DEFAULT_K, True, False, False)),
        (["--reviews", "all"], (None, DEFAULT_K, False, False, False)),
        (["--reviews", "7", "--k", "3", "--json"], (7, 3, True, False, False)),
        (["--serve"], (DEFAULT_REVIEWS, DEFAULT_K, False, True, True)),
    ],
)
def test_options(run, asked, options, expected):
    assert run("demo", *options).code == 0
    assert asked == [expected]
