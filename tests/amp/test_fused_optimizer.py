"""npu_precision.amp.optimizers: their steps in eager code, tf.functions and fit()."""

from __future__ import annotations

import logging

import numpy as np
import pytest
import tensorflow as tf
from support import optimizer_formulas
from support.tf_versions import needs_fused_optimizers

import npu_precision
from npu_precision import amp

pytestmark = needs_fused_optimizers
SHAPES = [[3, 5], [7], [], [130, 130], [40]]  # All but one are small.
each_place = pytest.mark.parametrize("place", [tf.function, lambda f: f], ids=["function", "eager"])
RULES = {
    "sgd": ("NpuFusedSGD", optimizer_formulas.sgd, {"lr": 0.01}),
    "sgd decay": ("NpuFusedSGD", optimizer_formulas.sgd, {"lr": 0.01, "weight_decay": 0.01}),
    "momentum": ("NpuFusedSGD", optimizer_formulas.sgd, {"lr": 0.01, "momentum": 0.9}),
    "dampening": (
        "NpuFusedSGD",
        optimizer_formulas.sgd,
        {"lr": 0.01, "momentum": 0.9, "dampening": 0.5, "weight_decay": 0.01},
    ),
    "nesterov": (
        "NpuFusedSGD",
        optimizer_formulas.sgd,
        {"lr": 0.01, "momentum": 0.9, "nesterov": True},
    ),
    "adam": ("NpuFusedAdam", optimizer_formulas.adam, {}),
    "adam eps": ("NpuFusedAdam", optimizer_formulas.adam, {"lr": 0.01, "eps": 0.1}),
    "adam decay": (
        "NpuFusedAdam",
        optimizer_formulas.adam,
        {"lr": 0.01, "betas": (0.8, 0.99), "weight_decay": 0.1},
    ),
    "amsgrad": ("NpuFusedAdam", optimizer_formulas.adam, {"amsgrad": True}),
    "adamw": ("NpuFusedAdamW", optimizer_formulas.adamw, {"lr": 0.01}),
    "adamw without": ("NpuFusedAdamW", optimizer_formulas.adamw, {"weight_decay": 0.0}),
    "adadelta": ("NpuFusedAdadelta", optimizer_formulas.adadelta, {}),
    "adadelta decay": ("NpuFusedAdadelta", optimizer_formulas.adadelta, {"weight_decay": 0.1}),
    "rmsprop": ("NpuFusedRMSprop", optimizer_formulas.rmsprop, {}),
    "rmsprop all": (
        "NpuFusedRMSprop",
        optimizer_formulas.rmsprop,
        {"momentum": 0.9, "centered": True, "weight_decay": 0.1},
    ),
    "rmsprop tf": ("NpuFusedRMSpropTF", optimizer_formulas.rmsprop_tf, {}),
    "rmsprop tf all": (
        "NpuFusedRMSpropTF",
        optimizer_formulas.rmsprop_tf,
        {"momentum": 0.9, "centered": True, "weight_decay": 0.1},
    ),
    "rmsprop tf lr": (
        "NpuFusedRMSpropTF",
        optimizer_formulas.rmsprop_tf,
        {"momentum": 0.9, "weight_decay": 0.1, "decoupled_decay": True, "lr_in_momentum": False},
    ),
    "lamb": ("NpuFusedLamb", optimizer_formulas.lamb, {"lr": 0.01, "weight_decay": 0.1}),
    "lamb adam": ("NpuFusedLamb", optimizer_formulas.lamb, {"lr": 0.01, "adam": True}),
    "bert adam": ("NpuFusedBertAdam", optimizer_formulas.bert_adam, {"lr": 0.01}),
    "bert adam warm-up": (
        "NpuFusedBertAdam",
        optimizer_formulas.bert_adam,
        {"lr": 0.01, "warmup": 0.5, "t_total": 4, "weight_decay": 0.1},
    ),
    "adamp": ("NpuFusedAdamP", optimizer_formulas.adam_p, {"lr": 0.01, "weight_decay": 0.1}),
    # Every step is projected: by unit if delta is large, otherwise as a whole.
    "adamp all": (
        "NpuFusedAdamP",
        optimizer_formulas.adam_p,
        {"lr": 0.01, "weight_decay": 0.1, "delta": 100.0, "nesterov": True},
    ),
}
each_rule = pytest.mark.parametrize("rule", RULES)


