"""The paper's evaluation, and ours beside it."""
