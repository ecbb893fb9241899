"""The process that `perf-pipeline compare` becomes: `python -m assets KEY`.

What belongs here: the seconds until everything is imported. There is nothing to take down before, so Ctrl-C ends the
process at once, without a traceback from the middle of an import.
"""

import signal
import sys


def main() -> int:
    """Import what materialises, then let it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    from assets.materialize import main as materialize

    signal.signal(signal.SIGINT, signal.default_int_handler)
    return materialize()


if __name__ == "__main__":
    sys.exit(main())
