"""HTTP: summaries, health, metrics, other workers and the live page."""