def make(rule, **others):
    name, _, arguments = RULES[rule]
    return getattr(amp.optimizers, name)(**{**arguments, **others})


def some(count, seed=0, shapes=SHAPES):
    """`count` lists of arrays of the shapes, from 1 to 2, where float32 has one spacing."""
    random = np.random.RandomState(seed)
    return [[np.float32(random.uniform(1, 2, shape)) for shape in shapes] for _ in range(count)]


def steps(optimizer, variables, grads, place=tf.function):
    """Takes a step per item of grads, which has a gradient for each variable."""
    apply = place(lambda *each: optimizer.apply_gradients(zip(each, variables)))
    for each in grads:
        apply(*map(tf.convert_to_tensor, each))
    return [variable.numpy() for variable in variables]


def variables_of(values, dtype=tf.float32):
    return [tf.Variable(value, dtype=dtype) for value in values]


def ulps(got, expected):
    """The largest distance, in units in the last place of the largest element in float32."""
    expected = np.asarray(expected, np.float64)
    unit = np.spacing(np.float32(np.abs(expected).max()))
    return float(np.max(np.abs(np.asarray(got, np.float64) - expected)) / unit)


def slots_of(optimizer, variables):
    """The slots of each variable, by name, as a checkpoint has them."""
    found = []
    for part, index in map(optimizer._fused_slots.place, variables):
        pieces = {name: part.unpacked(slot.read_value()) for name, slot in part.slots.items()}
        found.append({name: each[index].numpy() for name, each in pieces.items()})
    return found


def updates(optimizer, variables, grads):
    """The number of ops that apply a gradient in the graph of a step."""
    step = tf.function(lambda *each: optimizer.apply_gradients(zip(each, variables)))
    graph = step.get_concrete_function(*map(tf.convert_to_tensor, grads)).graph
    return sum(op.type.startswith("ResourceApply") for op in graph.get_operations())


@each_place
@each_rule
def test_five_steps_are_those_of_the_formula(rule, place):
    (values,), grads = some(1), some(5, seed=1)
    variables = variables_of(values)
    optimizer = make(rule)
    got = steps(optimizer, variables, grads, place)
    _, formula, arguments = RULES[rule]
    for index, slots in enumerate(slots_of(optimizer, variables)):
        mine = [np.asarray(each[index], np.float64) for each in grads]
        expected, expected_slots = formula(values[index].astype(np.float64), mine, **arguments)
        assert ulps(got[index], expected) <= 6
        assert slots.keys() == expected_slots.keys()
        for slot, value in slots.items():
            assert ulps(value, expected_slots[slot]) <= 8, slot
    assert int(optimizer.iterations) == 5


def orthogonal(shape, seed):
    """Values, and gradients that are orthogonal to the whole but not to any unit."""
    random = np.random.RandomState(seed)
    values, grad = random.uniform(1, 2, shape), random.uniform(1, 2, shape)
    return values, grad - values * np.sum(values * grad) / np.sum(values * values)


def test_adamp_projects_a_whole_variable_whose_units_are_not_orthogonal():
    values, grad = orthogonal([30, 4], seed=2)
    _, ratio = optimizer_formulas.projected(values, grad, grad, 0.1, 0.1, 1e-8)
    (columns, _), arguments = (values, grad), {"lr": 0.01, "weight_decay": 0.1}
    cosine = np.sum(columns * grad, 0) / np.linalg.norm(columns, axis=0)
    assert ratio == 0.1
    assert np.max(np.abs(cosine / np.linalg.norm(grad, axis=0))) > 0.1 / np.sqrt(30)
    variable = tf.Variable(values, dtype=tf.float32)
    optimizer = amp.optimizers.NpuFusedAdamP(**arguments)
    optimizer.apply_gradients([(tf.constant(grad, tf.float32), variable)])
    expected, _ = optimizer_formulas.adam_p(
        np.float64(np.float32(values)), [np.float64(np.float32(grad))], **arguments
    )
    assert ulps(variable, expected) <= 4


