"""The processor in its own thread: whoever uses it, uses it there, between micro-batches."""

from collections.abc import Callable
from typing import TypeVar

from worker.processing.processor import Processor
from worker.stream.surroundings import InOrder

T = TypeVar("T")


class ProcessorThread:
    """A processor that one thread alone may use."""

    def __init__(self, processor: Processor, thread: InOrder) -> None:
        self._processor = processor
        self._thread = thread

    async def run(self, work: Callable[[Processor], T]) -> T:
        """What `work` makes of the processor, when its turn has come."""
        return await self._thread.run(lambda: work(self._processor))
