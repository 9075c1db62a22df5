"""`make demo`: trains one convolutional net in five runs and says what was lowered, and why.

The model, the seed and the order of the data are the same each time; only the precision differs.
Every number printed is measured by this run or read from its ledgers.
"""

import argparse
import contextlib
import dataclasses
import io
import math
import os
import pathlib
import statistics
import sys
import tempfile
import time

# Set before TensorFlow is imported, which reads it then. The optimizer's warnings are also in the
# ledgers; the demo shows them from there.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import rich.box
import tensorflow as tf
from digits_model import BATCH, HELD_OUT, held_out, make_model, make_train_step, training_batches
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

import npu_precision
import npu_precision_command
from npu_precision import Ledger

STEPS = 120
QUICK_STEPS = 40
FEWEST_STEPS = 30
# The final loss is a mean over this many steps: that of one batch is mostly luck.
LAST = 20

# Two nodes of the loss: the upper bound of its clip, and the input of a logarithm.
KEPT_CLIP, KEPT_LOG = "loss/clip_by_value/Minimum", "loss/sub_1"

TENSORFLOWS_PASS = "auto_mixed_precision_onednn_bfloat16"
REPORT_FILE = "report.html"
MIXLIST_FILE = "mixlist.json"
MIXLIST = """\
// An edit of the built-in lists: one node, by its name, moves to the black list.
{
  "black-list": {
    "to-add": ["node:.*/logits(_[0-9]+)?/MatMul"]
  }
}
"""


@dataclasses.dataclass(frozen=True)
class Run:
    """One training: its folder, its line in the table, and its options.

    Without a precision_mode, TensorFlow's own mixed precision runs.
    """

    folder: str
    title: str
    precision_mode: str | None = None
    has_mixlist: bool = False
    emulate: bool = False


FLOAT32 = Run("float32", "float32", "must_keep_origin_dtype")
TENSORFLOWS = Run("tensorflows", "TensorFlow's bfloat16")
BFLOAT16 = Run("bfloat16", "bfloat16", "allow_mix_precision_bf16")
MIXLIST_RUN = Run(
    "bfloat16_mixlist", f"  with {MIXLIST_FILE}", "allow_mix_precision_bf16", has_mixlist=True
)
FLOAT16 = Run("float16", "float16, emulated", "allow_mix_precision", emulate=True)
RUNS = (FLOAT32, TENSORFLOWS, BFLOAT16, MIXLIST_RUN, FLOAT16)


@dataclasses.dataclass(frozen=True)
class Result:
    """The result of a run.

    Attributes:
        accuracy: the accuracy on the held-out digits; None if the training failed.
        losses: the loss of each step.
        step_ms: the time of a training step in milliseconds.
        ledger_file: the ledger of the training step's graph; None for TensorFlow's own pass.
        ledger: its content.
    """

    accuracy: float | None
    losses: list[float]
    step_ms: float
    ledger_file: pathlib.Path | None = None
    ledger: Ledger | None = None

    @property
    def loss(self):
        return statistics.mean(self.losses[-LAST:])


@contextlib.contextmanager
def precision_of(run, out):
    """The scope for the steps of a run: all that differs between runs."""
    if run.precision_mode is None:
        tf.config.optimizer.set_experimental_options({TENSORFLOWS_PASS: True})
        yield
        tf.config.optimizer.set_experimental_options({TENSORFLOWS_PASS: False})
        return
    with npu_precision.autocast(
        precision_mode=run.precision_mode,
        modify_mixlist=out / MIXLIST_FILE if run.has_mixlist else None,
        emulate=run.emulate,
        report_dir=out / run.folder / "ledgers",
    ):
        yield