@pytest.mark.parametrize("schedule", ["linear", "constant", "cosine", "poly"])
def test_berts_rate_follows_its_schedule(schedule):
    arguments = {"warmup": 0.25, "t_total": 8, "schedule": f"warmup_{schedule}"}
    optimizer = amp.optimizers.NpuFusedBertAdam(1.0, **arguments)
    for step in range(10):
        numbers = optimizer.step_numbers(
            tf.constant(1.0, tf.float64), tf.constant(step, tf.float64), tf.float32
        )
        expected = optimizer_formulas.bert_factor(step, **arguments)
        np.testing.assert_allclose(numbers["lr"], expected, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize(
    ("name", "arguments", "limit"),
    [
        ("NpuFusedBertAdam", {"lr": 0.01, "max_grad_norm": 1.0}, "max_grad_norm"),
        ("NpuFusedLamb", {"lr": 0.01, "use_global_grad_norm": True}, "use_global_grad_norm"),
    ],
)
@pytest.mark.parametrize("factor", [1.0, 1e-4], ids=["beyond", "within"])
def test_gradients_are_divided_by_their_norm_beyond_one(name, arguments, limit, factor):
    (values,), (grads,) = some(1), some(1, seed=1)
    grads = [np.float32(factor) * each for each in grads]
    norm = np.sqrt(sum(np.sum(np.float64(each) ** 2) for each in grads))
    divided = [np.float32(each / max(norm, 1.0)) for each in grads]
    got, plain = variables_of(values), variables_of(values)
    make_it = getattr(amp.optimizers, name)
    steps(make_it(**arguments), got, [grads])
    steps(
        make_it(**{key: each for key, each in arguments.items() if key != limit}), plain, [divided]
    )
    for ours, expected in zip(got, plain):
        # An error of the norm is in all numbers; Ascend's Apex adds 1e-6 to it for BERT.
        np.testing.assert_allclose(ours, expected, rtol=3e-6)


KERAS = {
    "sgd": lambda: tf.keras.optimizers.SGD(0.01),
    "momentum": lambda: tf.keras.optimizers.SGD(0.01, momentum=0.9),
    "nesterov": lambda: tf.keras.optimizers.SGD(0.01, momentum=0.9, nesterov=True),
    # Keras' epsilon is another one, which does not matter if it is small.
    "adam": lambda: tf.keras.optimizers.Adam(1e-3, epsilon=1e-10),
    "amsgrad": lambda: tf.keras.optimizers.Adam(1e-3, epsilon=1e-10, amsgrad=True),
    "adamw": lambda: tf.keras.optimizers.AdamW(0.01, weight_decay=1e-2, epsilon=1e-10),
}


@pytest.mark.parametrize("rule", KERAS)
def test_steps_are_those_of_keras(rule):
    (values,), grads = some(1), some(5, seed=1)
    got, expected = variables_of(values), variables_of(values)
    steps(make(rule), got, grads)
    steps(KERAS[rule](), expected, grads)
    # Keras computes 1 - 0.999^step in float32, which has few digits of it.
    limit = 10 if rule == "adamw" else 4
    for ours, keras in zip(got, expected):
        assert ulps(ours, keras) <= limit


@each_rule
def test_small_variables_are_updated_together_to_the_same_bits(rule, monkeypatch):
    (values,), grads = some(1), some(3, seed=1)
    together = steps(make(rule), variables_of(values), grads)
    monkeypatch.setattr("npu_precision.amp.optimizers.parts.SMALL", 0)
    alone = steps(make(rule), variables_of(values), grads)
    for first, second in zip(together, alone):
        np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize(("rule", "count"), [("adam", 2), ("momentum", 2), ("sgd", len(SHAPES))])
def test_small_variables_share_an_op(rule, count):
    (values, grads) = some(2)
    assert updates(make(rule), variables_of(values), grads) == count


@each_rule
def test_what_has_no_gradient_stays_as_it_is(rule):
    (values,), grads = some(1), some(2, seed=1)
    optimizer, variables = make(rule), variables_of(values)
    steps(optimizer, variables, grads[:1])
    before, slots_before = [each.numpy() for each in variables], slots_of(optimizer, variables)
    optimizer.apply_gradients(
        (None if index in (1, 3) else each, variable)
        for index, (each, variable) in enumerate(zip(grads[1], variables))
    )
    plain_optimizer, plain = make(rule), variables_of(values)
    all_steps = steps(plain_optimizer, plain, grads)
    expected_slots = slots_of(plain_optimizer, plain)
    for index, slots in enumerate(slots_of(optimizer, variables)):
        has_none = index in (1, 3)
        expected = before[index] if has_none else all_steps[index]
        np.testing.assert_array_equal(variables[index], expected)
        for slot, value in slots.items():
            source = slots_before if has_none else expected_slots
            np.testing.assert_array_equal(value, source[index][slot])


def test_keras_warns_of_what_has_no_gradient(recwarn, caplog, monkeypatch):
    # Keras 2 logs the warning to TensorFlow's logger. The logger's level and propagation depend on
    # earlier tests in this process.
    logger = logging.getLogger("tensorflow")
    monkeypatch.setattr(logger, "propagate", True)
    monkeypatch.setattr(logger, "disabled", False)
    caplog.set_level(logging.WARNING, "tensorflow")
    optimizer, variables = make("adam"), variables_of([1.0, 2.0])
    optimizer.apply_gradients([(tf.constant(1.0), variables[0]), (None, variables[1])])
    said = caplog.text + " ".join(str(each.message) for each in recwarn)
    assert "Gradients do not exist for variables" in said


@each_place
@pytest.mark.parametrize("rule", ["sgd", "momentum", "adam", "adamw"])
@pytest.mark.parametrize("rows", [4, 9000], ids=["small", "large"])
def test_slices_are_added_up(rule, place, rows):
    values = np.ones([rows, 2], np.float32)
    table, dense, other = tf.Variable(values), tf.Variable(values), tf.Variable(1.0)
    slices = tf.IndexedSlices(tf.constant([[1.0, 2], [3, 4], [5, 6]]), tf.constant([3, 1, 3]))
    optimizer, plain = make(rule), make(rule)

    @place
    def step():
        optimizer.apply_gradients([(slices, table), (tf.constant(1.0), other)])

    grad = np.zeros([rows, 2], np.float32)
    grad[1], grad[3] = [3, 4], [6, 8]
    for _ in range(2):
        step()
        plain.apply_gradients([(tf.constant(grad), dense)])
    np.testing.assert_allclose(table, dense, rtol=3e-7)


@pytest.mark.parametrize("rule", ["momentum", "adam", "adamw"])
@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16])
def test_low_variables_have_slots_in_float32(rule, dtype):
    grads = [[np.float32([1e-4, 3.0])], [np.float32([2e-4, 1.0])]]
    variable = tf.Variable([1.0, 2.0], dtype=dtype)
    optimizer = make(rule, lr=0.25)
    start = variable.numpy().astype(np.float64)
    for (grad,) in grads:
        optimizer.apply_gradients([(tf.constant(grad, dtype), variable)])
    _, formula, arguments = RULES[rule]
    mine = [tf.constant(grad, dtype).numpy().astype(np.float64) for (grad,) in grads]
    expected, expected_slots = formula(start, mine, **{**arguments, "lr": 0.25})
    np.testing.assert_allclose(
        variable.numpy().astype(np.float64), expected, rtol=2 * dtype.as_numpy_dtype(1) * 2**-8
    )
    (slots,) = slots_of(optimizer, [variable])
    for slot, value in slots.items():
        assert value.dtype == np.float32
        assert ulps(value, expected_slots[slot]) <= 4


