"""Two builds of the summaries, held against each other entity by entity, as sets of (sentence id, text).

Of each entity the last publication counts; after a tombstone, or with an empty set, it has no summary. `digests` makes a
summary small and tells how two of them compare, `compared` does so for all entities, `examples` finds some of them again.
"""

from worker.operations.comparison.compared import Comparison, Source, compare
from worker.operations.comparison.examples import Example

__all__ = ["Comparison", "Example", "Source", "compare"]
