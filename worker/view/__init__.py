"""Published changes on a terminal, for `watch` and `demo`; overviews and lines for other commands.

messages -> Board -> Viewer: JSON lines, plain lines, or a screen
"""
