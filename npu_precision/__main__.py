"""Runs an unchanged Ascend script: `python -m npu_precision SCRIPT [ARGUMENT ...]`.

The script can import npu_bridge, hccl and npu_device, as after install_as_npu_bridge(). Its
arguments are in sys.argv, and its folder is on sys.path. For the command with its subcommands, see
`npu-precision --help`.
"""

import os
import runpy
import sys

_USAGE = "usage: python -m npu_precision SCRIPT [ARGUMENT ...]"


def _main() -> None:
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(f"{_USAGE}\nruns a script that imports npu_bridge, hccl or npu_device as it is")
    script = sys.argv[1]
    if not os.path.isfile(script):
        sys.exit(f"{_USAGE}\n{script}: there is no such file")
    from npu_precision.npu_bridge.alias import install_as_npu_bridge

    install_as_npu_bridge()
    sys.argv = sys.argv[1:]
    sys.path[0] = os.path.dirname(os.path.abspath(script))
    runpy.run_path(script, run_name="__main__")


if __name__ == "__main__":
    _main()
