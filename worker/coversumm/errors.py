"""What the core refuses, each with a message that names the culprit.

VectorError and EntityFull come before any change of state; the other two mean that the caller's state is broken.
"""


class CoreError(ValueError):
    """Base of every refusal of the core."""


class VectorError(CoreError):
    """A vector that cannot be used: wrong shape or type, zero, or not finite."""


class EntityFull(CoreError):
    """One more sentence and float64 could no longer hold every key exactly (see `fixed_point.exact`)."""


class UnknownSentence(CoreError):
    """A sentence to remove that is not live, at least not with this vector."""


class DuplicateSentence(CoreError):
    """A sentence to add whose id is live already."""
