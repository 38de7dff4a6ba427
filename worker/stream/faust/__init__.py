"""The adapters to Faust and aiokafka: the only modules that subclass or patch them.

Faust gives the worker group membership, assignment of table partitions, standbys, an event loop and
a web server. Its delivery, commits and recovery lose or repeat events at faults, so the adapters
replace those parts.

adapter           replaces or wraps              because
application       App                            publishes without Faust's producer
                  Table, Store                   Faust would restore uncommitted rows and write
                                                 offsets apart from rows
assignor          PartitionAssignor,             a static member may change its web address;
                  CopartitionedAssignor          partitions go to those who have their rows
consumer          Consumer, Transport            Faust's fetches lose runs of events at a
                                                 rebalance; it recovers, believes gaps and
                                                 commits offsets
consumer_thread   AIOKafkaConsumerThread         a coordination error must end the process
records           MemoryRecords, FetchResult     no record may stop the consumer
group_client      AIOKafkaClient                 a silent broker must not cost the membership
process           Worker                         a deadline for the shutdown, exit code 130 for
                                                 Ctrl-C, settings of the interpreter
client_log        logging of aiokafka and Faust  an outage would log several lines a second

`check_faust` checks at the start that every overridden name exists.
"""

import logging
from typing import Final

FAUST_LOG: Final = logging.getLogger("faust.coversumm")
"""The log of the subclassed services; by default each would log under the name of our module."""
