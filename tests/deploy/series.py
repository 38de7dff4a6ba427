"""Names of the worker's metric series, and the queries of alerts and dashboard."""

import json

from docs.build.render import ROOT

SERIES = {"counter": ("",), "gauge": ("",), "histogram": ("_bucket", "_sum", "_count")}


DASHBOARD = json.loads((ROOT / "deploy" / "chart" / "files" / "dashboard.json").read_text())
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
EXPRESSIONS = [target["expr"] for panel in PANELS for target in panel["targets"]]
