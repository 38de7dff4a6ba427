"""The chart: what helm makes of it is what Kubernetes takes, under many values, and each setting of
the worker can be reached.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from copy import deepcopy
from fnmatch import fnmatch
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft7Validator

from docs.build.chart import CHART, OF_KAFKA
from docs.build.render import ROOT
from tests.deploy import chart
from tests.deploy.chart import FULLNAME, Refused, environment, facts_of, only, pods, render, worker
from tests.deploy.matrix import MAPPING, MATRIX, SECURED
from tests.harness.observed import RULES
from worker import __version__
from worker.cli.group import cli
from worker.errors import SetupError
from worker.settings import PREFIX, Settings, checks, settings_by_field
from worker.settings.kinds import web_origin

pytestmark = pytest.mark.helm

SHAPES = sorted((Path(__file__).parent / "values").glob("*.yaml"))
"""Values as users of other charts write them."""


@pytest.fixture(params=MATRIX)
def objects(request: pytest.FixtureRequest) -> list[chart.Object]:
    return render(MATRIX[request.param])


def test_the_chart_is_sound() -> None:
    assert "0 chart(s) failed" in chart.helm("lint", "--strict", CHART)


def test_what_is_rendered_is_what_kubernetes_takes(objects: list[chart.Object]) -> None:
    assert chart.complaints(objects) == []


@pytest.mark.parametrize("file", SHAPES, ids=lambda file: file.stem)
def test_values_of_other_shapes(file: Path) -> None:
    """Each file has values, and what must be in objects: KIND/END of a name, then a part of it."""
    values, expected = yaml.safe_load_all(file.read_text())
    made = render(values)
    assert chart.complaints(made) == []
    assert expected
    for name, part in expected.items():
        kind, _, end = name.partition("/")
        found = [
            manifest
            for manifest in made
            if manifest["kind"] == kind and fnmatch(manifest["metadata"]["name"], FULLNAME + end)
        ]
        assert len(found) == (part is not None), name
        if part is not None:
            assert difference(part, found[0], name) is None


def difference(part: Any, whole: Any, where: str) -> str | None:
    """Where an object lacks what a part of it has: keys of mappings, members of lists in any order
    (each with a namesake, if it has a name), equal values else; null is absent.
    """
    if isinstance(part, dict) and isinstance(whole, dict):
        tried = (difference(value, whole.get(key), f"{where}.{key}") for key, value in part.items())
        return next((found for found in tried if found), None)
    if isinstance(part, list) and isinstance(whole, list):
        for item in part:
            if all(difference(item, other, where) for other in whole):
                return f"{where}: nothing like {item} in {whole}"
        return None
    return None if part == whole else f"{where}: {whole} is not {part}"


def test_the_values_of_the_page_are_taken() -> None:
    (example,) = re.findall(
        r"```yaml\n(.*?)```", (ROOT / "docs/reference/chart.md").read_text(), flags=re.DOTALL
    )
    made = render(yaml.safe_load(example))
    assert chart.complaints(made) == []
    settings = environment(worker(made), facts_of(0), {"coversumm-worker/password": "x"})
    assert settings["COVERSUMM_SASL_PASSWORD"] == "x"
    mounts = {mount["mountPath"] for mount in worker(made)["volumeMounts"]}
    assert str(Path(settings["COVERSUMM_SSL_CA_LOCATION"]).parent) in mounts


def test_a_variant_of_the_image_is_a_tag() -> None:
    (example,) = re.findall(
        r"```yaml\n(.*?)```", (ROOT / "docs" / "image.md").read_text(), flags=re.DOTALL
    )
    made = render(yaml.safe_load(example))
    assert chart.complaints(made) == []
    assert worker(made)["image"] == f"coversumm-worker:{__version__}-openvino"
    settings = environment(worker(made), facts_of(0))
    assert settings["COVERSUMM_EMBEDDER_PRECISION"] == "bf16"


def test_the_schemas_are_strict() -> None:
    made = render(MATRIX["autoscaled"])
    for kind in ("StatefulSet", "ScaledObject", "PodMonitor", "PrometheusRule"):
        wrong = {**only(made, kind)}
        wrong["spec"] = {**wrong["spec"], "nonsense": 1}
        (complaint,) = chart.complaints([wrong])[:1]
        assert "nonsense" in complaint


def test_pods_are_restricted(objects: list[chart.Object]) -> None:
    """The level that a namespace may enforce, and what it leaves out: no token, nothing to be
    written but the volumes.
    """
    for pod in pods(objects):
        assert pod["automountServiceAccountToken"] is False
        assert pod["enableServiceLinks"] is False
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert {key for volume in pod["volumes"] for key in volume} <= {
            "name",
            "configMap",
            "emptyDir",
            "ephemeral",
            "secret",
        }
        for container in pod["containers"]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            assert set(container["resources"]["limits"]) == set(container["resources"]["requests"])
            assert {"memory", "cpu", "ephemeral-storage"} <= set(container["resources"]["limits"])
        assert disk_mib(pod) >= sum(
            _mib(volume["emptyDir"]["sizeLimit"])
            for volume in pod["volumes"]
            if "emptyDir" in volume
        ), "the kubelet evicts a pod that fills its volumes"


def disk_mib(pod: chart.Object) -> int:
    """What a pod may have on its node's disk."""
    return sum(
        _mib(container["resources"]["limits"]["ephemeral-storage"])
        for container in pod["containers"]
    )