@pytest.mark.parametrize("level", ["O1", "O2", "O3"])
def test_at_each_level_the_update_is_that_of_float32(level):
    """Gradients of 1e-4 have squares of 1e-8; times 0.001, these are zero in float16."""
    (values,), grads = (
        some(1),
        [[np.float32(1e-4) * each for each in all_] for all_ in some(3, seed=1)],
    )
    expected = steps(make("adam"), variables_of(values), grads)
    optimizer, _ = amp.initialize(make("adam"), level, loss_scale=1.0, verbosity=0)
    variables = variables_of(values)

    @tf.function
    def step(*each):
        with amp.scale_loss(tf.constant(1.0), optimizer):
            pass
        optimizer.apply_gradients(zip(each, variables))

    for each in grads:
        step(*map(tf.convert_to_tensor, each))
    for variable, plain in zip(variables, expected):
        np.testing.assert_array_equal(variable, plain)


CLIPS = {
    "global_clipnorm": lambda grads: tf.clip_by_global_norm(grads, 0.5)[0],
    "clipnorm": lambda grads: [tf.clip_by_norm(grad, 0.5) for grad in grads],
    "clipvalue": lambda grads: [tf.clip_by_value(grad, -0.5, 0.5) for grad in grads],
}


@pytest.mark.parametrize("clip", CLIPS)
@pytest.mark.parametrize("factor", [1.0, 1e-4], ids=["beyond", "within"])
def test_gradients_are_clipped_as_by_tensorflow(clip, factor):
    (values,), grads = (
        some(1),
        [[np.float32(factor) * each for each in all_] for all_ in some(2, seed=1)],
    )
    got, plain = variables_of(values), variables_of(values)
    steps(make("momentum", **{clip: 0.5}), got, grads)
    steps(make("momentum"), plain, [CLIPS[clip](each) for each in grads])
    for ours, expected in zip(got, plain):
        assert ulps(ours, expected) <= 4


