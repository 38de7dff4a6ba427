"""Whether every worker of the release is ready, by its own /readyz; exit code 1 and the reason in
words where one is not.

python3 - URL...
"""

import sys
import time
import urllib.error
import urllib.request

PATIENCE_SECONDS = 120.0


def why_not(url: str) -> str | None:
    """None where it is ready."""
    try:
        with urllib.request.urlopen(f"{url}/readyz", timeout=5):  # noqa: S310 - the chart gives the addresses
            return None
    except urllib.error.HTTPError as answer:
        return answer.read().decode(errors="replace").strip()
    except OSError as cause:
        return str(cause)


def main(urls: list[str], patience_seconds: float = PATIENCE_SECONDS) -> int:
    """Ask each until it is ready, for so long in all."""
    give_up = time.monotonic() + patience_seconds
    for url in urls:
        while (reason := why_not(url)) is not None:
            if time.monotonic() >= give_up:
                print(f"{url} is not ready: {reason}")
                return 1
            time.sleep(1)
        print(f"{url} is ready")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