def _mib(size: str) -> int:
    return int(size[:-2]) * {"Mi": 1, "Gi": 1024}[size[-2:]]


def test_the_worker_is_one_of_its_name(objects: list[chart.Object]) -> None:
    """Its identity, its volume and its address are those of the pod's name, which stays."""
    spec = only(objects, "StatefulSet")["spec"]
    headless = only(objects, "Service", "-headless")
    assert spec["serviceName"] == headless["metadata"]["name"]
    assert headless["spec"]["clusterIP"] == "None"
    assert headless["spec"]["publishNotReadyAddresses"] is True
    assert spec["podManagementPolicy"] == "Parallel"
    assert spec["persistentVolumeClaimRetentionPolicy"] == {
        "whenScaled": "Retain",
        "whenDeleted": "Retain",
    }
    assert [claim["metadata"]["name"] for claim in spec["volumeClaimTemplates"]] == ["data"]
    variables = environment(worker(objects), facts_of(1), {"worker/password": "x"})
    assert variables["COVERSUMM_INSTANCE_ID"] == f"{FULLNAME}-1"
    assert (
        variables["COVERSUMM_WEB_ADVERTISED_URL"]
        == f"http://{FULLNAME}-1.{FULLNAME}-headless.reviews.svc:8080"
    )
    assert variables["COVERSUMM_WEB_BIND"] == "::"  # both families
    services = [manifest["spec"] for manifest in objects if manifest["kind"] == "Service"]
    assert {service["ipFamilyPolicy"] for service in services} == {"PreferDualStack"}
    assert variables["COVERSUMM_DATA_DIR"].startswith("/data/")


def test_selectors_find_the_workers_alone(objects: list[chart.Object]) -> None:
    stateful = only(objects, "StatefulSet")["spec"]
    labels = stateful["template"]["metadata"]["labels"].items()
    others = [
        manifest["spec"]["template"]["metadata"]["labels"].items()
        for manifest in objects
        if manifest["kind"] in ("Job", "Deployment")
    ] + [only(objects, "Pod")["metadata"]["labels"].items()]
    selectors = [stateful["selector"]["matchLabels"].items()]
    for manifest in objects:
        if manifest["metadata"]["name"].startswith(f"{FULLNAME}-bridge"):
            continue
        if manifest["kind"] == "Service":
            selectors.append(manifest["spec"]["selector"].items())
        if manifest["kind"] in ("PodDisruptionBudget", "PodMonitor"):
            selectors.append(manifest["spec"]["selector"]["matchLabels"].items())
    for selector in selectors:
        assert selector <= labels
        assert not any(selector <= other for other in others)
    policies = [
        manifest["spec"]["podSelector"]["matchLabels"].items()
        for manifest in objects
        if manifest["kind"] == "NetworkPolicy"
    ]
    for pod in [labels, *others]:
        assert sum(policy <= pod for policy in policies) == bool(policies)


