"""Facets: whatever happens in whatever order, however it is cut, evicted and restarted, each is
what brute force over its members says, and so is every message.
"""

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.harness.drive import Driver, FakeEngine, config
from tests.harness.facet_model import FacetModel
from tests.processing.facet_runs import runs, with_facets

setups = st.fixed_dictionaries(
    {
        "k": st.integers(1, 4),
        "distinct": st.booleans(),
        "emit": st.sampled_from(["every", "coalesced"]),
        "min_changes": st.sampled_from([1, 1, 2, 3]),
        "cache_bytes": st.sampled_from([0, 20_000, 10**8]),
        "index": st.sampled_from(["flat", "sgtree"]),
    }
)


def sent(message):
    headers = dict(message.headers)
    if message.topic == "dlq":
        return message.key, message.value, headers["dlq.reason"].decode()
    return message.key, message.value, headers["ce_id"].decode()


@settings(max_examples=300, deadline=None)
@given(setup=setups, batches=runs())
def test_facets_equal_brute_force(setup, batches):
    driver = Driver(with_facets(**setup))
    model = FacetModel(driver.config, FakeEngine.vector)
    for restart, batch in batches:
        if restart:
            driver.restart()
        expected, _ = model.run(batch)
        assert [sent(message) for message in driver.run(*batch).messages] == expected


@settings(max_examples=60, deadline=None)
@given(setup=setups, batches=runs())
def test_without_facets_everything_is_as_before(setup, batches):
    """Of the same events, the summaries of a worker with facets are those of one without."""
    one, other = Driver(config(**setup)), Driver(with_facets(**setup))
    for _, batch in batches:
        plain = one.run(*batch).messages
        rich = [message for message in other.run(*batch).messages if message.topic != "facets"]
        assert plain == rich
