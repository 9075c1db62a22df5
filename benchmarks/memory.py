"""Peak memory of a contender: three steps in a process of its own. Linux only."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import contenders


def peaks(name: str, graphs_folder: pathlib.Path) -> dict[str, int]:
    """Bytes of resident memory at the highest, by contender; the name is one of run.py's."""
    found = {}
    for contender in contenders.CONFIGS:
        command = [sys.executable, __file__, name, str(graphs_folder), contender]
        process = subprocess.run(command, capture_output=True, text=True, check=False)
        if process.returncode != 0:
            raise RuntimeError(f"{contender} on {name}: {process.stderr[-2000:]}")
        found[contender] = int(process.stdout.split()[-1])
    return found


def _run_once(name: str, graphs_folder: pathlib.Path, contender: str) -> None:
    import inference_graphs
    import tensorflow as tf
    import training_graphs

    tf1 = tf.compat.v1
    config = contenders.CONFIGS[contender]()
    if name in inference_graphs.NAMES:
        frozen = inference_graphs.frozen_graph(name, graphs_folder)
        with tf.Graph().as_default() as graph:
            tf.import_graph_def(frozen.graph_def(), name="")
        fetch, feeds, init = frozen.fetch, {frozen.feed: frozen.x}, None
    else:
        training = training_graphs.training_graph(name.partition(" ")[2])
        graph, fetch, feeds, init = training.graph, training.step, training.feeds, training.init
    with tf1.Session(graph=graph, config=config) as session:
        if init is not None:
            session.run(init)
        for _ in range(3):
            session.run(fetch, feeds)
    print(peak())


def peak() -> int:
    """Bytes of resident memory that this process had at the highest."""
    # Not ru_maxrss: that of a child begins at what its parent had.
    status = pathlib.Path("/proc/self/status").read_text()
    (line,) = (line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024


if __name__ == "__main__":
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests"))
    _run_once(sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3])