def _values_of_each() -> dict[str, Any]:
    """By variable without prefix, a value that is not the default, for each setting of
    `commandLine`.
    """
    named = {
        "SCHEMA_REGISTRY_URL": "https://registry.example.com",
        "SCHEMA_REGISTRY_OAUTH_TOKEN_URL": "https://login.example.com/token",
        "SCHEMA_REGISTRY_HEADERS": "target-sr-cluster=lsrc-1",
        "SASL_OAUTH_TOKEN_URL": "https://login.example.com/token",
        "SASL_OAUTH_EXTENSIONS": "logicalCluster=lkc-1",
        "SASL_AWS_REGION": "eu-central-1",
        "CLIENT_OPTIONS": "compression.type=zstd",
        "OUTPUT_FORMAT": "json-row",
        "EMIT": "coalesced",
        "INDEX": "sgtree",
        "NATIVE": "require",
        "WEIGH": "texts",
        "EMBEDDER": "none",
        "EMBEDDER_PRECISION": "bf16",
        "DIMENSION": 12,
        "FACETS_TOPIC": "facets",
        "DATA_DIR": "/data/other",
        "INSTANCE_ID": "a-$(POD_NAME)",
        "WEB_BIND": "::",
        "WEB_PATH": "/reviews",
        "WEB_PROXIES": "10.0.0.0/8",
        "WEB_ALLOWED_HOSTS": "summaries.example.com",
        "WEB_ORIGINS": "https://shop.example",
        "REVIEW_URL": "https://shop.example/products/{entity_id}#review-{review_id}",
        "WEB_ADVERTISED_URL": "https://$(POD_NAME).example",
        "SECURITY_PROTOCOL": "SASL_SSL",
        "SASL_MECHANISM": "PLAIN",
        "LOG_LEVEL": "DEBUG",
        "LOG_FORMAT": "json",
    }
    schema = yaml.safe_load((CHART / "values.schema.json").read_text())["properties"]["commandLine"]
    found = {}
    for name, part in schema["properties"].items():
        if name in named:
            found[name] = named[name]
        elif part.get("type") == "boolean":
            found[name] = True
        elif "minimum" in part:
            default = getattr(Settings, name.lower(), 0) or 0
            found[name] = default + 1 if default + 1 <= part["maximum"] else default - 1
        else:
            found[name] = f"/data/{name.lower()}"
    return found


_USER = ("USERNAME", "PASSWORD")
WAYS = {
    "PLAIN": ("SASL_USERNAME", "SCHEMA_REGISTRY_USERNAME"),
    "SCRAM-SHA-512": ("SASL_PASSWORD_LOCATION", "SASL_USER", "SCHEMA_REGISTRY_TOKEN"),
    "OAUTHBEARER": ("SASL_OAUTH_", "SCHEMA_REGISTRY_OAUTH_"),
    "AWS_MSK_IAM": ("SASL_AWS_", "SCHEMA_REGISTRY_TOKEN"),
}
"""Settings that exclude each other: beginnings by mechanism. A password belongs to a user name."""


def test_every_setting_is_reachable_and_none_is_stale() -> None:
    reached = {way for mechanism in WAYS for way in _reached_with(mechanism)}
    assert reached == {setting.variable for setting in settings_by_field().values()}


def _reached_with(mechanism: str) -> set[str]:
    """The variables of a worker that logs in so, each checked for its value."""
    kafka = {
        "bootstrapServers": "k:1",
        "inputTopics": ["in"],
        "outputTopic": "out",
        "errorTopic": "err",
        "applicationId": "app",
    }
    own = tuple(way.replace("USERNAME", end) for way in WAYS[mechanism] for end in _USER)
    others = tuple(
        setting.replace("USERNAME", end)
        for way in WAYS.values()
        for setting in way
        for end in _USER
    )

    def is_used(name: str) -> bool:
        if mechanism == "PLAIN" and name == "SASL_PASSWORD_LOCATION":
            return False
        return name.startswith(own) or not name.startswith(others)

    given = {name: value for name, value in _values_of_each().items() if is_used(name)}
    given["SASL_MECHANISM"] = mechanism
    secrets = {
        name: {"name": "s", "key": name.lower()}
        for setting in settings_by_field().values()
        if setting.secret and is_used(name := setting.variable.removeprefix(PREFIX))
    }
    made = worker(render({"kafka": kafka, "commandLine": given, "secretRefs": secrets}))
    variables = environment(
        made, facts_of(0), {f"s/{name.lower()}": f"secret/{name}/of-this-test" for name in secrets}
    )
    ours = {name: value for name, value in variables.items() if name.startswith((PREFIX, "KAFKA_"))}
    expected = {PREFIX + name: value for name, value in given.items()}
    expected |= {PREFIX + name: f"secret/{name}/of-this-test" for name in secrets}
    service = f"{FULLNAME},{FULLNAME}.reviews,{FULLNAME}.reviews.svc"
    expected[f"{PREFIX}WEB_ALLOWED_HOSTS"] = f"{service},summaries.example.com"
    expected |= {
        settings_by_field()[field].variable: kafka[value][0]
        if value == "inputTopics"
        else kafka[value]
        for field, value in OF_KAFKA.items()
    }
    pod = f"{FULLNAME}-0"
    wanted = {name: str(value).replace("$(POD_NAME)", pod) for name, value in expected.items()}
    assert ours == {
        name: value.lower() if value == "True" else value for name, value in wanted.items()
    }
    # the worker takes them, in the form in which they arrive
    for setting in settings_by_field().values():
        if setting.variable in ours:
            setting.kind.parse(ours[setting.variable])
    return set(ours)


