"""The command line, in this process and as the installed command."""
