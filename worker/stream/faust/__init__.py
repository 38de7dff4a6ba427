"""Where Faust's services log that are built on here; without it they would speak under the names of
our modules.
"""

import logging
from typing import Final

FAUST_LOG: Final = logging.getLogger("faust.coversumm")
