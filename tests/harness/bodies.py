"""A summary event's body."""

from __future__ import annotations

from worker.events import Cause, RatingCounts, ReviewDetails, SummaryChanged, summary_sentence

BODY = SummaryChanged(
    entity_id='B"é🎉',
    epoch=1,
    sequence=991,
    previous_sequence=None,
    sentences=[
        summary_sentence(
            0,
            "r-81#0",
            "r-81",
            "Ünï\n",
            ReviewDetails(4.0, "2026-11-20T12:00:00+01:00", "de"),
            0.4127,
            3,
        )
    ],
    added=["r-81#0"],
    removed=["r-12#4"],
    review_count=240,
    sentence_count=1311,
    k=20,
    cause=Cause("review.upserted", "reviews", 3, 991, "r-81"),
    occurred_at="2026-11-20T12:00:00+01:00",
    embedding_model="m",
    ratings=RatingCounts({8: 200, 9: 31}).ratings(),
)
