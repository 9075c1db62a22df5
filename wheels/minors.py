"""The TensorFlows that the wheel has a library for, each with its Pythons and what it needs there.

TensorFlow's own requirements are resolved anew each time, as those of a user are; what is listed
besides is what they leave open and an import fails without.
"""

from __future__ import annotations

import sys
from typing import NamedTuple


class Minor(NamedTuple):
    """Where a minor version of TensorFlow is built for and tried out.

    Attributes:
        pythons: the Pythons that the wheel is tried with. The library, which depends on TensorFlow
            alone, is built with the first.
        packages: what to install.
    """

    pythons: tuple[str, ...]
    packages: tuple[str, ...]


_OLD_PROTOBUF = "protobuf<3.21"
_TO_3_12, _TO_3_13 = ("3.11", "3.12"), ("3.11", "3.12", "3.13")
_BEFORE_NUMPY_2 = ("numpy<2", _OLD_PROTOBUF)

MINORS = {
    "1.15": Minor(("3.7",), ("tensorflow==1.15.5", _OLD_PROTOBUF)),
    "2.4": Minor(("3.8",), ("tensorflow-cpu==2.4.*", _OLD_PROTOBUF)),
    "2.5": Minor(("3.9",), ("tensorflow-cpu==2.5.*", *_BEFORE_NUMPY_2)),
    "2.6": Minor(("3.9",), ("tensorflow-cpu==2.6.*", *_BEFORE_NUMPY_2)),
    "2.7": Minor(("3.9",), ("tensorflow-cpu==2.7.*", *_BEFORE_NUMPY_2)),
    "2.8": Minor(("3.9",), ("tensorflow-cpu==2.8.*", *_BEFORE_NUMPY_2)),
    "2.9": Minor(("3.9",), ("tensorflow-cpu==2.9.*", *_BEFORE_NUMPY_2)),
    "2.10": Minor(("3.9",), ("tensorflow-cpu==2.10.*", *_BEFORE_NUMPY_2)),
    "2.11": Minor(("3.9",), ("tensorflow-cpu==2.11.*", *_BEFORE_NUMPY_2)),
    "2.12": Minor(("3.11",), ("tensorflow-cpu==2.12.*",)),
    "2.13": Minor(("3.11",), ("tensorflow-cpu==2.13.*",)),
    "2.14": Minor(("3.11",), ("tensorflow-cpu==2.14.*",)),
    "2.15": Minor(("3.11",), ("tensorflow-cpu==2.15.*",)),
    "2.16": Minor(_TO_3_12, ("tensorflow-cpu==2.16.*",)),
    "2.17": Minor(_TO_3_12, ("tensorflow-cpu==2.17.*",)),
    "2.18": Minor(_TO_3_12, ("tensorflow-cpu==2.18.*",)),
    "2.19": Minor(_TO_3_12, ("tensorflow-cpu==2.19.*",)),
    "2.20": Minor(_TO_3_13, ("tensorflow-cpu==2.20.*",)),
    "2.21": Minor(_TO_3_13, ("tensorflow-cpu==2.21.*",)),
}

if __name__ == "__main__":
    if sys.argv[1:]:  # The sessions that try the wheel with these minors.
        print(*(f"try-wheel-{name}-py{py}" for name in sys.argv[1:] for py in MINORS[name].pythons))
    else:
        print(*MINORS)
