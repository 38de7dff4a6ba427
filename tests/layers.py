"""The folders of the package and what may import what."""

# The house from its roof down: a room may use those below it, never one beside or above it.
FLOORS = (
    ("worker.__main__",),
    ("worker.cli",),
    ("worker.demo",),
    ("worker.operations",),
    ("worker.app",),
    ("worker.replay",),
    ("worker.web",),
    ("worker.bridge",),
    ("worker.view",),
    ("worker.published",),
    ("worker.telemetry",),
    ("worker.stream",),
    ("worker.summarizer",),
    ("worker.sources",),
    ("worker.parts",),
    ("worker.processing",),
    ("worker.kafka",),
    ("worker.storage",),
    ("worker.registry",),
    ("worker.credentials",),
    ("worker.settings",),
    ("worker.mapping", "worker.state"),
    ("worker.facets",),
    ("worker.events", "worker.text"),
    ("worker.coversumm",),
    ("worker.clock", "worker.errors", "worker.extras", "worker.limits"),
    ("worker",),
)
FLOOR = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}
