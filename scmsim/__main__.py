"""`python -m scmsim`, and what the installed command `scmsim` starts."""

import signal


def main() -> None:
    """The command line; until it is there, Ctrl-C ends the process without a word of where Python was."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # else it is ignored, as after nohup
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from scmsim.cli import _process, main

    _process.run(main)


if __name__ == "__main__":
    main()
