"""The adapters to Faust and aiokafka: the only modules that subclass or patch them.

Faust gives the worker group membership, assignment of table partitions, standbys, an event loop and
a web server. Its delivery, commits and recovery lose or repeat events at faults, so the adapters
replace those parts.

adapter           replaces or wraps                  because
application       App, PartitionAssignor             publishes without Faust's producer; checks at
                                                     start that every overridden name exists; a
                                                     static member may change its web address
consumer          Consumer, Transport                Faust's fetches lose runs of events at a
                                                     rebalance, and its gaps and commits are unproven
consumer_thread   AIOKafkaConsumerThread, client     a silent broker must not cost the membership;
                                                     a coordination error must end the process
table             Table, Store                       Faust would restore uncommitted rows and write
                                                     offsets apart from rows
process           Worker                             a deadline for the shutdown, exit code 130 for
                                                     Ctrl-C, settings of the interpreter
client_log        logging of aiokafka and Faust      an outage would log several lines a second
"""

import logging
from typing import Final

FAUST_LOG: Final = logging.getLogger("faust.coversumm")
"""The log of Faust's services that are subclassed here: by default each would log under the name of
our module.
"""
