"""Runs any program in a precision mode: `python -m npu_precision [FLAGS] SCRIPT [ARGUMENT ...]`.

For the command with its subcommands, see `npu-precision --help`.
"""

from npu_precision.launch import command

if __name__ == "__main__":
    command.main()
