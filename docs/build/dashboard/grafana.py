"""`deploy/chart/files/dashboard.json`, as Grafana imports it or a ConfigMap carries it."""

from __future__ import annotations

from itertools import count
from typing import Any

from grafana_foundation_sdk.builders import common, dashboard, prometheus, stat, timeseries
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import common as common_models
from grafana_foundation_sdk.models import dashboard as models

from docs.build.dashboard.panels import ROWS, Panel

_PROMETHEUS = models.DataSourceRef(type_val="prometheus", uid="${datasource}")
_WIDTH = 24
_HEIGHT = {"stat": 4, "lines": 8, "stacked": 8}


def dashboard_json() -> str:
    """The file's text."""
    board = (
        dashboard.Dashboard("coversumm-worker")
        .uid("coversumm-worker")
        .description(
            "Summaries of reviews: traffic, lag, latency, state and limits of the workers, and "
            "replays."
        )
        .tags(["coversumm", "kafka"])
        .timezone("browser")
        .time("now-3h", "now")
        .refresh("30s")
        .tooltip(models.DashboardCursorSync.CROSSHAIR)
        .with_variable(
            dashboard.DatasourceVariable("datasource").label("Prometheus").type("prometheus")
        )
        .with_variable(_choice("job", "Workers", "label_values(coversumm_build_info, job)"))
        .with_variable(
            _choice(
                "instance", "Instance", 'label_values(coversumm_build_info{job=~"$job"}, instance)'
            )
        )
        .with_variable(_choice("replay", "Replay", "label_values(coversumm_build_info, job)"))
    )
    _place(board)
    return str(JSONEncoder(indent=2, ensure_ascii=False).encode(board.build())) + "\n"


def _choice(name: str, label: str, query: str) -> dashboard.QueryVariable:
    return (
        dashboard.QueryVariable(name)
        .label(label)
        .datasource(_PROMETHEUS)
        .query(query)
        .refresh(models.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(models.VariableSort.ALPHABETICAL_ASC)
        .multi(True)
        .include_all(True)
        .all_value(".+")
    )


def _place(board: dashboard.Dashboard) -> None:
    """Rows one below the other, their panels from left to right, in as many lines as they need."""
    numbers = count(1)
    y = 0
    for row in ROWS:
        board.with_row(
            dashboard.Row(row.title)
            .id(next(numbers))
            .grid_pos(models.GridPos(h=1, w=_WIDTH, x=0, y=y))
        )
        x, y = 0, y + 1
        for panel in row.panels:
            height = _HEIGHT[panel.kind]
            if x + panel.width > _WIDTH:
                x, y = 0, y + height
            position = models.GridPos(h=height, w=panel.width, x=x, y=y)
            board.with_panel(_built(panel).id(next(numbers)).grid_pos(position))
            x += panel.width
        y += _HEIGHT[row.panels[-1].kind]


def _built(panel: Panel) -> Any:
    builder = _stat() if panel.kind == "stat" else _lines(stacked=panel.kind == "stacked")
    builder.title(panel.title).description(panel.description).unit(panel.unit).datasource(
        _PROMETHEUS
    ).min(0)
    for letter, query in zip("ABCDEFGH", panel.queries, strict=False):
        builder.with_target(
            prometheus.Dataquery()
            .ref_id(letter)
            .expr(query.expr)
            .legend_format(query.legend or panel.title)
        )
    return builder


def _stat() -> stat.Panel:
    return stat.Panel().reduce_options(
        common.ReduceDataOptions().calcs(["lastNotNull"]).values(False)
    )


def _lines(*, stacked: bool) -> timeseries.Panel:
    builder = (
        timeseries.Panel()
        .fill_opacity(25 if stacked else 0)
        .show_points(common_models.VisibilityMode.NEVER)
        .legend(
            common.VizLegendOptions()
            .show_legend(True)
            .placement(common_models.LegendPlacement.BOTTOM)
            .display_mode(common_models.LegendDisplayMode.LIST)
        )
        .tooltip(common.VizTooltipOptions().mode(common_models.TooltipDisplayMode.MULTI))
    )
    if stacked:
        builder.stacking(common.StackingConfig().mode(common_models.StackingMode.NORMAL))
    return builder
