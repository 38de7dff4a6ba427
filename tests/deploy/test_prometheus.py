"""Every query of the dashboard and every rule, asked of a real Prometheus that scrapes real workers
under load.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import yaml

from tests.deploy.series import EXPRESSIONS
from tests.harness.broker import KafkaBroker
from tests.harness.eventually import eventually
from tests.harness.observed import REPLAY, RULES, WORKERS, Site, observed
from tests.harness.patience import TEST_SECONDS
from tests.harness.prometheus import filled_in, operands

pytestmark = [pytest.mark.kafka, pytest.mark.prometheus, pytest.mark.timeout(TEST_SECONDS)]

QUERIES = [filled_in(expression, "15s", job=WORKERS, replay=REPLAY) for expression in EXPRESSIONS]
ALERTS = {
    rule["alert"]: rule["expr"]
    for group in yaml.safe_load(RULES.read_text())["groups"]
    for rule in group["rules"]
}
ABSENCE = ALERTS["CoversummDown"]
# Healthy workers have these at 0, or all the time but at a rebalance; small entities hardly refill.
MAY_BE_ZERO = (
    "coversumm_refill",
    "coversumm_input_partitions",
    "coversumm_commits_in_doubt_total",
    "coversumm_broker_silent_seconds",
    "coversumm_restore_remaining",
    "coversumm_lag_records",
    "coversumm_oldest_unprocessed_seconds",
    "coversumm_future_dates_total",
    "coversumm_login_refused",
)
MAY_BE_MISSING = ("coversumm_certificate_expiry_seconds", "coversumm_token_expiry_seconds")
"""The workers of this test log in with neither."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Everything has happened, or goes on, when a test gets it."""
    directory = tmp_path_factory.mktemp("observed")
    with (
        KafkaBroker(directory / "kafka") as broker,
        observed(broker, "observed", directory / "site") as made,
    ):
        assert made.prometheus.now(ABSENCE), "there is no worker yet"
        made.begin()
        made.replay()
        made.lose_a_disk()
        made.open_a_transaction()
        yield made


@pytest.mark.long
def test_every_query_of_the_dashboard_returns_data(site: Site) -> None:
    wanting = {query for query in QUERIES if not any(name in query for name in MAY_BE_MISSING)}

    def all_have_data() -> bool:
        for query in sorted(wanting):
            values = [sample.value for sample in site.prometheus.now(query)]
            if any(values) or (values and any(name in query for name in MAY_BE_ZERO)):
                wanting.discard(query)
        return not wanting

    eventually(
        all_have_data, lambda: "no data, or only zeros: " + "\n".join(sorted(wanting)), every_s=1.0
    )


def test_every_operand_of_every_alert_returns_data(site: Site) -> None:
    asked = {operand for expr in ALERTS.values() if expr != ABSENCE for operand in operands(expr)}
    # the workers of this test log in with neither certificate nor token
    asked = {operand for operand in asked if "_expiry_seconds" not in operand}
    asked.add("coversumm_build_info")  # what CoversummDown misses, and the fixture has seen missing

    def wanting() -> list[str]:
        return sorted(operand for operand in asked if not site.prometheus.now(operand))

    assert len(asked) > len(ALERTS)
    eventually(lambda: not wanting(), lambda: "no data: " + "\n".join(wanting()), every_s=1.0)


def test_the_rules_are_evaluated_and_a_dead_letter_fires(site: Site) -> None:
    def fires() -> bool:
        states = {rule["name"]: rule["state"] for rule in site.prometheus.rules()}
        return states["CoversummDeadLetters"] == "firing" and states["CoversummDown"] == "inactive"

    eventually(fires, lambda: str(site.prometheus.rules()), every_s=1.0)
    rules = site.prometheus.rules()
    assert [rule["name"] for rule in rules] == list(ALERTS)
    assert {rule["health"] for rule in rules} == {"ok"}
    (letters,) = (rule for rule in rules if rule["name"] == "CoversummDeadLetters")
    assert "bad_json" in {alert["labels"]["reason"] for alert in letters["alerts"]}