FILE = "/usr/bin/env"
"""One that the image has, and this machine."""


def _contradictions() -> dict[str, dict[str, str]]:
    """Settings that contradict one rule or more, for each rule that the chart has of the worker."""
    named = {
        field: setting.variable.removeprefix(PREFIX)
        for field, setting in settings_by_field().items()
    }
    examples = {name: str(value) for name, value in _values_of_each().items()}
    examples |= dict.fromkeys(named.values() - examples.keys(), "a-secret-of-this-test")
    examples |= {name: FILE for name in examples if name.endswith("_LOCATION")}
    found = {}
    for low, high, _ in (*checks.AT_MOST, *checks.LESS_THAN):
        over, most = getattr(Settings, high) + 1, settings_by_field()[low].kind.schema["maximum"]
        found[f"{low} over {high}"] = (
            {named[low]: str(over)}
            if over <= most
            else {named[high]: str(getattr(Settings, low) - 1)}
        )
    for low, high, _ in checks.LESS_THAN:
        found[f"{low} as {high}"] = {named[low]: str(getattr(Settings, high))}
    alone = {name for name, needed in checks.NEEDS if name != needed}
    for name in sorted(alone.union(*checks.TOGETHER)):
        found[f"{name} alone"] = {named[name]: examples[named[name]]}
    for name in checks.OF_TLS:
        found[f"{name} without TLS"] = {named[name]: FILE}
    registry = ["schema_registry_url", "schema_registry_password", *checks.ONE_OF]
    found["ways"] = {named[field]: examples[named[field]] for field in registry}
    used = {name for needed, takes in checks.SASL.values() for name in (*needed, *takes)}
    found["no mechanism"] = {"SECURITY_PROTOCOL": "SASL_SSL"}
    for mechanism, (needed, _) in checks.SASL.items():
        login = {} if mechanism is None else {"SECURITY_PROTOCOL": "SASL_SSL"}
        login |= {"SASL_MECHANISM": mechanism or "PLAIN"}
        enough = {named[field]: examples[named[field]] for field in needed}
        for missing in enough:
            given = {name: value for name, value in enough.items() if name != missing}
            found[f"{mechanism} without {missing}"] = login | given
        others = {named[other] for other in used.difference(*checks.SASL[mechanism])}
        more = {name: examples[name] for name in others if name != "SASL_PASSWORD_LOCATION"}
        found[f"{mechanism} with others"] = login | enough | more
    return found


CONTRADICTIONS = _contradictions()


@pytest.mark.parametrize("case", CONTRADICTIONS)
def test_the_chart_refuses_what_the_worker_refuses_in_its_words(case: str) -> None:
    given = CONTRADICTIONS[case]
    secret = {
        setting.variable.removeprefix(PREFIX)
        for setting in settings_by_field().values()
        if setting.secret
    }
    with pytest.raises(SetupError) as told:
        Settings.from_environment({PREFIX + name: value for name, value in given.items()})
    values = {
        "commandLine": {
            name: _as_value(value) for name, value in given.items() if name not in secret
        },
        "secretRefs": {name: {"name": "s", "key": "k"} for name in secret & given.keys()},
    }
    with pytest.raises(Refused) as refused:
        render(values)
    words = re.sub(r"\(\w+\)|: \w+(?= must be)", "", str(told.value))  # sizes have units in there
    assert words in re.sub(r"\(\w+\)|: \w+(?= must be)", "", str(refused.value))


def _as_value(text: str) -> str | int:
    return int(text) if text.isdecimal() else text


