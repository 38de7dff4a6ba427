"""The figures of the questions are those of the records, and the formulas give what is said."""

from __future__ import annotations

import json
from typing import Any

from docs.build.render import ROOT

PAGES = (ROOT / "docs" / "faq.md", ROOT / "docs" / "reference" / "results.md")
TEXT, RESULTS = (" ".join(page.read_text("utf-8").split()) for page in PAGES)


def record(name: str) -> Any:
    return json.loads((ROOT / "tests" / "bench" / "results" / f"{name}.json").read_text("utf-8"))


def test_a_million_reviews() -> None:
    per_second = record("text")["worker_per_s"]
    hours = 1e6 / per_second / 3600
    assert f"two cores process {per_second} reviews a second as text" in TEXT
    assert f"About {hours:.1f} hours of a machine with two cores" in TEXT
    assert f"÷ {per_second} reviews/s ÷ 3,600 × 2 cores × *P* = {2 * hours:.1f} × *P*" in TEXT
    assert f"that is {200 * hours * 0.05:.0f} cents" in TEXT
    events = record("worker")["throughput"]["events_per_s"]
    assert f"{events:,.0f} events a second" in TEXT
    assert f"a million sentences take {1e6 / events / 60:.1f} minutes" in TEXT


def test_a_job_at_night() -> None:
    (city,) = (one for one in record("calls")["rows"] if one["file"] == "airbnb_city.jsonl.gz")
    per_entity = city["reviews"] // city["entities"]
    assert f"{per_entity} for each of {city['entities']} stays" in TEXT
    at_night = round(1000 * city["changed_nights"] / city["reviews"])
    at_changes = round(1000 * city["facets.changed"]["2"] / city["reviews"])
    for calls, count, tokens_each in ((at_night, per_entity // 2, 40), (at_changes, 30, 13)):
        tokens = calls * count * tokens_each / 1000  # millions
        answers = calls / 10
        cost = tokens * 0.1 + answers * 0.4
        assert f"| {calls},000 | calls × {count} " in TEXT
        assert f"× {tokens_each} = {tokens:,.0f} million" in TEXT
        assert f"| {tokens:,.0f} × *I* + {answers:g} × *O* = {cost:.0f} dollars |" in TEXT
    assert f"999,000 calls are {at_night * 2 / 3.6:.0f} hours" in TEXT
    assert f"145,000 are {at_changes * 2 / 3.6:.0f}," in TEXT


def test_speed() -> None:
    assert record("worker")["restore"]["restore_rows_per_s"] > 100_000
    rows = record("core_amazon_datafiniti")["rows"]
    of_reviews = [row for row in rows if "reviews, 27,050 x" in row["stream"]]
    us = {row["contender"]: row["us_per_event"] for row in of_reviews}
    flat = us["FAISS flat, each event"]
    times = flat / us["ours, event by event"]
    assert f"27,050 sentences FAISS takes {times:.0f} times as long as the algorithm" in TEXT
    rivals = ("brute", "quix_brute", "bytewax_brute", "bytewax_defaults")
    *smaller, largest = over = [
        [row["worker"]["events_per_s"] / row[name]["events_per_s"] for name in rivals]
        for row in record("peers")["rows"]
    ]
    assert f"{min(largest):.1f} to {max(largest):.0f} times as many events" in TEXT
    times = [one for row in smaller for one in row]
    assert f"it processes {min(times):.1f} to {max(times):.0f} times as many" in TEXT
    _, quix, bytewax, (*defaults, least) = zip(*over, strict=True)
    assert f": {min(quix):.1f} to {max(quix):.1f} times as many as Quix Streams" in RESULTS
    assert f"{min(defaults):.1f} to {max(defaults):.1f} times as many as Bytewax" in RESULTS
    assert f"there ({least:.1f} times; with 1 s {bytewax[-1]:.1f} times)" in RESULTS


def test_cold_entities() -> None:
    rows = record("peers_cold")["rows"]
    few, many = (f"{row['worker_over_quix_brute']['events_per_cpu_s']:.1f}" for row in rows)
    memory = sorted(row["worker"]["peak_mib"] / row["quix_brute"]["peak_mib"] for row in rows)
    assert f"{few} times as many events of this load per second of processor time" in RESULTS
    assert f"entities {many} times, and takes {memory[0]:.1f} to {memory[-1]:.1f} times" in RESULTS


def test_faults_and_the_image() -> None:
    faults = record("faults")
    assert f"{faults['faults']} faults under {faults['events']:,} events" in TEXT
    assert all(row[what] == 0 for row in faults["rows"] for what in ("lost", "repeated", "wrong"))
    readme = (ROOT / "docs" / "image.md").read_text("utf-8")
    assert "446 MB uncompressed" in TEXT
    assert "446 MB" in readme