def test_a_schedule_and_an_assigned_rate_are_followed():
    schedule = tf.keras.optimizers.schedules.PiecewiseConstantDecay([1, 2], [0.5, 0.25, 0.125])
    variable = tf.Variable(1.0)
    optimizer = amp.optimizers.NpuFusedSGD(schedule)
    seen = []
    for _ in range(4):
        optimizer.apply_gradients([(tf.constant(1.0), variable)])
        seen.append(float(variable))
    assert seen == [0.5, 0.0, -0.25, -0.375]
    optimizer = amp.optimizers.NpuFusedSGD(0.5)
    optimizer.learning_rate = 0.25
    optimizer.apply_gradients([(tf.constant(1.0), variable)])
    assert float(variable) == -0.625


def test_a_constraint_is_applied():
    free = tf.Variable(1.0)
    held = tf.Variable(1.0, constraint=lambda value: tf.maximum(value, 0.75))
    optimizer = make("momentum", lr=0.5)
    optimizer.apply_gradients([(tf.constant(1.0), free), (tf.constant(1.0), held)])
    assert (float(free), float(held)) == (0.5, 0.75)


@pytest.mark.parametrize("unscale", [False, True], ids=["at once", "before"])
@pytest.mark.parametrize("clip", [{}, {"global_clipnorm": 1.0}, {"clipnorm": 1.0}])
def test_a_grad_scaler_skips_and_unscales(unscale, clip):
    (values,) = some(1)
    scaler, variables = npu_precision.GradScaler(), variables_of(values)
    optimizer = make("adamw", **clip)

    @tf.function
    def step(factor):
        with tf.GradientTape() as tape:
            loss = tf.add_n([tf.reduce_sum(tf.square(each)) for each in variables])
            loss = scaler.scale(factor * loss)
        grads = tape.gradient(loss, variables)
        if unscale:
            grads = scaler.unscale_(optimizer, grads)
        made = scaler.step(optimizer, zip(grads, variables))
        scaler.update()
        return made

    assert [bool(step(tf.constant(each))) for each in (1.0, np.inf, 0.5)] == [True, False, True]
    plain, plain_optimizer = variables_of(values), make("adamw", **clip)
    for factor in (1.0, 0.5):
        grads = [2 * factor * each.numpy() for each in plain]
        plain_optimizer.apply_gradients(zip(grads, plain))
    for variable, expected in zip(variables, plain):
        assert ulps(variable, expected) <= 2


def test_a_scaler_checks_the_small_gradients_at_once():
    (values,) = some(1)
    counts = []
    for optimizer in (make("adam"), tf.keras.optimizers.Adam()):
        scaler, variables = npu_precision.GradScaler(), variables_of(values)

        @tf.function
        def step(*grads, scaler=scaler, optimizer=optimizer, variables=variables):
            scaler.scale(tf.constant(1.0))
            return scaler.step(optimizer, zip(grads, variables))

        graph = step.get_concrete_function(*map(tf.convert_to_tensor, values)).graph
        counts.append(sum(op.type == "IsFinite" for op in graph.get_operations()))
    assert counts == [2, len(SHAPES)]