def _leaves(values: dict[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, value in values.items():
        yield (*path, name)
        if isinstance(value, dict):
            yield from _leaves(value, (*path, name))


def test_a_value_of_another_type_is_refused_at_its_own_path() -> None:
    validator = Draft7Validator(json.loads((CHART / "values.schema.json").read_text()))
    given = yaml.safe_load((CHART / "values.yaml").read_text())
    assert not list(validator.iter_errors(given))
    for path in _leaves(given):
        values = deepcopy(given)
        *above, name = path
        place = reduce(getitem, above, values)
        default = place[name]
        place[name] = [[]] if isinstance(default, dict) else {"~": []}
        assert path in {tuple(error.absolute_path) for error in validator.iter_errors(values)}, path


def test_templates_speak_of_settings_that_exist() -> None:
    known = {setting.variable.removeprefix(PREFIX) for setting in settings_by_field().values()}
    known |= {"REPLAY_INDEX", "POD_NAME", "POD_NAMESPACE", "POD_IP", "KAFKA_BOOTSTRAP_SERVERS"}
    known |= {"SSL_CERT_FILE", "AWS_MSK_IAM"}  # of Python, in the test of a release; a mechanism
    files = [*(CHART / "templates").rglob("*.*"), CHART / "values.yaml"]
    for file in files:
        named = set(re.findall(r"\b[A-Z]+(?:_[A-Z]+)+\b", file.read_text().replace(PREFIX, "")))
        assert named <= known, file


def test_the_workers_settings_are_accepted_by_the_worker() -> None:
    """As they arrive with default values: a worker that ends at once, with exit code 2, would be no
    worker.
    """
    settings = Settings.from_environment(environment(worker(render()), facts_of(2)))
    assert settings.instance_id == f"{FULLNAME}-2"
    assert settings.bootstrap_servers == "my-cluster-kafka-bootstrap:9092"
    assert settings.dlq_topic == "marketplace.reviews.v1.dlq"


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"comandLine": {}}, "comandLine is not a value of this chart: did you mean commandLine?"),
        ({"commandLine": {"CACHE_BYTE": 1}}, "did you mean commandLine.CACHE_BYTES?"),
        ({"commandLine": {"COVERSUMM_K": 1}}, "did you mean commandLine.K?"),
        ({"bootstrapServers": "k:1"}, "did you mean kafka.bootstrapServers?"),
        ({"service": {"anotations": {}}}, "did you mean service.annotations?"),
        ({"bridges": {"a": {"form": "x"}}}, "did you mean bridges.a.from?"),
        ({"replay": {"commandLine": {"EPOC": 2}}}, "did you mean replay.commandLine.EPOCH?"),
        ({"kafka": {"bootstrapServers": "kafka"}}, '"kafka" has no port; write kafka:9092'),
        ({"kafka": {"bootstrapServers": "a:1,fd00::1"}}, "write [fd00::1]:9092"),
        (
            {"extraVolumes": [{"name": "data", "emptyDir": {}}]},
            "the volume data has the name of a volume of the chart",
        ),
        (
            {"secretFilesRefs": [{"name": "s", "volume": "tmp", "mountPath": "/x"}]},
            "the volume tmp of the secret s has the name of a volume of the chart",
        ),
        ({"extraEnv": [{"name": "COVERSUMM_K", "value": "3"}]}, "its place is commandLine.K"),
        ({"ingress": {"enabled": True}}, "set ingress.host"),
        ({"web": {"rateLimit": {"requestsPerSecond": 5}}}, "set web.rateLimit.proxies"),
        (
            {
                "web": {"token": {"name": "a"}},
                "secretRefs": {"WEB_TOKEN": {"name": "b", "key": "c"}},
            },
            "web.token and secretRefs.WEB_TOKEN are the same",
        ),
        ({"gateway": {"enabled": True, "host": "a.example"}}, "gateway.className"),
        ({"commandLine": {"CACHE_BYTES": "256MB"}}, "CACHE_BYTES"),
        ({"commandLine": {"SASL_PASSWORD": "x"}}, "SASL_PASSWORD"),
        ({"commandLine": {"INSTANCE_ID": "same"}}, "INSTANCE_ID"),
        ({"secretRefs": {"SASL_PASSWORD": {"name": "x"}}}, "SASL_PASSWORD"),
        (
            {"commandLine": {"K": 1}, "secretRefs": {"K": {"name": "x", "key": "y"}}},
            "K stands in both",
        ),
        ({"kafka": {"inputTopics": ["a", "b"]}}, "inputTopics"),
        ({"env": {"COVERSUMM_K": "3"}}, "COVERSUMM_K"),
        ({"replay": {"commandLine": {"INSTANCE_ID": "x-$(POD_NAME)"}}}, "INSTANCE_ID"),
        (
            {"commandLine": {"SHUTDOWN_TIMEOUT_MS": 60000}, "terminationGracePeriodSeconds": 94},
            "less than the 95",
        ),
        ({"grafanaDashboard": {"enabled": True, "nonsense": 1}}, "nonsense"),
        # helm removes a value that is null
        ({"bridge": {"commandLine": None}}, "'/bridge': missing property 'commandLine'"),
        ({"autoscaling": {"enabled": True, "minReplicas": 9}}, "maxReplicas 8"),
        ({"resources": {"limits": {"memory": "1Gi"}}}, "resources.limits.memory: 1Gi is less"),
        (
            {
                "mapping": MAPPING,
                "bridges": {"a": {"from": "t", "resources": {"requests": {"memory": "1Ti"}}}},
            },
            "bridges.a.resources.limits.memory: 768Mi is less",
        ),
        ({"persistence": {"existingClaim": "c"}}, "3 workers would share the claim c"),
        ({"replay": {"enabled": True}}, "replay: its epoch is 1, as that of the workers"),
        ({"commandLine": {"STANDBY_REPLICAS": 3}}, "raise replicaCount, or lower it"),
        (
            {"commandLine": {"SECURITY_PROTOCOL": "SSL", "SSL_CA_LOCATION": "/etc/kafka/ca.crt"}},
            "nothing is mounted that has /etc/kafka/ca.crt",
        ),
        (
            {"replay": {"enabled": True, "commandLine": {"EPOCH": 2, "SASL_USERNAME": "x"}}},
            "replay: COVERSUMM_SASL_USERNAME: set, but not used",
        ),
    ],
)
def test_what_is_no_value_is_refused(values: dict[str, Any], named: str) -> None:
    with pytest.raises(Refused, match=re.escape(named)):
        render(values)


