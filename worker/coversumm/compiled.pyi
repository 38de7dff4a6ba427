from worker.coversumm.portable import add, distances, drift, join, nearest, products

__all__ = ["add", "distances", "drift", "join", "nearest", "products"]
