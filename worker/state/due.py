"""When a set is published: how far it must be from the one last published."""

from collections.abc import Collection, Mapping


def is_due(
    published: Mapping[bytes, bytes],
    now: Mapping[bytes, bytes],
    min_changes: int,
    deleted: Collection[bytes] = (),
) -> bool:
    """Whether a set, as `{sentence id: text digest}`, is to be published after the one last published.

    It is if at least so many of its sentences are new or of another text, or as many are gone; or if one of the two is empty;
    or if one of `deleted`, which a deletion has taken down since, is published and not among them.
    """
    if min_changes == 1 or not published or not now:
        return now != published
    if any(one in published and now.get(one) != published[one] for one in deleted):
        return True
    come = sum([published.get(one) != digest for one, digest in now.items()])
    gone = sum([now.get(one) != digest for one, digest in published.items()])
    return max(come, gone) >= min_changes
