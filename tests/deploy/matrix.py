"""Values under which the chart is rendered."""

from __future__ import annotations

from typing import Any

MAPPING = """
[topic."shop.public.reviews"]
[[topic."shop.public.reviews".rule]]
emit = "ignore"
"""
SECURED = {
    "kafka": {"bootstrapServers": "a.example:9093,b.example:9094"},
    "commandLine": {
        "SECURITY_PROTOCOL": "SASL_SSL",
        "SASL_MECHANISM": "SCRAM-SHA-512",
        "SASL_USERNAME": "worker",
        "SSL_CA_LOCATION": "/etc/kafka/ca.crt",
    },
    "secretRefs": {"SASL_PASSWORD": {"name": "worker", "key": "password"}},
    "secretFilesRefs": [
        {"volume": "kafka-ca", "name": "my-cluster-cluster-ca-cert", "mountPath": "/etc/kafka"},
        {"volume": "more", "name": "more", "mountPath": "/etc/more/one", "subPath": "one"},
    ],
}
MATRIX: dict[str, dict[str, Any]] = {
    "defaults": {},
    "secured": SECURED,
    "autoscaled": {
        "autoscaling": {"enabled": True, "authenticationRef": "kafka"},
        "podMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
        "prometheusRule": {"enabled": True, "labels": {"release": "prometheus"}},
    },
    "monitored": {
        "podMonitor": {"enabled": True},
        "prometheusRule": {"enabled": True, "runbookUrl": "https://wiki.example.com/RUNBOOK.md"},
    },
    "replayed": {
        **SECURED,
        "replay": {
            "enabled": True,
            "commandLine": {"EPOCH": 2, "K": 10},
            "args": ["--until", "2026-06-30"],
        },
    },
    "mapped": {"mapping": MAPPING, "kafka": {"inputTopics": ["shop.public.reviews"]}},
    "bridged": {
        "mapping": MAPPING,
        "bridge": {
            "enabled": True,
            "from": "shop.public.reviews",
            "commandLine": {"BATCH_SIZE": 500},
        },
        "podMonitor": {"enabled": True},
    },
    "placed": {
        "nodeSelector": {"disk": "fast"},
        "tolerations": [{"key": "reviews", "operator": "Exists", "effect": "NoSchedule"}],
        "affinity": {"nodeAffinity": {}},
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "kubernetes.io/hostname",
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app.kubernetes.io/component": "worker"}},
            }
        ],
        "priorityClassName": "high",
        "imagePullSecrets": [{"name": "registry"}],
        "imageDigest": f"sha256:{'0' * 64}",
        "annotations": {"a": "b"},
        "labels": {"c": "d"},
        "podAnnotations": {"e": "f"},
        "podLabels": {"g": "h"},
        "env": {"OTEL_SERVICE_NAME": "reviews", "NUMBER": 100000000},
        "persistence": {"size": "1Ti", "storageClass": "fast"},
        "networkPolicy": {
            "brokers": [{"ipBlock": {"cidr": "10.0.0.0/8"}}],
            "extraEgress": [{"ports": [{"port": 443, "protocol": "TCP"}]}],
        },
    },
    "bare": {
        "replicaCount": 1,
        "service": {"enabled": False},
        "serviceAccount": {"create": False},
        "podDisruptionBudget": {"enabled": False},
        "networkPolicy": {"enabled": False},
        "upgradeCheck": {"enabled": False},
        "persistence": {"storageClass": "-"},
    },
}
