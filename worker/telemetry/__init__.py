"""What a worker reports of itself: metrics, traces, logs."""
