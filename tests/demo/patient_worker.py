"""A worker for groups on the embedded broker: `python -m tests.demo.patient_worker run`.

The mock cluster refuses a follower's SyncGroup that comes after the leader's, and the follower then
waits for ever. So a leader waits a moment before it sends its own.
"""

import asyncio

from aiokafka.consumer.group_coordinator import CoordinatorGroupRebalance

LEADER_WAITS_SECONDS = 2.0

_on_join_leader = CoordinatorGroupRebalance._on_join_leader


async def _on_join_leader_later(self, response):
    await asyncio.sleep(LEADER_WAITS_SECONDS)
    return await _on_join_leader(self, response)


if __name__ == "__main__":
    CoordinatorGroupRebalance._on_join_leader = _on_join_leader_later
    from worker.cli import main

    main()
