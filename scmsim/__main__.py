"""Entry point of `python -m scmsim` and of the installed command `scmsim`."""

import signal


def main() -> None:
    """Run the command line; while modules load, Ctrl-C ends the process without a Python traceback."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # otherwise SIGINT is ignored, e.g. under nohup
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from scmsim.cli import _process, main

    _process.run(main)


if __name__ == "__main__":
    main()
