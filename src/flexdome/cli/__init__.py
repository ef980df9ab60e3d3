"""The command line: the only room that prints.

Errors are one line and an exit code that scripts can use: 0 done, 1 the output cannot be written, 2 wrong arguments
or input, 3 no policy is safe, 4 a solver did not converge, 5 some runs failed (the others are stored), 130 interrupted.
``--debug`` anywhere on the line shows the traceback instead.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit code comes back (and is the process's, when run as a script)."""
    import tyro

    from flexdome.cli.commands import COMMANDS
    from flexdome.cli.experiments import RunsFailed
    from flexdome.errors import ConvergenceError, FlexDOMEError, InfeasibleError, OutputError, ValidationError

    words = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in words
    words = [word for word in words if word != "--debug"]
    if words == ["--version"]:
        from importlib.metadata import version

        print(f"flexdome {version('flexdome')}")
        return 0
    try:
        for before, word in zip(["", *words], words, strict=False):
            if not word or (
                word.startswith("--") and word.endswith("=")
            ):  # as a path it would be the present directory
                raise ValidationError(f"{word or before or 'an argument'} is empty; give a value, or leave it out")
        tyro.extras.subcommand_cli_from_dict(
            COMMANDS,
            args=words,
            prog="flexdome",
            description=(
                "Safe online reinforcement learning in constrained MDPs.\n\n"
                "--version alone prints the version; --debug, anywhere on the line, the traceback of an error."
            ),
        )
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of a pipe went away: not an error
        sys.stderr.close()
        return 0
    except OSError as error:  # a full disk, a closed device
        if debug:
            raise
        print(f"flexdome: {error}", file=sys.stderr)
        return 1
    except FlexDOMEError as error:
        if debug:
            raise
        print(f"flexdome: {error}", file=sys.stderr)
        codes = {OutputError: 1, InfeasibleError: 3, ConvergenceError: 4, RunsFailed: 5}
        return next((code for kind, code in codes.items() if isinstance(error, kind)), 2)
    return 0
