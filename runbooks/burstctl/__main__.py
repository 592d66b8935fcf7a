"""Where the command starts; ``python -m burstctl`` is the same."""

import sys


def main() -> int:
    """Run the command line; Ctrl-C ends it in one line even while its modules are read."""
    try:
        from burstctl.main import main as run  # noqa: PLC0415 - reading it takes most of the time to start
    except KeyboardInterrupt:
        sys.stderr.write("interrupted; nothing was done\n")
        return 130
    return run()


if __name__ == "__main__":
    sys.exit(main())