def train_and_evaluate(run, out, steps, advance):
    """Trains and evaluates; calls advance() after each step."""
    model = make_model()
    train_step = make_train_step(model, steps)
    losses, seconds = [], []
    accuracy = None
    with precision_of(run, out):
        for images, labels in training_batches(steps):
            began = time.perf_counter()
            losses.append(float(train_step(images, labels)))
            seconds.append(time.perf_counter() - began)
            advance()
            if not math.isfinite(losses[-1]):
                break
        else:
            images, labels = held_out()
            logits = tf.function(model)(images)
            accuracy = float(np.mean(np.argmax(logits, 1) == labels))
    # The time that a tenth of the steps stay under: other work on the machine slows the rest.
    result = Result(accuracy, losses, 1000 * np.quantile(seconds, 0.1))
    if run.precision_mode is None:
        return result
    # One ledger per graph; that of the training step, with its gradients, is the largest graph.
    files = (out / run.folder / "ledgers").glob("*.json")
    ledgers = {file: Ledger.from_json(file.read_text()) for file in files}
    largest = max(sorted(ledgers), key=lambda file: ledgers[file].total("float_nodes"))
    return dataclasses.replace(result, ledger_file=largest, ledger=ledgers[largest])


def result_table(results):
    table = Table(box=rich.box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("run", no_wrap=True)
    for column in ("accuracy", "final\nloss", "nodes\nlowered", "casts", "step\ntime", "speed"):
        table.add_column(column, justify="right", no_wrap=True)
    for run, result in results.items():
        totals = result.ledger.totals if result.ledger else None
        is_timed = result.accuracy is not None and not run.emulate
        table.add_row(
            run.title,
            "" if result.accuracy is None else f"{result.accuracy:.2%}",
            f"{result.loss:.4f}",
            f"{totals['lowered']} of {totals['float_nodes']}" if totals else "",
            str(totals["casts"]) if totals else "",
            f"{result.step_ms:.1f} ms" if is_timed else "",
            f"{results[FLOAT32].step_ms / result.step_ms:.2f}" if is_timed else "",
        )
    return table


def explanations(ledger, mixlist):
    """The counts of the training step, then lines about a few nodes.

    These are lowered nodes, nodes of the loss, a node that the mixlist moved, and its follower.
    """
    yield f"the training step: {ledger.counts.sentence}"
    nodes = {node.name: node for node in ledger.nodes}
    moved = [node for node in ledger.nodes if node.listed_by.startswith(str(mixlist))]
    names = {node.name for node in moved}
    follows = [node for node in ledger.nodes if node.cause in names]
    white = [node for node in ledger.nodes if node.reason == "white_list"]
    gray = [node for node in ledger.nodes if node.reason == "gray_follows_lowered"]
    of_loss = nodes[KEPT_CLIP], nodes[KEPT_LOG]
    for node in (*white[:1], *gray[:1], *of_loss, *moved[:1], *follows[:1]):
        place = node.listed_by.replace(str(mixlist), mixlist.name)
        cause = f", because of {node.cause}" if node.cause else ""
        yield f"{node.name} is {node.decision}: {node.reason}{cause} ({node.list}: {place})"


def remarks(results, steps):
    """One or two sentences per run that explain its numbers."""
    losses = results[TENSORFLOWS].losses
    if not math.isfinite(losses[-1]):
        yield (
            f"{TENSORFLOWS.title}: the loss is {losses[-1]} in step {len(losses)} of {steps}, and "
            f"the training ends. {TENSORFLOWS_PASS} lowers the loss with its clip "
            "and its logarithms. In bfloat16, 1 - 1e-7 is 1, and log(1 - 1) is infinite. "
            f"npu_precision keeps {KEPT_CLIP} and {KEPT_LOG}; the reasons are below."
        )
    ratio = results[FLOAT32].step_ms / results[BFLOAT16].step_ms
    found = [name for name in ("avx512_bf16", "amx_bf16") if name in cpu_flags()]
    if tf.config.list_physical_devices("GPU"):
        why = ""
    elif found:
        why = f" This CPU has {' and '.join(found)}."
    else:
        why = " This CPU has neither avx512_bf16 nor amx_bf16, so it gains nothing."
    yield f"bfloat16: {ratio:.2f} times the speed of float32, training.{why}"
    yield (
        "float16, emulated: computed in float32, and what is lowered is rounded to float16, as on "
        "an accelerator. It shows accuracy, not speed."
    )


def cpu_flags():
    try:
        text = pathlib.Path("/proc/cpuinfo").read_text()
    except OSError:
        return set()
    lines = (line for line in text.splitlines() if line.startswith("flags"))
    return set(next(lines, "").split())


def report(out, ledger_file):
    """Writes the report of the training step that a ledger is of; returns the file."""
    file = out / REPORT_FILE
    arguments = ["report", ledger_file, "-o", file]
    with contextlib.redirect_stdout(io.StringIO()):
        status = npu_precision_command.run([str(each) for each in arguments])
    if status != 0:
        sys.exit(status)
    return file


class OneLineParser(argparse.ArgumentParser):
    """Errors take one line, without the usage."""

    def error(self, message):
        self.exit(2, f"{self.prog}: {message}\n")


def parse_arguments(arguments):
    parser = OneLineParser(prog="digits_demo", description=__doc__.splitlines()[0])
    parser.add_argument(
        "--out", type=pathlib.Path, help="a folder to make; default: a temporary one"
    )
    parser.add_argument(
        "--steps", type=int, help=f"training steps per run, {FEWEST_STEPS} or more; {STEPS}"
    )
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_STEPS} steps")
    options = parser.parse_args(arguments)
    if options.quick and options.steps is not None:
        parser.error("--quick and --steps: got both, expected one of the two")
    if options.steps is None:
        options.steps = QUICK_STEPS if options.quick else STEPS
    if options.steps < FEWEST_STEPS:
        parser.error(f"--steps: got {options.steps}, expected {FEWEST_STEPS} or more")
    try:
        if options.out is None:
            options.out = pathlib.Path(tempfile.mkdtemp(prefix="npu_precision_demo_"))
        else:
            options.out = options.out.absolute()
            options.out.mkdir(parents=True)
    except FileExistsError:
        parser.error(f"--out: {options.out} exists; name a folder that does not")
    except OSError as error:
        parser.error(f"--out: cannot make {options.out}: {error.strerror}")
    return options


