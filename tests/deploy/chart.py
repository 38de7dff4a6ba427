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
from referencing import Registry, Resource

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
    return load_all(text)


def load_all(text: str) -> list[Any]:
    """The documents of a file, but empty ones, by the parser in C."""
    return [document for document in yaml.load_all(text, yaml.CSafeLoader) if document is not None]


def only(objects: Iterable[Object], kind: str, name: str = "") -> Object:
    """The one object of a kind, or of a kind whose name ends so."""
    (found,) = [
        made for made in objects if made["kind"] == kind and made["metadata"]["name"].endswith(name)
    ]
    return found


def worker(objects: Iterable[Object]) -> Object:
    """The container that runs the worker."""
    (container,) = only(objects, "StatefulSet")["spec"]["template"]["spec"]["containers"]
    return dict(container)


def pods(objects: Iterable[Object]) -> Iterator[Object]:
    """The specs of all pods that come of the objects."""
    for manifest in objects:
        if manifest["kind"] == "Pod":
            yield manifest["spec"]
        elif "template" in manifest.get("spec", {}):
            yield manifest["spec"]["template"]["spec"]


def environment(
    container: Object, facts: Mapping[str, str], secrets: Mapping[str, str] = {}
) -> dict[str, str]:
    """The variables of a container as the kubelet sets them.

    `facts` are those of its pod, by the path that asks for them; `secrets` by name and key as in
    NAME/KEY.
    """
    known: dict[str, str] = {}
    for entry in container["env"]:
        match entry:
            case {"value": value}:
                known[entry["name"]] = re.sub(
                    r"\$\((\w+)\)", lambda m: known.get(m[1], m[0]), value
                )
            case {"valueFrom": {"fieldRef": {"fieldPath": path}}}:
                known[entry["name"]] = facts[path]
            case {"valueFrom": {"secretKeyRef": {"name": name, "key": key}}}:
                known[entry["name"]] = secrets[f"{name}/{key}"]
    return known


def facts_of(ordinal: int) -> dict[str, str]:
    """Of a worker's pod."""
    return {"metadata.name": f"{FULLNAME}-{ordinal}", "metadata.namespace": NAMESPACE}


def complaints(objects: Iterable[Object]) -> list[str]:
    """What the schemas of Kubernetes and of custom resources have against the objects; unknown
    fields count.
    """
    return [
        f"{manifest['kind']}: {error.json_path}: {error.message}"
        for manifest in objects
        for validator in _validators(manifest["apiVersion"], manifest["kind"])
        for error in validator.iter_errors(manifest)
    ]


@cache
def _validators(api_version: str, kind: str) -> list[Draft202012Validator]:
    """One of a custom resource; one of each version of Kubernetes for what is its own."""
    if _is_custom(api_version):
        return [Draft202012Validator(_strict(_schema_of(api_version, kind)))]
    group, _, version = api_version.rpartition("/")
    name = "-".join(filter(None, (kind.lower(), group.partition(".")[0], version)))
    found = []
    for folder, definitions in map(_schemas_of, KUBERNETES_VERSIONS):
        schema = json.loads((folder / f"{name}.json").read_text())
        found.append(Draft202012Validator(schema, registry=definitions))
    return found


@cache
def _schemas_of(version: str) -> tuple[Path, Registry[Any]]:
    """The folder of a version of Kubernetes, and what its files refer to."""
    packages = "lib/*/site-packages/kubernetes_validate/kubernetes-json-schema"
    (folder,) = VALIDATOR.glob(f"{packages}/v{version}.*-local-strict")
    text = (folder / "_definitions.json").read_text()
    return folder, Resource.from_contents(json.loads(text)) @ Registry()


def _is_custom(api_version: str) -> bool:
    group = api_version.partition("/")[0]
    return "." in group and group not in BUILT_IN


@cache
def _custom() -> list[Object]:
    return [load_all(file.read_text())[0]["spec"] for file in CRDS.iterdir()]


def _schema_of(api_version: str, kind: str) -> Object:
    group, _, version = api_version.partition("/")
    for spec in _custom():
        if (spec["group"], spec["names"]["kind"]) == (group, kind):
            (found,) = [
                served["schema"]
                for served in spec["versions"]
                if served["name"] == version and served["served"]
            ]
            return dict(found["openAPIV3Schema"])
    raise LookupError(f"no definition of {api_version} {kind}")


def _strict(schema: Any) -> Any:
    """The schema without what is in none of its `properties`, as `kubectl --validate=strict` has
    it.
    """
    if isinstance(schema, list):
        return [_strict(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    made = {name: _strict(item) for name, item in schema.items()}
    is_open = schema.get("x-kubernetes-preserve-unknown-fields") or "additionalProperties" in schema
    if (
        isinstance(schema.get("properties"), dict)
        and schema.get("type") == "object"
        and not is_open
    ):
        made["additionalProperties"] = False
    return made
