"""`python -m npu_precision --mode MODE SCRIPT` runs a program that knows nothing of the project."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import pytest
from support import ROOT, python_path
from support.tf_versions import needs_estimator, needs_functions_by_default

from npu_precision.launch import command

SITE = os.path.join(str(ROOT), "npu_precision", "launch", "site")
BF16 = ("--mode", "allow_mix_precision_bf16")

FUNCTION = """
import sys
import numpy as np
import tensorflow as tf

w = tf.Variable(np.linspace(-1, 1, 64 * 64).reshape(64, 64).astype("f"))

@tf.function
def step(x):
    return tf.nn.relu(tf.matmul(x, w))

for _ in range(40):
    result = step(tf.ones([64, 64]))
print(sys.argv[1:], __name__)
"""

SESSION = """
import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
x = tf.placeholder(tf.float32, [None, 64])
w = tf.get_variable("w", [64, 64])
y = tf.nn.relu(tf.matmul(x, w))
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    print(session.run(y, {x: np.ones([8, 64])}).dtype)
"""

ESTIMATOR = """
import numpy as np
import tensorflow as tf

def model_fn(features, labels, mode):
    logits = tf.compat.v1.layers.dense(features, 10, name="logits")
    loss = tf.compat.v1.losses.sparse_softmax_cross_entropy(labels, logits)
    step = tf.compat.v1.train.get_or_create_global_step()
    train = tf.compat.v1.train.GradientDescentOptimizer(0.1).minimize(loss, step)
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train)

def input_fn():
    batch = np.ones([8, 64], "f"), np.zeros([8], "i")
    return tf.data.Dataset.from_tensors(batch).repeat()

tf.estimator.Estimator(model_fn, "model").train(input_fn, steps=3)
print("trained")
"""

# A layer is the identity, computed through values that float16 cannot hold from the 13th step on.
OVERFLOWS = """
import numpy as np
import tensorflow as tf

keras = tf.keras
keras.utils.set_random_seed(1)

class Large(keras.layers.Layer):
    def __init__(self):
        super().__init__(name="large")
        self.eye = tf.eye(16)

    def call(self, x):
        return tf.matmul(x[:, :16] * x[:, 16:], self.eye, name="product") / x[:, 16:]

images = np.random.default_rng(0).normal(size=[480, 16]).astype("f")
size = np.where(np.arange(480) < 16 * 12, 1, 3e5).astype("f")[:, None]
model = keras.Sequential([keras.layers.Input([17]), Large(), keras.layers.Dense(4, name="digits")])
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile(keras.optimizers.SGD(0.01), loss, jit_compile=False)
labels = np.argmax(images[:, :4], -1)
model.fit(np.concatenate([images, size], 1), labels, batch_size=16, shuffle=False, verbose=0)
print("finite:", all(np.isfinite(each).all() for each in model.get_weights()))
"""

TRAINS = """
import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
images = np.random.default_rng(0).normal(size=[16, 8]).astype("f")
size = tf.placeholder_with_default(np.float32(3e5), [])
w = tf.get_variable("w", [8, 4])
large = tf.matmul(images * size, tf.eye(8), name="large") / size
labels = np.argmax(images[:, :4], -1)
tf.losses.sparse_softmax_cross_entropy(labels, tf.matmul(large, w))
step = tf.train.GradientDescentOptimizer(0.01).minimize(
    tf.losses.get_total_loss(), tf.train.get_or_create_global_step()
)
with tf.train.MonitoredTrainingSession(hooks=[tf.train.StopAtStepHook(last_step=8)]) as session:
    while not session.should_stop():
        value = session.run([step, w])[1]