def main(arguments=None):
    options = parse_arguments(arguments)
    mixlist = options.out / MIXLIST_FILE
    mixlist.write_text(MIXLIST)
    console = Console(highlight=False, markup=False)
    console.print(
        f"Training on scikit-learn's digits in {len(RUNS)} runs, {options.steps} steps of "
        f"{BATCH} images each."
    )
    columns = (TextColumn("{task.description:24}"), BarColumn(), MofNCompleteColumn())
    results = {}
    with Progress(*columns, TimeElapsedColumn(), console=console) as progress:
        for run in RUNS:
            task = progress.add_task(run.title, total=options.steps)
            results[run] = train_and_evaluate(
                run, options.out, options.steps, lambda task=task: progress.advance(task)
            )

    console.print(result_table(results))
    console.print(
        f"Accuracy: on {HELD_OUT} digits held out. Final loss: mean of the last {LAST} steps. "
        "Nodes lowered and casts: of the training step's graph. Step time: what the fastest tenth "
        "of the steps stay under; other work on the machine still moves it. Speed: as a multiple "
        "of float32's."
    )
    for remark in remarks(results, options.steps):
        console.print(remark)
    lines = [f"\nWhy, from the ledger of the run with {MIXLIST_FILE}:"]
    lines += explanations(results[MIXLIST_RUN].ledger, mixlist)
    lines.append("\nLedgers of the training steps (beside each, those of the smaller graphs):")
    of_modes = [result for result in results.values() if result.ledger]
    lines += [str(result.ledger_file) for result in of_modes]
    warned = {text for result in of_modes for text in result.ledger.warnings}
    lines += [f"warning: {text}" for text in sorted(warned)]
    lines += [
        "",
        f"The training step with {MIXLIST_FILE}, as a page, with the reason for every node:",
        str(report(options.out, results[MIXLIST_RUN].ledger_file)),
        f"To open it: python3 -m webbrowser {options.out / REPORT_FILE}",
    ]
    # Names and paths stay whole, to be copied.
    console.print("\n".join(lines), soft_wrap=True)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("digits_demo: interrupted")
