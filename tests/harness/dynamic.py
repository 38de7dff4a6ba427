"""The worker as a dynamic member of its group: it leaves when it ends, and comes back as somebody
new. So were all releases before static membership; a group has both kinds while it is updated.

python -m tests.harness.dynamic run
"""

from __future__ import annotations

from worker.cli import main
from worker.settings import Settings

if __name__ == "__main__":
    Settings.group_instance_id = None  # type: ignore[assignment, method-assign]
    main()