@pytest.mark.parametrize(
    ("given", "seconds"),
    [
        ({}, 60),
        ({"SHUTDOWN_TIMEOUT_MS": 100, "COMMIT_TIMEOUT_MS": 11000}, 60),
        ({"SHUTDOWN_TIMEOUT_MS": 60000}, 95),
        ({"COMMIT_TIMEOUT_MS": 60001}, 91),
    ],
)
def test_the_grace_period_covers_an_orderly_stop(given: dict[str, int], seconds: int) -> None:
    pod = only(render({"commandLine": given}), "StatefulSet")["spec"]["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] == seconds


def test_the_network_lets_through_what_a_worker_needs() -> None:
    spec = only(render(SECURED), "NetworkPolicy", FULLNAME)["spec"]
    assert spec["policyTypes"] == ["Ingress", "Egress"]
    ports = [{port["port"] for port in rule["ports"]} for rule in spec["egress"]]
    assert ports == [{53}, {9093, 9094}, {8080}]
    assert [port["port"] for rule in spec["ingress"] for port in rule["ports"]] == ["http"]


def test_rules_are_the_alerts_with_links_of_this_release() -> None:
    values = {**MATRIX["monitored"], "mapping": MAPPING, "bridges": {"a": {"from": "t"}}}
    spec = only(render(values), "PrometheusRule")["spec"]
    text = RULES.read_text().replace("RUNBOOK.md#", "https://wiki.example.com/RUNBOOK.md#")
    jobs = f"reviews/{FULLNAME}|reviews/{FULLNAME}-bridge-a"
    scope = f'{{namespace="reviews", job=~"{jobs}"}}'
    for group in spec["groups"]:
        for rule in group["rules"]:
            assert rule["labels"].pop("release") == "shop"
            series = re.findall(r"\b(?:coversumm_|process_|up\b)\w*.", rule["expr"])
            assert all(line.endswith("{") for line in series), rule["expr"]
            assert rule["expr"].count(scope[:-1]) == len(series), rule["expr"]
            rule["expr"] = rule["expr"].replace(scope, "").replace(f"{scope[1:-1]}, ", "")
    assert spec == yaml.safe_load(text)
    values = {**MATRIX["monitored"], "podMonitor": {}, "serviceMonitor": {"enabled": True}}
    assert f'job=~"{FULLNAME}-headless"' in str(only(render(values), "PrometheusRule"))


def test_no_workers_are_no_worker_down() -> None:
    """A release that replays before it has workers."""
    for wanted in (0, 1):
        made = render({**MATRIX["monitored"], "replicaCount": wanted})
        assert ("CoversummDown" in str(only(made, "PrometheusRule"))) is bool(wanted)


def test_an_autoscaler_is_no_worker_gone() -> None:
    """Nor does the chart set a number of workers then: an upgrade would undo what was scaled."""
    made = render(MATRIX["autoscaled"])
    alerts = {
        rule["alert"]
        for group in only(made, "PrometheusRule")["spec"]["groups"]
        for rule in group["rules"]
    }
    everything = {
        rule["alert"]
        for group in yaml.safe_load(RULES.read_text())["groups"]
        for rule in group["rules"]
    }
    assert everything - alerts == {"CoversummWorkerGone"}
    assert "replicas" not in only(made, "StatefulSet")["spec"]
    (trigger,) = only(made, "ScaledObject")["spec"]["triggers"]
    assert trigger["metadata"]["topic"] == "marketplace.reviews.v1"
    assert trigger["metadata"]["consumerGroup"] == "coversumm-worker"


def test_the_dashboard_is_a_config_map() -> None:
    made = only(render({"grafanaDashboard": {"enabled": True}}), "ConfigMap")
    assert made["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert yaml.safe_load(made["data"]["coversumm-worker.json"]) == yaml.safe_load(
        (CHART / "files" / "dashboard.json").read_text()
    )


@pytest.mark.parametrize("name", ["upgrade-check", "replay"])
def test_the_command_of_a_job_is_one_of_the_worker(name: str) -> None:
    jobs = [manifest for manifest in render(MATRIX["replayed"]) if manifest["kind"] == "Job"]
    (job,) = [job for job in jobs if f"-{name}" in job["metadata"]["name"]]
    (container,) = job["spec"]["template"]["spec"]["containers"]
    command, *arguments = container["args"]
    cli.commands[command].make_context(command, arguments, **cli.context_settings)
    assert job["spec"]["template"]["spec"]["restartPolicy"] == "Never"  # for the policy
    rules = job["spec"]["podFailurePolicy"]["rules"]
    ending = {"containerName": container["name"], "operator": "In", "values": [2]}
    assert {"action": "FailJob", "onExitCodes": ending} in rules
    assert job["spec"]["ttlSecondsAfterFinished"] == 7 * 24 * 3600


def test_processes_of_a_replay_differ_from_each_other_and_from_the_workers() -> None:
    job = _replay(MATRIX["replayed"])
    assert job["spec"]["completionMode"] == "Indexed"
    (container,) = job["spec"]["template"]["spec"]["containers"]
    index = "metadata.annotations['batch.kubernetes.io/job-completion-index']"
    found = [
        environment(
            container,
            {
                "metadata.name": "x",
                "metadata.namespace": "y",
                "status.podIP": address,
                index: number,
            },
            {"worker/password": "x"},
        )
        for number, address in (("0", "10.0.0.1"), ("1", "fd00::5"))
    ]
    assert [environment["COVERSUMM_INSTANCE_ID"] for environment in found] == [
        "replay-0",
        "replay-1",
    ]
    urls = [web_origin(environment["COVERSUMM_WEB_ADVERTISED_URL"]) for environment in found]
    assert urls == ["http://10.0.0.1:8080", "http://[fd00::5]:8080"]
    assert (found[0]["COVERSUMM_K"], found[0]["COVERSUMM_EPOCH"]) == ("10", "2")
    assert found[0]["COVERSUMM_SASL_USERNAME"] == "worker"
    assert "COVERSUMM_K" not in environment(
        worker(render(MATRIX["replayed"])), facts_of(0), {"worker/password": "x"}
    )


def test_workers_have_the_mapping_unless_a_bridge_has_it() -> None:
    mapped, bridged = render(MATRIX["mapped"]), render(MATRIX["bridged"])
    found, of_the_hook = (
        [
            manifest
            for manifest in mapped
            if manifest["kind"] == "ConfigMap" and of_a_hook is _is_hook(manifest)
        ]
        for of_a_hook in (False, True)
    )
    assert [manifest["data"] for manifest in found + of_the_hook] == [{"mapping.toml": MAPPING}] * 2
    pod = only(mapped, "StatefulSet")["spec"]["template"]["spec"]
    assert {"name": "mapping", "configMap": {"name": found[0]["metadata"]["name"]}} in pod[
        "volumes"
    ]
    variables = environment(worker(mapped), facts_of(0))
    mounts = {mount["name"]: mount["mountPath"] for mount in worker(mapped)["volumeMounts"]}
    assert variables["COVERSUMM_MAPPING"] == f"{mounts['mapping']}/mapping.toml"
    assert "COVERSUMM_MAPPING" not in environment(worker(bridged), facts_of(0))
    # the hook comes before the ConfigMap: it has one of its own
    assert "COVERSUMM_MAPPING" in str(only(mapped, "Job", "-upgrade-check"))
    other = render({**MATRIX["mapped"], "mapping": MAPPING + "#"})
    (renamed,) = [
        manifest for manifest in other if manifest["kind"] == "ConfigMap" and not _is_hook(manifest)
    ]
    assert renamed["metadata"]["name"] != found[0]["metadata"]["name"]


def test_a_mapping_in_python_has_its_files_name() -> None:
    text, own = "def events(record): ...\n", {"mapping": "def events(record): return []\n"}
    values = {**MATRIX["bridged"], "mapping": text, "mappingFile": "shop.py"}
    made = render({**MATRIX["mapped"], "mapping": text, "mappingFile": "shop.py"})
    assert environment(worker(made), facts_of(0))["COVERSUMM_MAPPING"] == "/etc/coversumm/shop.py"
    found = [manifest for manifest in made if manifest["kind"] == "ConfigMap"]
    assert [manifest["data"] for manifest in found] == [{"shop.py": text}] * 2
    toml = render({**MATRIX["mapped"], "mapping": text})
    names = {
        manifest["metadata"]["name"]
        for manifest in (*toml, *made)
        if manifest["kind"] == "ConfigMap"
    }
    assert len(names) == 3, "an object of another file has another name"
    made = render({**values, "bridges": {"a": {"from": "t", "mappingFile": "a.toml", **own}}})
    args = {
        manifest["metadata"]["labels"]["app.kubernetes.io/component"]: manifest["spec"]["template"][
            "spec"
        ]["containers"][0]["args"][2]
        for manifest in made
        if manifest["kind"] == "Deployment"
    }
    assert args == {"bridge": "/etc/coversumm/shop.py", "bridge-a": "/etc/coversumm/a.toml"}
    check = str(only(made, "Job", "-upgrade-check"))
    assert "/etc/coversumm/bridge.py" in check
    assert "/etc/coversumm/bridge-a.toml" in check
    with pytest.raises(Refused, match="mappingFile"):
        render({**values, "mappingFile": "shop.sh"})


def _is_hook(manifest: chart.Object) -> bool:
    return "helm.sh/hook" in manifest["metadata"].get("annotations", {})


def test_the_bridge_runs_the_command_with_the_workers_settings() -> None:
    deployment = only(render(MATRIX["bridged"]), "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    command, *arguments = container["args"]
    context = cli.commands[command].make_context(command, arguments, **cli.context_settings)
    assert context.params["source"] == "shop.public.reviews"
    variables = environment(container, facts_of(0))
    assert variables["COVERSUMM_INPUT_TOPIC"] == "marketplace.reviews.v1"
    assert variables["COVERSUMM_BATCH_SIZE"] == "500"
    assert "COVERSUMM_BATCH_SIZE" not in environment(worker(render(MATRIX["bridged"])), facts_of(0))
    secret = {"name": "bridge", "key": "password"}
    login = {"SECURITY_PROTOCOL": "SASL_SSL", "SASL_MECHANISM": "PLAIN", "SASL_USERNAME": "b"}
    own = MATRIX["bridged"]["bridge"] | {"commandLine": login}
    own["secretRefs"] = {"SASL_PASSWORD": secret}
    made = render({**MATRIX["bridged"], "bridge": own})
    assert str({"secretKeyRef": secret}) in str(only(made, "Deployment"))
    assert "secretKeyRef" not in str(only(made, "StatefulSet"))
    several = {**MATRIX["bridged"]["bridge"], "from": ["shop.public.reviews", "shop.replies"]}
    made = only(render({**MATRIX["bridged"], "bridge": several}), "Deployment")
    (two,) = made["spec"]["template"]["spec"]["containers"]
    assert two["args"] == [*container["args"][:-1], "shop.public.reviews,shop.replies"]
    memory = [each["resources"]["limits"]["memory"] for each in (container, two)]
    assert memory == ["768Mi", "896Mi"]
    for bad in (["a b"], ["a", "a"], [1], "a,b"):
        with pytest.raises(Refused, match="from"):
            render({**MATRIX["bridged"], "bridge": {**several, "from": bad}})
    for values in (
        {"mapping": ""},
        {"bridge": {"enabled": True}},
        {"bridge": several | {"from": []}},
    ):
        with pytest.raises(Refused, match=re.escape("set bridge.from to a topic, and mapping")):
            render({**MATRIX["bridged"], **values})


def test_another_replay_is_another_job() -> None:
    values = MATRIX["replayed"]
    names = {
        _replay({**values, "replay": {**values["replay"], **more}})["metadata"]["name"]
        for more in ({}, {"name": "other"}, {"args": []}, {"commandLine": {"EPOCH": 3}})
    }
    assert len(names) == 4
    assert max(map(len, names)) <= 63


def _replay(values: dict[str, Any]) -> chart.Object:
    (job,) = [
        manifest
        for manifest in render(values)
        if manifest["kind"] == "Job" and "-replay-" in manifest["metadata"]["name"]
    ]
    return job


def test_names_fit_whatever_the_release_is_called() -> None:
    made = render({"fullnameOverride": "a" * 40, "replay": {"enabled": True, "name": "x"}})
    for manifest in made:
        # Its pods have a label with the set's name and a hash.
        beside = len("-1234567890") if manifest["kind"] == "StatefulSet" else 0
        assert len(manifest["metadata"]["name"]) + beside <= 63