print("finite:", np.isfinite(value).all())
"""

STARTS_ANOTHER = """
import subprocess, sys
sys.exit(subprocess.run([sys.executable, "other.py", "of", "parent"]).returncode)
"""


@pytest.fixture
def run(tmp_path):
    """run(scripts, arguments) -> the finished process."""

    def start(scripts, *arguments, status=0, launcher=("-m", "npu_precision"), **variables):
        for name, text in scripts.items():
            (tmp_path / name).write_text(text)
        done = subprocess.run(
            [sys.executable, *launcher, *map(str, arguments)],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": python_path(ROOT), **variables},
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == status, done.stderr
        return done

    return start


def lowered(done):
    """The numbers of float nodes that were lowered, by who says so."""
    pattern = r"^npu_precision(.*?): (\w+) lowered (\d+) of \d+ float nodes"
    return [
        (bool(who), mode, int(count))
        for who, mode, count in re.findall(pattern, done.stderr, re.MULTILINE)
    ]


@needs_functions_by_default
def test_a_function_runs_in_the_mode(run, tmp_path):
    flags = (*BF16, "--report-dir", "reports", "--rewrites", "-activations")
    done = run({"train.py": FUNCTION}, *flags, "train.py", "--mode", "x")
    assert done.stdout.splitlines() == ["['--mode', 'x'] __main__"]
    ((_, mode, count),) = lowered(done)
    assert mode == "allow_mix_precision_bf16"
    assert count >= 1
    (ledger,) = (tmp_path / "reports").glob("*.json")
    assert json.loads(ledger.read_text())["options"]["rewrites"] == "-activations"
    assert f"The page: {tmp_path / 'reports' / 'page.html'}" in done.stderr
    assert (tmp_path / "reports" / "page.html").exists()


def test_a_session_runs_in_the_mode(run):
    done = run({"train.py": SESSION}, *BF16, "train.py")
    assert done.stdout.splitlines() == ["float32"]
    ((_, _, count),) = lowered(done)
    assert count >= 1


@needs_estimator
def test_an_estimator_trains_in_the_mode(run):
    done = run({"train.py": ESTIMATOR}, *BF16, "train.py")
    assert done.stdout.splitlines() == ["trained"]
    assert any(mode == "allow_mix_precision_bf16" and count for _, mode, count in lowered(done))


def test_a_session_that_names_the_optimizer_keeps_its_mode(run):
    own = SESSION.replace(
        "tf.Session()",
        "tf.Session(config=npu_precision.npu_config_proto(precision_mode='must_keep_origin_dtype'))",
    )
    done = run({"train.py": f"import npu_precision\n{own}"}, *BF16, "train.py")
    assert "allow_mix_precision_bf16 lowered nothing" in done.stderr


def test_a_process_that_it_starts_runs_in_the_mode(run, tmp_path):
    flags = (*BF16, "--record", "log")
    done = run({"train.py": STARTS_ANOTHER, "other.py": SESSION}, *flags, "train.py")
    (child,) = (each for each in lowered(done) if each[0])
    assert child[2] >= 1
    assert len(list((tmp_path / "log").glob("process_*/flight.jsonl"))) == 1


def test_a_module_its_arguments_and_its_status(run):
    script = f"import sys\n{SESSION}\nprint(sys.argv[1:])\nraise SystemExit(3)"
    arguments = ("--mode", "force_fp16", "--epochs", "3", "-m", "x")
    done = run({"train.py": script}, *BF16, "-m", "train", *arguments, status=3)
    assert done.stdout.splitlines()[-1] == str(list(arguments))
    ((_, mode, count),) = lowered(done)
    assert mode == "allow_mix_precision_bf16"
    assert count >= 1


@needs_functions_by_default
def test_others_may_look_for_tensorflow_first(run):
    first = "import importlib.util\nimportlib.util.find_spec('tensorflow')\nimport keras\n"
    assert lowered(run({"train.py": first + FUNCTION}, *BF16, "train.py"))[0][2] >= 1


@needs_functions_by_default
def test_what_cannot_be_reached_is_told(run):
    off = 'tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})'
    script = FUNCTION.replace("w = tf.V", f"{off}\nw = tf.V")
    done = run({"train.py": script}, *BF16, "train.py")
    assert "lowered nothing" in done.stderr
    assert "Not reached: tf.functions under the optimizer option disable_meta" in done.stderr
    assert "decorate" not in done.stderr


@pytest.mark.full
def test_eager_execution_may_be_switched_on_later(run):
    script = "import tensorflow as tf\ntf.compat.v1.enable_v2_behavior()\n" + FUNCTION
    assert lowered(run({"train.py": script}, *BF16, "train.py"))[0][2] >= 1


def test_paths_of_the_environment_stay_where_they_were(run, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    path = os.pathsep.join([SITE, python_path(ROOT)])
    variables = {"NPU_PRECISION_MODE": "force_fp16", "NPU_PRECISION_REPORT_DIR": "reports"}
    script = "import os\n" + SESSION.replace("x = tf.p", 'os.chdir("elsewhere")\nx = tf.p')
    run({"train.py": script}, "train.py", launcher=(), **variables, PYTHONPATH=path)
    assert list((tmp_path / "reports").glob("*.json"))


def test_a_script_for_ascend_finds_its_modules(run):
    script = "from npu_bridge.npu_init import *\nimport hccl\n" + SESSION
    assert lowered(run({"train.py": script}, *BF16, "train.py"))[0][2] >= 1


@needs_functions_by_default
def test_steps_are_compared_with_the_first_ones_in_float32(run):
    done = run({"train.py": FUNCTION}, *BF16, "--time", "train.py")
    pattern = (
        r"A call of step took \S+ ms in float32 \(10 calls\) and \S+ ms in the mode \(26 calls\)"
    )
    assert re.search(pattern, done.stderr), done.stderr


def test_sessions_are_not_compared_with_float32(run):
    done = run({"train.py": SESSION}, *BF16, "--time", "train.py")
    assert lowered(done)[0][2] >= 1
    assert "sessions ran in the mode, and are not timed" in done.stderr


@needs_functions_by_default
def test_what_happens_is_recorded(run, tmp_path):
    done = run({"train.py": FUNCTION}, *BF16, "--record", "log", "train.py")
    assert f"`npu-precision flight {tmp_path / 'log'}` shows" in done.stderr
    assert "bfloat16" in (tmp_path / "log" / "flight.jsonl").read_text()


FP16 = ("--mode", "allow_mix_precision")


@needs_functions_by_default
@pytest.mark.parametrize(
    "script",
    [
        pytest.param(OVERFLOWS, id="fit"),
        pytest.param(TRAINS, id="MonitoredTrainingSession", marks=pytest.mark.full),
    ],
)
def test_a_training_is_healed(script, run, tmp_path):
    assert run({"train.py": script}, *FP16, "train.py").stdout.splitlines() == ["finite: False"]
    if script == OVERFLOWS:  # Keras may import TensorFlow.
        (tmp_path / "train.py").write_text(f"import keras\n{script}")
    done = run({}, *FP16, "--healed", "healed.json", "train.py")
    assert done.stdout.splitlines() == ["finite: True"]
    healed = (tmp_path / "healed.json").read_text()
    assert "large" in healed
    assert f"{tmp_path / 'healed.json'} keeps what was healed" in done.stderr


@needs_functions_by_default
def test_first_steps_are_compared_and_what_to_keep_is_shown(run):
    done = run({"train.py": OVERFLOWS}, "--try", "--steps", "20", "train.py")
    rows = {line.split()[0]: line.split()[1:] for line in done.stdout.splitlines() if line.strip()}
    for name in ("float32", "allow_mix_precision_bf16"):
        assert len(rows[name]) == 3, done.stdout  # Each loss is finite.
    assert rows["float32"][1] == "1.00"
    assert rows["allow_mix_precision"][-2:] == ["step", "13"]
    assert '"node:' in done.stdout
    assert "large" in done.stdout.partition("black-list")[2]


@pytest.mark.full
def test_sessions_and_failures_are_compared_too(run):
    done = run(
        {"train.py": TRAINS},
        "--mode",
        "allow_mix_precision_bf16",
        "--try",
        "--steps",
        "3",
        "train.py",
    )
    assert re.search(r"^float32 +\S+ +1.00", done.stdout, re.MULTILINE), done.stdout
    assert "3 steps: calls of session.run" in done.stdout
    done = run({"train.py": "raise KeyError('none')"}, "--try", "train.py", status=1)
    assert "float32: it ended with status 1 before a tf.function or session.run" in done.stdout
    assert "KeyError: 'none'" in done.stdout


# Which of the two takes longer differs with the mode.
TWO_STEPS = """
import os, time
import numpy as np
import tensorflow as tf

