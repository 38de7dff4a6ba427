"""The history of one entity's summary as one self-contained HTML file.

    steps (`worker.published.history`) -> axis, chart (data for timeline.js), details -> page

Everything is pure. Without JavaScript the page shows all changes in words, but no chart. Texts of
reviews are text, never markup.
"""

from worker.view.timeline.page import page

__all__ = ["page"]
