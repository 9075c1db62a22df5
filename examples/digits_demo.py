"""`make demo`: trains one small convolutional net in four runs and tells what was lowered.

The model, the seed and the order of the data are the same each time; only NPURunConfig's
precision_mode and modify_mixlist differ. Every number printed is measured by this run or read from
its ledgers.
"""

import argparse
import contextlib
import dataclasses
import io
import os
import pathlib
import statistics
import sys
import tempfile
import time
import warnings

# Before TensorFlow is imported, which reads it then. The optimizer's warnings are in the ledgers
# too, from where they are shown.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import rich.box
import tensorflow.compat.v1 as tf
from digits_model import BATCH, HELD_OUT, SEED, held_out_input, model_fn, train_input
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

import npu_precision_command
from npu_precision import Ledger, NPURunConfig

STEPS = 80
QUICK_STEPS = 40
FEWEST_STEPS = 20
# The final loss is a mean over this many steps: that of one batch is mostly luck.
LAST = 20

REPORT_FILE = "report.html"
MIXLIST_FILE = "mixlist.json"
MIXLIST = """\
// An edit of the built-in lists: these two op types move from the white list to the black one.
{
  "black-list": {
    "to-add": [
      // TensorFlow's float16 kernels for these are slow on CPUs.
      "Conv2DBackpropFilter",
      "Conv2DBackpropInput"
    ]
  }
}
"""


@dataclasses.dataclass(frozen=True)
class Run:
    """One training: its folder, its line in the table, and what NPURunConfig gets."""

    folder: str
    precision_mode: str
    has_mixlist: bool = False

    @property
    def title(self):
        return f"  with {MIXLIST_FILE}" if self.has_mixlist else self.precision_mode


FLOAT32 = Run("float32", "must_keep_origin_dtype")
FLOAT16 = Run("float16", "allow_mix_precision")
MIXLIST_RUN = Run("float16_mixlist", "allow_mix_precision", has_mixlist=True)
BFLOAT16 = Run("bfloat16", "allow_mix_precision_bf16")
RUNS = (FLOAT32, FLOAT16, MIXLIST_RUN, BFLOAT16)


@dataclasses.dataclass(frozen=True)
class Result:
    """What a run came to; step_ms is the time of a training step in milliseconds."""

    accuracy: float
    loss: float
    step_ms: float
    ledger_file: pathlib.Path
    ledger: Ledger


class StepRecorder(tf.train.SessionRunHook):
    """Notes the loss and the time of each step, and moves the progress bar."""

    def __init__(self, advance):
        self._advance = advance
        self.losses = []
        self.seconds = []

    def begin(self):
        # The model has one; the Estimator adds it to the collection once more.
        self._loss = tf.losses.get_losses()[0]

    def before_run(self, run_context):
        self._began = time.perf_counter()
        return tf.train.SessionRunArgs(self._loss)

    def after_run(self, run_context, run_values):
        self.seconds.append(time.perf_counter() - self._began)
        self.losses.append(float(run_values.results))
        self._advance()


def train_and_evaluate(run, out, steps, advance):
    """Trains and evaluates in out / run.folder; calls advance() after each step."""
    reports = out / run.folder / "ledgers"
    config = NPURunConfig(
        model_dir=str(out / run.folder),
        tf_random_seed=SEED,
        save_summary_steps=None,
        log_step_count_steps=None,
        precision_mode=run.precision_mode,
        modify_mixlist=out / MIXLIST_FILE if run.has_mixlist else None,
        report_dir=reports,
    )
    estimator = tf.estimator.Estimator(model_fn, config=config, params={"steps": steps})
    recorder = StepRecorder(advance)
    estimator.train(train_input, steps=steps, hooks=[recorder])
    accuracy = estimator.evaluate(held_out_input)["accuracy"]

    # One ledger per graph; that of the training step, with its gradients, is the largest graph.
    ledgers = {file: Ledger.from_json(file.read_text()) for file in reports.glob("*.json")}
    largest = max(sorted(ledgers), key=lambda file: ledgers[file].total("float_nodes"))
    return Result(
        accuracy=float(accuracy),
        loss=statistics.mean(recorder.losses[-LAST:]),
        # What a tenth of the steps stay under: other work on the machine slows the rest.
        step_ms=1000 * statistics.quantiles(recorder.seconds, n=10)[0],
        ledger_file=largest,
        ledger=ledgers[largest],
    )


