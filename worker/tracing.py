"""OpenTelemetry traces, an extra; imported only if the standard variables name a collector."""

from worker.errors import SetupError
from worker.extras import install_command
from worker.settings import Settings, traces_endpoint, traces_protocol
from worker.stream.tracing import NO_TRACING, Tracing

PROTOCOL = "http/protobuf"


def open_tracing(settings: Settings) -> Tracing:
    """Tracing as the environment sets it. Raises SetupError if that is impossible."""
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
            f"{endpoint} is set, and opentelemetry is not installed ({cause}): unset it, or "
            f"{install_command('otel')}"
        ) from cause
    return exported(settings)
