from worker.coversumm.portable import add, distances, drift, nearest, products

__all__ = ["add", "distances", "drift", "nearest", "products"]
