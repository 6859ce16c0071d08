"""The command line: `smelt`, or `python -m smelt`."""

import os
import signal
import sys

from . import _engine


def main() -> int:
    """Run the command line of this process; the exit status."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends a run at once
    return _engine.run_command_line(["smelt", *(os.fsdecode(a) for a in sys.argv[1:])])


if __name__ == "__main__":
    sys.exit(main())
