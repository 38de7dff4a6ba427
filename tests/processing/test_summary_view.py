"""An entity's summary for queries is what brute force finds in the committed rows."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from tests.harness.drive import Driver, config
from tests.processing.restored import ENTITIES, events, stored


@pytest.mark.parametrize("shown", [{}, {"distinct": True}, {"by_text": True}])
@pytest.mark.parametrize("seed", range(15))
def test_it_is_that_of_the_rows(shown, seed):
    chance = random.Random(seed)
    driver = Driver(config(k=3, **shown))
    offset = 0
    for _ in range(30):
        count = chance.randrange(1, 9)
        driver.run(*events(chance, offset, count))
        offset += count
        for entity in ENTITIES:
            view = driver.summary(0, entity)
            assert (view and replace(view, reservoir=None)) == stored(driver, entity)