def result_table(results):
    table = Table(box=rich.box.SIMPLE_HEAD)
    table.add_column("precision_mode", no_wrap=True)
    for column in ("accuracy", "final\nloss", "nodes\nlowered", "casts", "step\ntime"):
        table.add_column(column, justify="right", no_wrap=True)
    for run, result in results.items():
        totals = result.ledger.totals
        table.add_row(
            run.title,
            f"{result.accuracy:.2%}",
            f"{result.loss:.4f}",
            f"{totals['lowered']} of {totals['float_nodes']}",
            str(totals["casts"]),
            f"{result.step_ms:.1f} ms",
        )
    return table


def explanations(ledger, mixlist):
    """One line each: a node that the mixlist moved, one that follows it, and two lowered ones."""
    moved = [node for node in ledger.nodes if node.listed_by.startswith(str(mixlist))]
    names = {node.name for node in moved}
    follows = [node for node in ledger.nodes if node.cause in names]
    white = [node for node in ledger.nodes if node.reason == "white_list"]
    gray = [node for node in ledger.nodes if node.reason == "gray_follows_lowered"]
    for node in (*moved[:1], *follows[:1], *white[:1], *gray[:1]):
        place = node.listed_by.replace(str(mixlist), mixlist.name)
        cause = f", after {node.cause}" if node.cause else ""
        yield f"{node.name} is {node.decision}: {node.reason}{cause} ({node.list}: {place})"


def speed_remarks(results):
    """What the step times say about this machine, in a sentence or two per low type."""

    def times_float32(run):
        return f"{results[run].step_ms / results[FLOAT32].step_ms:.2g} times"

    float16 = f"float16: a step takes {times_float32(FLOAT16)} as long as in float32."
    bfloat16 = f"bfloat16: a step takes {times_float32(BFLOAT16)} as long as in float32."
    if not tf.config.list_physical_devices("GPU"):
        found = [name for name in ("avx512_bf16", "amx_bf16") if name in cpu_flags()]
        has = " and ".join(found) if found else "neither avx512_bf16 nor amx_bf16"
        bfloat16 += f" This CPU has {has}."
        if results[FLOAT16].step_ms > results[FLOAT32].step_ms:
            float16 += (
                " A CPU emulates float16 where TensorFlow has no fast kernel for it, above all in"
                " the gradients of convolutions: with these on the black list it takes"
                f" {times_float32(MIXLIST_RUN)} as long."
            )
    return float16, bfloat16


def cpu_flags():
    try:
        text = pathlib.Path("/proc/cpuinfo").read_text()
    except OSError:
        return set()
    lines = (line for line in text.splitlines() if line.startswith("flags"))
    return set(next(lines, "").split())


def report(out):
    """Writes the report of the model that was trained in the last run; returns the file."""
    file = out / REPORT_FILE
    arguments = ["report", out / BFLOAT16.folder, "--mode", BFLOAT16.precision_mode, "-o", file]
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


def silence_tensorflow():
    tf.logging.set_verbosity(tf.logging.ERROR)
    # The model is a TF1 script on purpose.
    warnings.filterwarnings("ignore", message=".*is deprecated and will be removed")


def main(arguments=None):
    options = parse_arguments(arguments)
    silence_tensorflow()
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
        f"must_keep_origin_dtype: float32 throughout. Accuracy: on {HELD_OUT} digits held out. "
        f"Final loss: mean of the last {LAST} steps. Nodes lowered and casts: of the training "
        "step's graph. Step time: what the fastest tenth of the steps stay under; other work on "
        "the machine still moves it."
    )
    for remark in speed_remarks(results):
        console.print(remark)
    lines = [f"\nWhy, from the ledger of the run with {MIXLIST_FILE}:"]
    lines += explanations(results[MIXLIST_RUN].ledger, mixlist)
    lines.append("\nLedgers of the training steps (beside each, those of the smaller graphs):")
    lines += [str(result.ledger_file) for result in results.values()]
    warned = {text for result in results.values() for text in result.ledger.warnings}
    lines += [f"warning: {text}" for text in sorted(warned)]
    lines += [
        "",
        "The model of the last run, every node with its decision and the reason, as a page:",
        str(report(options.out)),
        f"To open it: python3 -m webbrowser {options.out / REPORT_FILE}",
    ]
    # Names and paths stay whole, to be copied.
    console.print("\n".join(lines), soft_wrap=True)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("digits_demo: interrupted")
