"""One group, one fingerprint: a worker with other settings is refused before it publishes anything.

A worker checks before it joins the group, so that a refused one takes no partitions from others. A
partition with rows has a fingerprint (`worker.state.partition.check_fingerprint`). A worker without
rows checks the first rows of all partitions: at its takeover, and again inside its first
transaction, between flush and offsets. Two workers that begin a group together both write their
fingerprint before they check, so at least one of them sees the other's and does not commit. All
later workers see a committed one.
"""

import logging
from dataclasses import dataclass, field

from worker.kafka.changelog import ChangelogLog
from worker.kafka.errors import is_retriable
from worker.state import Fingerprint
from worker.state.keys import FINGERPRINT
from worker.state.partition import refuse_other
from worker.state.rows import decode_fingerprint

log = logging.getLogger(__name__)


@dataclass(eq=False)
class GroupFingerprint:
    """Compares the fingerprint of the group's state with this worker's."""

    changelog: ChangelogLog
    fingerprint: Fingerprint
    _is_agreed: bool = field(default=False, init=False)

    def agreed(self) -> None:
        """Rows with this worker's fingerprint are committed: any other one is refused now."""
        self._is_agreed = True

    def check(self) -> None:
        """Check the first rows of all partitions until a committed one agrees.

        One is enough: no group has committed rows of two fingerprints.
        Raises FingerprintMismatch, CorruptRow, and Crash if the changelog is not read in time.
        """
        if self._is_agreed:
            return
        for row in self.changelog.first_rows(range(self.fingerprint.partitions)):
            if row.key != FINGERPRINT or row.value is None:
                continue  # it lost its beginning, which the takeover of the partition refuses
            place = f"{self.changelog.topic}-{row.partition}"
            whose = f"the state of this group (COVERSUMM_APP_ID; {place})"
            refuse_other(decode_fingerprint(row.key, row.value), self.fingerprint, whose)
            if row.is_committed:
                self._is_agreed = True
                return

    def check_before_joining(self) -> None:
        """The same check before the worker joins; if brokers do not answer, its takeovers check."""
        try:
            self.check()
        except Exception as cause:
            if not is_retriable(cause):
                raise
            log.info("joining the group before its fingerprint is checked: %s", cause)
