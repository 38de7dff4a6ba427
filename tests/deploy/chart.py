"""The chart as helm renders it, what its containers get of the kubelet, and the schemas that its
objects have to meet.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from jsonschema import Draft202012Validator

from docs.build.chart import CHART
from tests.deploy.tools import CRDS, HELM, KUBERNETES_VERSIONS, VALIDATOR
from tests.harness.patience import PATIENCE_SECONDS

RELEASE, NAMESPACE = "shop", "reviews"
FULLNAME = "shop-coversumm-worker"
Object = dict[str, Any]


BUILT_IN = {"networking.k8s.io", "rbac.authorization.k8s.io", "storage.k8s.io"}
"""Groups of Kubernetes itself among those with a dot."""


class Refused(Exception):
    """Helm's own words about values that it does not take."""


def helm(*arguments: str | Path, stdin: str = "") -> str:
    """What a helm command wrote."""
    command = [HELM, *arguments]
    done = subprocess.run(
        command, input=stdin, capture_output=True, text=True, timeout=PATIENCE_SECONDS
    )
    if done.returncode:
        raise Refused(done.stderr + done.stdout)
    return done.stdout


def render(values: Mapping[str, Any] = {}, *arguments: str) -> list[Object]:
    """The objects of a release with these values, hooks and test among them."""
    return _rendered(json.dumps(values), arguments)


@cache
def _rendered(values: str, arguments: tuple[str, ...]) -> list[Object]:
    where = ["--namespace", NAMESPACE, "--is-upgrade"]
    text = helm("template", RELEASE, CHART, *where, "--values", "-", *arguments, stdin=values)
    return [one for one in yaml.safe_load_all(text) if one is not None]


def only(objects: Iterable[Object], kind: str, name: str = "") -> Object:
    """The one object of a kind, or of a kind whose name ends so."""
    (found,) = [
        one for one in objects if one["kind"] == kind and one["metadata"]["name"].endswith(name)
    ]
    return found


def worker(objects: Iterable[Object]) -> Object:
    """The container that runs the worker."""
    (container,) = only(objects, "StatefulSet")["spec"]["template"]["spec"]["containers"]
    return dict(container)


def pods(objects: Iterable[Object]) -> Iterator[Object]:
    """The specs of all pods that come of the objects."""
    for one in objects:
        if one["kind"] == "Pod":
            yield one["spec"]
        elif "template" in one.get("spec", {}):
            yield one["spec"]["template"]["spec"]


def environment(
    container: Object, facts: Mapping[str, str], secrets: Mapping[str, str] = {}
) -> dict[str, str]:
    """The variables of a container as the kubelet sets them.

    `facts` are those of its pod, by the path that asks for them; `secrets` by name and key as in
    NAME/KEY.
    """
    known: dict[str, str] = {}
    for one in container["env"]:
        match one:
            case {"value": value}:
                known[one["name"]] = re.sub(r"\$\((\w+)\)", lambda m: known.get(m[1], m[0]), value)
            case {"valueFrom": {"fieldRef": {"fieldPath": path}}}:
                known[one["name"]] = facts[path]
            case {"valueFrom": {"secretKeyRef": {"name": name, "key": key}}}:
                known[one["name"]] = secrets[f"{name}/{key}"]
    return known


def facts_of(ordinal: int) -> dict[str, str]:
    """Of a worker's pod."""
    return {"metadata.name": f"{FULLNAME}-{ordinal}", "metadata.namespace": NAMESPACE}


def complaints(objects: Iterable[Object], scratch: Path) -> list[str]:
    """What the schemas of Kubernetes and of custom resources have against the objects; unknown
    fields count.
    """
    kinds = {(one["apiVersion"], one["kind"]) for one in objects}
    custom = {kind: _strict(_schema_of(*kind)) for kind in kinds if _is_custom(kind[0])}
    found = [
        f"{one['kind']}: {error.json_path}: {error.message}"
        for one in objects
        if (schema := custom.get((one["apiVersion"], one["kind"])))
        for error in Draft202012Validator(schema).iter_errors(one)
    ]
    core = [one for one in objects if (one["apiVersion"], one["kind"]) not in custom]
    file = scratch / "objects.yaml"
    file.write_text(yaml.safe_dump_all(core))
    versions = [word for version in KUBERNETES_VERSIONS for word in ("-k", version)]
    command = [
        VALIDATOR / "bin" / "python",
        "-m",
        "kubernetes_validate",
        "--strict",
        *versions,
        file,
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS)
    said = (done.stdout + done.stderr).splitlines()
    passed = [line for line in said if line.startswith("INFO ")]
    assert len(said) >= len(core) * len(KUBERNETES_VERSIONS), done.stderr
    return found + [line for line in said if line not in passed]


def _is_custom(api_version: str) -> bool:
    group = api_version.partition("/")[0]
    return "." in group and group not in BUILT_IN


@cache
def _schema_of(api_version: str, kind: str) -> Object:
    group, _, version = api_version.partition("/")
    for file in CRDS.iterdir():
        spec = yaml.safe_load(file.read_text())["spec"]
        if (spec["group"], spec["names"]["kind"]) == (group, kind):
            (found,) = [
                one["schema"]
                for one in spec["versions"]
                if one["name"] == version and one["served"]
            ]
            return dict(found["openAPIV3Schema"])
    raise LookupError(f"no definition of {api_version} {kind}")


def _strict(schema: Any) -> Any:
    """The schema without what is in none of its `properties`, as `kubectl --validate=strict` has
    it.
    """
    if isinstance(schema, list):
        return [_strict(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    made = {name: _strict(one) for name, one in schema.items()}
    is_open = schema.get("x-kubernetes-preserve-unknown-fields") or "additionalProperties" in schema
    if (
        isinstance(schema.get("properties"), dict)
        and schema.get("type") == "object"
        and not is_open
    ):
        made["additionalProperties"] = False
    return made
