"""The worker on a simulated Kafka, disk and clock: one seed, one run, the same every time.

The worker's own consumer, delivery, producer, table and processor run as they are; only what they
call is simulated:

    plan     a seed as a list of steps, drawn beforehand
    load     its events
    world    does the steps, then waits for calm
    process  one worker, put together as Faust would
    broker   logs, transactions, one group, compaction
    clients  the libraries over broker and disks, with a point at each call where something may
             happen
    fibers   code that may be left in the middle of a call
    surroundings  what a worker is put together over
    checks   I1 to I8, by brute force from the logs alone
    run      a plan's verdict
    shrink   a failing plan made small
    replay   a replay in a world: a bounded run, then an endless one; checks_of_replays holds it to
             its ends and its account
    mutations  rules of delivery taken out, which must be found

What it cannot show: anything inside the client libraries, RocksDB or Faust itself, and a broker's
own mistakes. The tests on a real Kafka are for that. Three simplifications of Faust: the callbacks
of a process's rebalances never overlap, a recovery that has not begun when the next assignment
comes does not begin, and SIGTERM waits for a callback under way.

    python -m tests.simulation --seeds 10000        python -m tests.simulation --seed 123
    python -m tests.simulation --replay ...         the same seeds as replays
"""
