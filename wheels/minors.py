"""The TensorFlows that the wheel has a library for, each with a Python and what it needs there.

TensorFlow's own requirements are resolved anew each time, as those of a user are; what is listed
besides is what they leave open and an import fails without.
"""

from __future__ import annotations

from typing import NamedTuple


class Minor(NamedTuple):
    """Where a minor version of TensorFlow is built for and tried out."""

    python: str
    packages: tuple[str, ...]


_OLD_PROTOBUF = "protobuf<3.21"
_BEFORE_NUMPY_2 = ("numpy<2", _OLD_PROTOBUF)

MINORS = {
    "1.15": Minor("3.7", ("tensorflow==1.15.5", _OLD_PROTOBUF)),
    "2.4": Minor("3.8", ("tensorflow-cpu==2.4.*", _OLD_PROTOBUF)),
    "2.5": Minor("3.9", ("tensorflow-cpu==2.5.*", *_BEFORE_NUMPY_2)),
    "2.6": Minor("3.9", ("tensorflow-cpu==2.6.*", *_BEFORE_NUMPY_2)),
    "2.7": Minor("3.9", ("tensorflow-cpu==2.7.*", *_BEFORE_NUMPY_2)),
    "2.8": Minor("3.9", ("tensorflow-cpu==2.8.*", *_BEFORE_NUMPY_2)),
    "2.9": Minor("3.9", ("tensorflow-cpu==2.9.*", *_BEFORE_NUMPY_2)),
    "2.10": Minor("3.9", ("tensorflow-cpu==2.10.*", *_BEFORE_NUMPY_2)),
    "2.11": Minor("3.9", ("tensorflow-cpu==2.11.*", *_BEFORE_NUMPY_2)),
    "2.12": Minor("3.11", ("tensorflow-cpu==2.12.*",)),
    "2.13": Minor("3.11", ("tensorflow-cpu==2.13.*",)),
    "2.14": Minor("3.11", ("tensorflow-cpu==2.14.*",)),
    "2.15": Minor("3.11", ("tensorflow-cpu==2.15.*",)),
    "2.16": Minor("3.11", ("tensorflow-cpu==2.16.*",)),
    "2.17": Minor("3.11", ("tensorflow-cpu==2.17.*",)),
    "2.18": Minor("3.11", ("tensorflow-cpu==2.18.*",)),
    "2.19": Minor("3.11", ("tensorflow-cpu==2.19.*",)),
    "2.20": Minor("3.11", ("tensorflow-cpu==2.20.*",)),
    "2.21": Minor("3.11", ("tensorflow-cpu==2.21.*",)),
}

if __name__ == "__main__":
    print(*MINORS)
