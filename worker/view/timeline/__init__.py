"""The history of one entity's summary as a page: one HTML file that needs nothing beside it.

    steps (`worker.published.history`) -> lives (when each sentence was in the summary), axis (where
    times lie) -> page

Everything is pure. The page has all of its content without JavaScript, which adds the look at one
change; and what it shows of reviews is text, never markup.
"""

from worker.view.timeline.page import page

__all__ = ["page"]