def test_fit_learns_as_with_keras():
    losses = []
    for optimizer in (make("adam", lr=0.01), tf.keras.optimizers.Adam(0.01)):
        tf.keras.utils.set_random_seed(1)
        model = tf.keras.Sequential([tf.keras.layers.Dense(8, "tanh"), tf.keras.layers.Dense(1)])
        model.compile(optimizer, "mse")
        x = np.random.RandomState(0).rand(64, 4).astype(np.float32)
        losses.append(model.fit(x, x.sum(1), epochs=5, verbose=0, shuffle=False).history["loss"])
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-4)
    assert losses[0][-1] < 0.7 * losses[0][0]


def test_a_variable_that_it_does_not_know_is_named():
    optimizer = make("adam")
    optimizer.apply_gradients([(tf.constant(1.0), tf.Variable(1.0))])
    other = tf.Variable(1.0, name="other")
    with pytest.raises(ValueError, match=r"got 'other(:0)?', expected one of the 1 that"):
        optimizer.apply_gradients([(tf.constant(1.0), other)])


def test_several_replicas_are_refused(monkeypatch):
    class Two:
        num_replicas_in_sync = 2

    optimizer = make("adam")
    monkeypatch.setattr(tf.distribute, "has_strategy", lambda: True)
    monkeypatch.setattr(tf.distribute, "get_strategy", Two)
    with pytest.raises(RuntimeError, match="NpuFusedAdam: not under a tf.distribute strategy"):
        make("adam")
    with pytest.raises(RuntimeError, match="NpuFusedAdam: not under a tf.distribute strategy"):
        optimizer.take_step([], 0.1)


def test_in_a_session_it_says_what_to_use():
    with tf.Graph().as_default(), pytest.raises(RuntimeError, match="tf.compat.v1.train"):
        make("adam")


@pytest.mark.parametrize(
    ("name", "arguments", "error", "message"),
    [
        (
            "NpuFusedAdam",
            {"lr": -1},
            ValueError,
            r"lr: got -1.* \(int\), expected a finite number from 0",
        ),
        (
            "NpuFusedAdam",
            {"lr": "fast"},
            ValueError,
            r"lr: got 'fast' \(str\), expected a number or",
        ),
        ("NpuFusedAdam", {"betas": 0.9}, ValueError, r"betas: got 0.9 \(float\), expected a pair"),
        ("NpuFusedAdam", {"betas": (0.9, 1.0)}, ValueError, r"betas\[1\]: got 1.0 .* below 1"),
        ("NpuFusedAdam", {"eps": float("nan")}, ValueError, "eps: got nan"),
        (
            "NpuFusedAdam",
            {"amsgrad": "yes"},
            ValueError,
            r"amsgrad: got 'yes' \(str\), expected a bool",
        ),
        ("NpuFusedAdam", {"params": []}, ValueError, r"params: got \[\].*no such argument here"),
        (
            "NpuFusedAdam",
            {"foreach": True},
            ValueError,
            "foreach: got True .*always updated together",
        ),
        (
            "NpuFusedAdam",
            {"learning_rate": 0.1},
            TypeError,
            r"'learning_rate' \(did you mean 'lr'\?\)",
        ),
        ("NpuFusedAdam", {"clipnorm": 0}, ValueError, "clipnorm: got 0 .* above 0"),
        (
            "NpuFusedAdam",
            {"clipnorm": 1, "clipvalue": 1},
            ValueError,
            "clipnorm: got clipvalue too",
        ),
        (
            "NpuFusedSGD",
            {"lr": 1, "nesterov": True},
            ValueError,
            "nesterov: got True with momentum 0",
        ),
    ],
)
def test_wrong_arguments_are_named(name, arguments, error, message):
    with pytest.raises(error, match=message):
        getattr(amp.optimizers, name)(**arguments)


def test_parameters_as_torch_has_them_are_refused():
    with pytest.raises(ValueError, match="lr: got a list.*there is no argument for variables"):
        amp.optimizers.NpuFusedAdam([tf.Variable(1.0)], lr=0.1)
