"""What the tools of the command line do, apart from arguments and tables (those are in `worker.cli`).

`reader` reads a topic up to where it ended when it was asked; `history` and `dead_letters` understand what is in it. `sent`
is the memory of `dlq send`, pure; `resend` is the sending. `stored` opens a worker's databases beside it, `verification` and
`reviews` read them; `reset` throws state away in an order that leaves nothing that passes for right.
"""
