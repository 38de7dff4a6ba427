"""The schema of the chart's values that are not settings of the worker."""

from typing import Any, Final

CLOSED: Final = "no other names"
_TEXT: Final = {"type": "string"}
_FLAG: Final = {"type": "boolean"}
_COUNT: Final = {"type": "integer", "minimum": 1}
_OBJECT: Final = {"type": "object"}
_LIST: Final = {"type": "array", "items": {"type": "object"}}
_TEXTS: Final = {"type": "object", "additionalProperties": {"type": "string"}}
_SIZE: Final = {"type": "string", "pattern": "^[1-9][0-9]*(Mi|Gi)$"}
_VOLUME: Final = {"type": "string", "pattern": "^[1-9][0-9]*(Mi|Gi|Ti)$"}
_INTERVAL: Final = {"type": "string", "pattern": "^[1-9][0-9]*(s|m)$"}
_OBJECT_OR_NULL: Final = {"type": ["object", "null"]}
_PORT: Final = {"type": "integer", "minimum": 1, "maximum": 65535}
_PATH: Final = {"type": "string", "pattern": "^/"}
_TAG: Final = {"type": "string", "pattern": "^([A-Za-z0-9_][A-Za-z0-9._-]{0,62})?$"}
_DIGEST: Final = {"type": "string", "pattern": "^(sha256:[0-9a-f]{64})?$"}
_NAME: Final = {"type": "string", "pattern": "^([a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?)?$"}


def _closed(**properties: Any) -> dict[str, Any]:
    """With no other names; templates refuse those, since they can name the nearest
    (`_nearest.tpl`).
    """
    return {"type": "object", "properties": properties, CLOSED: True}


_PROBE: Final = _closed(
    initialDelaySeconds={"type": "integer", "minimum": 0},
    periodSeconds=_COUNT,
    timeoutSeconds=_COUNT,
    failureThreshold=_COUNT,
)
_NAMED: Final = {**_LIST, "items": {"type": "object", "required": ["name"]}}
_BUDGET: Final = _closed(
    enabled=_FLAG,
    maxUnavailable={"type": ["integer", "string"], "minimum": 1, "pattern": "^[1-9][0-9]?%$"},
)
_RESOURCES: Final = _closed(requests=_OBJECT, limits=_OBJECT)
_SECRET_FILES: Final = {
    "type": "array",
    "items": {
        **_closed(
            name={"type": "string", "minLength": 1},
            volume={"type": "string", "minLength": 1},
            mountPath=_PATH,
            readOnly={"const": True},
            subPath=_TEXT,
        ),
        "additionalProperties": False,
        "required": ["name", "volume", "mountPath"],
    },
}
_MONITOR: Final = {
    "type": "object",
    "properties": {
        "enabled": _FLAG,
        "interval": _INTERVAL,
        "labels": _TEXTS,
        "annotations": _TEXTS,
    },
}
_WAY_IN: Final = {
    "enabled": _FLAG,
    "host": {"type": "string", "pattern": "^[^,/: ]*$"},
    "className": _TEXT,
    "path": {"type": "string", "pattern": "^(/|$)"},
    "controllerNamespace": _TEXT,
    "labels": _TEXTS,
    "annotations": _TEXTS,
    "tls": {**_LIST, "items": {"type": "object", "required": ["secretName"]}},
}
# Of all pods.
_PODS: Final[dict[str, Any]] = {
    "extraEnv": _NAMED,
    "envFrom": _LIST,
    "secretFilesRefs": _SECRET_FILES,
    "extraVolumes": _NAMED,
    "extraVolumeMounts": _NAMED,
    "initContainers": _NAMED,
    "podAnnotations": _TEXTS,
    "podLabels": _TEXTS,
    "tolerations": _LIST,
    "nodeSelector": _TEXTS,
    "affinity": _OBJECT,
    "topologySpreadConstraints": _LIST,
    "priorityClassName": _TEXT,
    "schedulerName": _TEXT,
    "runtimeClassName": _TEXT,
    "hostAliases": _LIST,
    "dnsPolicy": _TEXT,
    "dnsConfig": _OBJECT,
    "podSecurityContext": _OBJECT_OR_NULL,
    "securityContext": _OBJECT_OR_NULL,
}
_MAPPING_FILE: Final = {"type": "string", "pattern": r"^[A-Za-z0-9_-]{1,63}\.(toml|py)$"}
_SERVING: Final[dict[str, Any]] = {
    "sidecars": _NAMED,
    "lifecycle": _OBJECT,
    "podDisruptionBudget": _BUDGET,
    "resources": _RESOURCES,
    "replicaCount": {"type": "integer", "minimum": 0},
}
BRIDGE: Final[dict[str, Any]] = {
    "from": {
        "type": ["string", "array"],
        "pattern": "^[A-Za-z0-9._-]{0,249}$",
        "items": {"type": "string", "pattern": "^[A-Za-z0-9._-]{1,249}$"},
        "uniqueItems": True,
    },
    "mapping": _TEXT,
    "mappingFile": _MAPPING_FILE,
    "commandLine": {},
    "secretRefs": {},
    "strategy": _OBJECT,
    **_SERVING,
    **_PODS,
}
"""Of a bridge; without what the chart derives from the settings."""

