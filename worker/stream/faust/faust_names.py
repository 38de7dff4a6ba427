"""The private names of Faust and aiokafka that the adapters need, checked at the start.

Another version may rename any of them.
"""

from importlib import import_module

from worker.errors import SetupError

FAUST_NAMES = {
    "faust.transport.drivers.aiokafka:Consumer": (
        "_add_gap",
        "_drain_messages",
        "_getmany",
        "_new_consumer_thread",
        "_new_offset",
        "earliest_offsets",
        "highwaters",
        "on_buffer_full",
        "on_partitions_assigned",
        "on_partitions_revoked",
        "perform_seek",
        "resume_partitions",
        "seek_wait",
        "verify_all_partitions_active",
    ),
    "faust.transport.drivers.aiokafka:AIOKafkaConsumerThread": (
        "_consumer",
        "_create_worker_consumer",
        "_ensure_consumer",
        "on_start",
        "on_thread_stop",
        "seek",
    ),
    "aiokafka.client:AIOKafkaClient": ("_get_conn", "_get_conn_lock", "coordinator_lookup", "send"),
    "aiokafka.consumer.group_coordinator:GroupCoordinator": (
        "_push_error_to_user",
        "_send_req",
        "request_rejoin",
    ),
    "aiokafka.cluster:ClusterMetadata": ("add_listener", "partitions_for_topic"),
    "aiokafka.conn:AIOKafkaConnection": ("close", "send"),
    "faust.assignor.partition_assignor:PartitionAssignor": (
        "_compress",
        "_decompress",
        "_url",
        "on_assignment",
    ),
    "faust.tables.table:Table": (
        "_new_store_by_url",
        "apply_changelog_batch",
        "on_rebalance",
        "on_recovery_completed",
        "on_stop",
    ),
    "faust.stores.rocksdb:Store": (
        "_db_for_partition",
        "assign_partitions",
        "offset_key",
        "on_rebalance",
        "persisted_offset",
        "revoke_partitions",
        "stop",
    ),
}
"""By class, the names that the adapters override or call."""


def check_faust() -> None:
    """Raise SetupError if the installed Faust or aiokafka lacks a name of `FAUST_NAMES`."""
    for place, names in FAUST_NAMES.items():
        module, _, owner = place.partition(":")
        holder = getattr(import_module(module), owner, None)
        missing = [name for name in names if not hasattr(holder, name)]
        if missing:
            library = "aiokafka" if module.startswith("aiokafka") else "faust-streaming"
            raise SetupError(
                f"the installed {library} has no {owner}.{missing[0]}: install the version that "
                "pyproject.toml pins"
            )
