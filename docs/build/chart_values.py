"""The schema of the chart's values that are not settings of the worker."""

from typing import Any, Final

_TEXT: Final = {"type": "string"}
_FLAG: Final = {"type": "boolean"}
_COUNT: Final = {"type": "integer", "minimum": 1}
_OBJECT: Final = {"type": "object"}
_LIST: Final = {"type": "array", "items": {"type": "object"}}
_TEXTS: Final = {"type": "object", "additionalProperties": {"type": "string"}}
_SIZE: Final = {"type": "string", "pattern": "^[1-9][0-9]*(Mi|Gi)$"}
_VOLUME: Final = {"type": "string", "pattern": "^[1-9][0-9]*(Mi|Gi|Ti)$"}
_INTERVAL: Final = {"type": "string", "pattern": "^[1-9][0-9]*(s|m)$"}
_NAME: Final = {"type": "string", "pattern": "^([a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?)?$"}


def _closed(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "additionalProperties": False}


_PROBE: Final = _closed(
    initialDelaySeconds={"type": "integer", "minimum": 0},
    periodSeconds=_COUNT,
    timeoutSeconds=_COUNT,
    failureThreshold=_COUNT,
)

VALUES: Final[dict[str, Any]] = {
    "nameOverride": _NAME,
    "fullnameOverride": _NAME,
    "replicaCount": {"type": "integer", "minimum": 0},
    "image": {"type": "string", "minLength": 1},
    "imageTag": {"type": "string", "pattern": "^([A-Za-z0-9_][A-Za-z0-9._-]{0,62})?$"},
    "imageDigest": {"type": "string", "pattern": "^(sha256:[0-9a-f]{64})?$"},
    "imagePullPolicy": {"enum": ["Always", "IfNotPresent", "Never"]},
    "imagePullSecrets": _LIST,
    "kafka": {},
    "commandLine": {},
    "mapping": _TEXT,
    "bridge": _closed(
        enabled=_FLAG,
        **{
            "from": {
                "type": ["string", "array"],
                "pattern": "^[A-Za-z0-9._-]{0,249}$",
                "items": {"type": "string", "pattern": "^[A-Za-z0-9._-]{1,249}$"},
                "uniqueItems": True,
            }
        },
        replicaCount={"type": "integer", "minimum": 0},
        commandLine={},
        secretRefs={},
        resources=_closed(requests=_OBJECT, limits=_OBJECT),
    ),
    "env": {
        "type": "object",
        # Settings have other places; here nothing would check them.
        "propertyNames": {
            "pattern": "^[A-Za-z_][A-Za-z0-9_]*$",
            "not": {"pattern": "^(COVERSUMM_|KAFKA_BOOT)"},
        },
        "additionalProperties": {"type": ["string", "integer", "boolean"]},
    },
    "secretRefs": {},
    "secretFilesRefs": {
        "type": "array",
        "items": {
            **_closed(
                name={"type": "string", "minLength": 1},
                volume={"type": "string", "minLength": 1},
                mountPath={"type": "string", "pattern": "^/"},
                readOnly={"const": True},
                subPath=_TEXT,
            ),
            "required": ["name", "volume", "mountPath"],
        },
    },
    "resources": _closed(requests=_OBJECT, limits=_OBJECT),
    "persistence": _closed(size=_VOLUME, storageClass=_TEXT),
    "tmpSize": _SIZE,
    "terminationGracePeriodSeconds": {"type": ["integer", "null"], "minimum": 60},
    "startupProbe": _PROBE,
    "livenessProbe": _PROBE,
    "readinessProbe": _PROBE,
    "service": _closed(
        enabled=_FLAG,
        type={"enum": ["ClusterIP", "NodePort", "LoadBalancer"]},
        port={"type": "integer", "minimum": 1, "maximum": 65535},
        labels=_TEXTS,
    ),
    "serviceAccount": _closed(create=_FLAG, name=_TEXT, annotations=_TEXTS),
    "podDisruptionBudget": _closed(
        enabled=_FLAG,
        maxUnavailable={"type": ["integer", "string"], "minimum": 1, "pattern": "^[1-9][0-9]?%$"},
    ),
    "networkPolicy": _closed(
        enabled=_FLAG,
        ingressFrom=_LIST,
        brokers=_LIST,
        brokerPorts={"type": "array", "items": {"type": "integer", "minimum": 1, "maximum": 65535}},
        extraEgress=_LIST,
    ),
    "autoscaling": _closed(
        enabled=_FLAG,
        minReplicas=_COUNT,
        maxReplicas=_COUNT,
        lagThreshold=_COUNT,
        pollingInterval=_COUNT,
        cooldownPeriod={"type": "integer", "minimum": 0, "maximum": 3600},
        authenticationRef=_TEXT,
    ),
    "podMonitor": _closed(enabled=_FLAG, interval=_INTERVAL, labels=_TEXTS),
    "prometheusRule": _closed(
        enabled=_FLAG, labels=_TEXTS, runbookUrl={"type": "string", "pattern": "^https?://[^#]+$"}
    ),
    "grafanaDashboard": _closed(enabled=_FLAG, labels=_TEXTS),
    "upgradeCheck": _closed(enabled=_FLAG, activeDeadlineSeconds=_COUNT),
    "replay": _closed(
        enabled=_FLAG,
        name={"type": "string", "pattern": "^[a-zA-Z0-9._-]{0,60}$"},
        parallelism=_COUNT,
        commandLine={},
        secretRefs={},
        args={"type": "array", "items": _TEXT},
        backoffLimit={"type": "integer", "minimum": 0},
        size=_VOLUME,
        storageClass=_TEXT,
    ),
    "tolerations": _LIST,
    "nodeSelector": _TEXTS,
    "affinity": _OBJECT,
    "topologySpreadConstraints": _LIST,
    "priorityClassName": _TEXT,
    "annotations": _TEXTS,
    "labels": _TEXTS,
    "podAnnotations": _TEXTS,
    "podLabels": _TEXTS,
}
"""By name; those that are empty here are made of the settings."""
