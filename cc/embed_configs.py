"""Writes the C++ source that holds every JSON file of configs/.

Usage: python embed_configs.py CONFIG_ROOT OUTPUT.cc

The same files always give the same bytes. Needs nothing but Python's standard library, because
Bazel runs it with whatever python3 it finds. What it defines: cc/embedded_configs.h.
"""

import pathlib
import sys

_HEADER = """\
// Written by cc/embed_configs.py from configs/: edit those files, not this one.
#include "cc/embedded_configs.h"

namespace npu_precision {

const std::vector<EmbeddedFile>& EmbeddedConfigs() {
  static const auto* const files = new std::vector<EmbeddedFile>{
"""

_FOOTER = """\
  };
  return *files;
}

}  // namespace npu_precision
"""

# Compilers promise no more for one string literal; the pieces of a long line are concatenated.
_LONGEST_LITERAL = 4000


def _escaped(byte: int) -> str:
    # A quote, a backslash and (trigraphs, in C++14) a question mark mean something to the
    # compiler. Other odd bytes are octal: three digits end an octal escape, nothing ends a hex one.
    if byte == ord("\n"):
        return "\\n"
    if 0x20 <= byte < 0x7F:
        return "\\" + chr(byte) if chr(byte) in '"\\?' else chr(byte)
    return f"\\{byte:03o}"


def string_literal(data: bytes) -> str:
    """Returns C++ string literals, at least one for each line of data, that spell these bytes."""
    pieces = [
        line[start : start + _LONGEST_LITERAL]
        for line in data.splitlines(keepends=True)
        for start in range(0, len(line), _LONGEST_LITERAL)
    ]
    return "\n       ".join(f'"{"".join(map(_escaped, piece))}"' for piece in pieces) or '""'


def generate(config_root: pathlib.Path) -> str:
    """Returns the C++ source for the *.json files under config_root, sorted by relative path.

    Raises:
      FileNotFoundError: config_root holds no JSON file (a library without lists does nothing).
    """
    files = {path.relative_to(config_root).as_posix(): path for path in config_root.rglob("*.json")}
    if not files:
        raise FileNotFoundError(f"no *.json file under {config_root}")
    entries = []
    for name in sorted(files):
        data = files[name].read_bytes()
        name_literal = string_literal(name.encode())
        text_literal = string_literal(data)
        entries.append(f"      {{{name_literal},\n       {text_literal},\n       {len(data)}}},\n")
    return _HEADER + "".join(entries) + _FOOTER


def main(arguments: list) -> None:
    if len(arguments) != 2:
        sys.exit(__doc__)
    config_root, output = map(pathlib.Path, arguments)
    output.write_text(generate(config_root), encoding="ascii")


if __name__ == "__main__":
    main(sys.argv[1:])
