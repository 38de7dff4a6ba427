"""Facets: named subsets of an entity's live sentences, each with a centroid and a kNN set of its
own.

definitions  the file that defines them, checked, and the presets
membership   which sentences belong to a facet: a pure function of a sentence and its reviews
suggest      definitions from the subjects of reviews, for people to edit
words        which facets the sentences of a review mention
newest       the newest live reviews of an entity

The definitions are part of the state's fingerprint. docs/facets.md has the rules.
"""

PRESETS = ("stays", "hotels", "restaurants", "products", "apps")
"""Definitions that the worker brings."""
