"""What a reader gets of the published set and of the short view: how much it says again, and how
much of all it stands for.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tests.bench.paper.methods import METHODS, Setting
from tests.bench.quality.contenders import OURS, SHORT, short_view, step_by_step
from tests.bench.quality.entity import Entity
from tests.bench.quality.hotels import near, repeats
from worker.processing.entity_view import THRESHOLD


class View(NamedTuple):
    """Shares are from 0 to 1; for `repeats` and `near` see `hotels`."""

    twins: float  # of the view's sentences, with another one in it above the threshold
    repeats: float
    near: float
    stands_for: float  # of all sentences, with one of the view's above the threshold


def look_at(entity: Entity, setting: Setting) -> dict[str, View]:
    """Both views of all of an entity's sentences."""
    end = len(entity.sentences)
    rows = {
        OURS: step_by_step(METHODS["exact"], setting, entity, [end]).after[end],
        SHORT: short_view(entity.vectors, setting.k),
    }
    return {name: _view(entity, of) for name, of in rows.items()}


def _view(entity: Entity, rows: Sequence[int]) -> View:
    unit = entity.unit
    cosines = unit @ unit[list(rows)].T
    among = cosines[list(rows)]
    np.fill_diagonal(among, 0.0)
    return View(
        float((among > THRESHOLD).any(axis=1).mean()),
        repeats(entity, rows),
        near(entity, rows),
        float((cosines > THRESHOLD).any(axis=1).mean()),
    )


def row(name: str, of: Sequence[dict[str, View]]) -> list[dict[str, object]]:
    """A row a view: the means over entities."""
    rows = []
    for view in of[0]:
        means = np.mean([row[view] for row in of], axis=0)
        rows.append(
            {"entities": name, "view": view}
            | {
                field: round(float(mean), 4)
                for field, mean in zip(View._fields, means, strict=True)
            }
        )
    return rows
