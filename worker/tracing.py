"""OpenTelemetry traces, an extra: on where the standard variables name a collector, and not even
imported elsewhere.
"""

from worker.errors import SetupError
from worker.settings import Settings, traces_endpoint, traces_protocol
from worker.stream.tracing import NO_TRACING, Tracing

PROTOCOL = "http/protobuf"


def open_tracing(settings: Settings) -> Tracing:
    """What the environment asks for. Raises SetupError where it cannot be had."""
    endpoint = traces_endpoint()
    if endpoint is None:
        return NO_TRACING
    variable, protocol = traces_protocol()
    if protocol not in ("", PROTOCOL):
        raise SetupError(f"{variable}={protocol}: traces are sent as {PROTOCOL} alone")
    try:
        from worker.spans import exported
    except ImportError as cause:
        raise SetupError(
            f"{endpoint} is set, and opentelemetry is not installed ({cause}): "
            "pip install 'coversumm-worker[otel]', or unset it"
        ) from cause
    return exported(settings)
