"""Faust's aiokafka consumer without Faust's recovery, gaps and commits."""

from collections.abc import Mapping

from faust.transport.drivers import aiokafka as driver
from faust.types import TP


class BareConsumer(driver.Consumer):
    """The consumer of Faust's aiokafka driver; its bookkeeping decides nothing."""

    async def highwaters(self, *tps: TP) -> Mapping[TP, int]:
        """0 for each: Faust recovers nothing."""
        return dict.fromkeys(tps, 0)

    async def earliest_offsets(self, *tps: TP) -> Mapping[TP, int]:
        """0 for each: Faust recovers nothing."""
        return dict.fromkeys(tps, 0)

    async def seek_wait(self, partitions: Mapping[TP, int]) -> None:
        """Nothing to seek: changelogs are not read through this consumer."""

    def on_buffer_full(self, tp: TP) -> None:
        """Nothing: a full queue already holds back the next micro-batch."""

    async def _add_gap(self, tp: TP, offset_from: int, offset_to: int) -> None:
        """Nothing: `guard` proves gaps; Faust acknowledges none."""

    def _new_offset(self, tp: TP) -> int | None:
        """None: the transaction commits offsets, Faust commits none."""
        self._acked[tp].clear()
        self._acked_index[tp].clear()
        return None

    async def verify_all_partitions_active(self) -> None:
        """Nothing: Faust would judge by its own commits, which do not exist. See the watchdog."""
