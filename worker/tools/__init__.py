"""The work of the commands, without their arguments and tables, which are in `worker.cli`.

One module for each command, with its name. `resend` sends dead letters again, for `dlq`.
"""
