"""The live page: entities, their summaries as they change, and their history; read-only.

routes     the addresses, and the files of the page with their security policy
watchers   open pages that follow changes, and the streams of events to them
history    an entity's last changes, from the end of the output topic

Everything is bounded: pages of entities by number and time, a history by the messages it reads, and
the buffer for a slow browser by one frame. Without an open page nothing is done for changes.
"""

from worker.web.page.routes import add_widget, install_page

__all__ = ["add_widget", "install_page"]