VALUES: Final[dict[str, Any]] = {
    "nameOverride": _NAME,
    "fullnameOverride": _NAME,
    # A chart that depends on this one may have it as the condition.
    "enabled": _FLAG,
    "global": _OBJECT,
    "image": {"type": "string", "minLength": 1},
    "imageTag": _TAG,
    "imageDigest": _DIGEST,
    "imagePullPolicy": {"enum": ["Always", "IfNotPresent", "Never"]},
    "imagePullSecrets": _LIST,
    "kafka": {},
    "commandLine": {},
    "mapping": _TEXT,
    "mappingFile": _MAPPING_FILE,
    "bridge": _closed(enabled=_FLAG, **BRIDGE),
    "bridges": {},
    **_SERVING,
    **_PODS,
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
    "persistence": _closed(
        enabled=_FLAG,
        size=_VOLUME,
        storageClass=_TEXT,
        accessModes={
            "type": "array",
            "items": {"enum": ["ReadWriteOnce", "ReadWriteOncePod", "ReadWriteMany"]},
            "minItems": 1,
        },
        annotations=_TEXTS,
        existingClaim=_TEXT,
        whenScaled={"enum": ["Retain", "Delete"]},
        whenDeleted={"enum": ["Retain", "Delete"]},
    ),
    "tmpSize": _SIZE,
    "terminationGracePeriodSeconds": {"type": ["integer", "null"], "minimum": 60},
    "startupProbe": _PROBE,
    "livenessProbe": _PROBE,
    "readinessProbe": _PROBE,
    "service": _closed(
        enabled=_FLAG,
        type={"enum": ["ClusterIP", "NodePort", "LoadBalancer"]},
        port=_PORT,
        nodePort={**_PORT, "type": ["integer", "null"]},
        labels=_TEXTS,
        annotations=_TEXTS,
        clusterIP=_TEXT,
        externalTrafficPolicy={"enum": ["", "Cluster", "Local"]},
        loadBalancerClass=_TEXT,
        loadBalancerSourceRanges={"type": "array", "items": _TEXT},
        ipFamilyPolicy={"enum": ["", None, "SingleStack", "PreferDualStack", "RequireDualStack"]},
        ipFamilies={"type": "array", "items": {"enum": ["IPv4", "IPv6"]}, "maxItems": 2},
    ),
    "web": _closed(
        path={"type": "string", "pattern": "^(/[A-Za-z0-9._~-]+)*$"},
        tls=_closed(secretName=_TEXT, ca=_TEXT),
        token=_closed(name=_TEXT, key={"type": "string", "minLength": 1}),
        rateLimit=_closed(
            requestsPerSecond={"type": ["integer", "null"], "minimum": 1},
            burst=_COUNT,
            proxies={"type": "array", "items": _TEXT},
        ),
    ),
    "ingress": _closed(**_WAY_IN, pathType={"enum": ["Prefix", "Exact", "ImplementationSpecific"]}),
    "gateway": _closed(**_WAY_IN, parentRefs=_NAMED, filters=_LIST),
    "updateStrategy": _OBJECT,
    "serviceAccount": _closed(create=_FLAG, name=_TEXT, annotations=_TEXTS, automountToken=_FLAG),
    "networkPolicy": _closed(
        enabled=_FLAG,
        ingressFrom=_LIST,
        extraIngress=_LIST,
        dns=_closed(to=_LIST, ports={"type": "array", "items": _PORT, "minItems": 1}),
        brokers=_LIST,
        brokerPorts={"type": "array", "items": _PORT},
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
    "podMonitor": _MONITOR,
    "serviceMonitor": _MONITOR,
    "prometheusRule": _closed(
        enabled=_FLAG, labels=_TEXTS, runbookUrl={"type": "string", "pattern": "^https?://[^#]+$"}
    ),
    "grafanaDashboard": _closed(enabled=_FLAG, labels=_TEXTS, annotations=_TEXTS),
    "upgradeCheck": _closed(enabled=_FLAG, activeDeadlineSeconds=_COUNT, serviceAccountName=_TEXT),
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
        imageTag=_TAG,
        imageDigest=_DIGEST,
        resources=_RESOURCES,
        **_PODS,
    ),
    "extraObjects": {"type": "array", "items": {"type": ["object", "string"]}},
    "annotations": _TEXTS,
    "labels": _TEXTS,
}
"""By name; those that are empty here are made of the settings."""
