"""The live page: entities, their summaries as they change and how they came about, in a browser;
read-only.

routes     the addresses, and what each answers
files      the page itself: HTML, style and script, and the policy they are served under
others     what other workers answer, asked for by this one: a browser need not reach them
watchers   who looks on, and what they are told of changes
streams    a change after the other to one browser (server-sent events)
history    an entity's last changes, from the end of the output topic

Everything is bounded: pages of entities by their number and time, a history by the messages it
looks at, and what is kept for a browser that reads slowly is one frame. Nothing is done for changes
while nobody looks on.
"""

from worker.page.routes import install_page

__all__ = ["install_page"]