has_mode = "NPU_PRECISION_MODE" in os.environ

def value_after(value, seconds):
    return tf.numpy_function(lambda: (time.sleep(seconds), np.float32(value))[1], [], tf.float32)

first = tf.function(lambda: value_after(1, 0.001 if has_mode else 0.03))
second = tf.function(lambda: value_after(2, 0.03 if has_mode else 0.001))
for _ in range(40):
    first(), second()
"""


@pytest.mark.full
@needs_functions_by_default
def test_one_step_is_compared_with_the_same_one(run):
    done = run({"train.py": TWO_STEPS}, *BF16, "--try", "--steps", "8", "train.py")
    rows = [line.split() for line in done.stdout.splitlines()]
    losses = {row[0]: row[-1] for row in rows if row and row[0] in ("float32", BF16[1])}
    assert losses == {"float32": "1", BF16[1]: "1"}, done.stdout


def test_trainings_that_no_guard_can_reach_are_told(run):
    script = TRAINS.replace("tf.losses.sparse_softmax_cross_entropy(labels, ", "x = (")
    script = script.replace("tf.losses.get_total_loss()", "tf.reduce_mean(x)")
    done = run({"train.py": script}, *BF16, "--healed", "healed.json", "train.py")
    assert "Not guarded: a session whose graph has no losses" in done.stderr
    assert "No training was guarded" in done.stderr


@needs_functions_by_default
def test_the_environment_alone_does_it(run):
    path = os.pathsep.join([SITE, python_path(ROOT)])
    variables = {"NPU_PRECISION_MODE": "allow_mix_precision_bf16", "PYTHONPATH": path}
    done = run({"train.py": FUNCTION}, "train.py", launcher=(), **variables)
    assert "from the environment: NPU_PRECISION_MODE=allow_mix_precision_bf16" in done.stderr
    assert lowered(done)[0][2] >= 1


def test_a_wrong_mode_in_the_environment_fails_the_program(run):
    path = os.pathsep.join([SITE, python_path(ROOT)])
    variables = {"NPU_PRECISION_MODE": "bf16", "PYTHONPATH": path}
    guarded = "try:\n  import tensorflow\nexcept Exception:\n  pass\n" + FUNCTION
    done = run({"train.py": guarded}, "train.py", launcher=(), status=1, **variables)
    assert "NPU_PRECISION_MODE: " in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    # The flags of the command come before it.
    done = run({"train.py": SESSION}, "--mode", "force_fp16", "train.py", **variables)
    assert "the flags replace NPU_PRECISION_MODE" in done.stderr
    assert lowered(done)[0][1] == "force_fp16"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "SCRIPT is missing"),
        (("none.py",), "none.py: there is no such file"),
        (("--mode", "bf16", "train.py"), "--mode: "),
        (("--mixlist", "m.json", "train.py"), "--mode is missing"),
        (("--time", "train.py"), "--time: expected --mode too"),
        (("--steps", "3", *BF16, "train.py"), "--steps: expected --try too"),
        (("--try", "--time", "train.py"), "--time and --try: expected one of the two"),
        ((*BF16, "--record", "train.py", "train.py"), "is a file, expected a folder"),
        ((*BF16, "--mixlist", "m.json", "train.py"), "m.json"),
        ((*BF16, "--healed", "train.py", "train.py"), "no PrecisionGuard wrote it"),
    ],
)
def test_what_cannot_be_run_is_told_at_once(arguments, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("print('ran')")
    monkeypatch.setattr(sys, "argv", ["npu_precision", *arguments])
    with pytest.raises(SystemExit) as ended:
        command.main()
    assert ended.value.code == 2
    printed = capsys.readouterr()
    assert message in printed.err
    assert printed.out == ""
