"""The last changes that were published of an entity, from the output topic."""

from worker.cli import output
from worker.cli.history.listing import list_changes
from worker.settings import Settings


def show_history(entity: str, limit: int, as_json: bool) -> bool:
    """Show the last `limit` changes; False where nothing was published of the entity."""
    settings = Settings.from_environment()
    from worker.operations.history import last_steps
    from worker.operations.published import PublishedTopic

    with PublishedTopic(settings.output_topic, settings) as topic:
        told = list_changes(last_steps(topic.of(entity), limit), as_json)
    if told.is_incomplete:
        output.note("changes before or between these were compacted away")
    return bool(told.changes)
