"""fused_updates: updates that are written out as single ops, as Keras 3 writes them."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from support.sessions_with_updates import assert_same_updates, run_updates

pytestmark = pytest.mark.cpu("updates are fused on CPUs alone")
tf1 = tf.compat.v1
SHAPE = [40, 17]
RANDOM_GRAPHS = 60


def numbers(seed, shape=SHAPE):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def variable(name, shape=SHAPE):
    value = tf.constant(numbers(len(name), shape))
    return tf1.get_variable(name, initializer=value, use_resource=True)


def low_gradient(weights):
    x = tf.constant(numbers(7, [64, SHAPE[0]]))
    return tf1.gradients(tf.reduce_sum(tf.square(tf.matmul(x, weights))), weights)[0]


def after(update):
    """What comes next waits for the update, as it does by itself in a tf.function."""
    return tf.control_dependencies([update])


def momentum(nodes):
    """Returns the nodes to fetch; `nodes(w, m, gradient)` may add some before the last update."""
    w, m = variable("w"), variable("mm")
    gradient = low_gradient(w)
    first = m.assign(m.read_value() * 0.9 - gradient * 0.1, read_value=False)
    fetched = nodes(w, m, first)
    with after(first):
        return [w.assign_add(m.read_value(), read_value=False), first, *fetched]


def test_updates_that_need_each_other_become_one(tmp_path):
    ran = assert_same_updates(lambda: momentum(lambda *_: []), tmp_path)
    assert ran.replaced == ["AssignAddVariableOp", "AssignVariableOp"]


def test_a_variable_that_is_updated_twice_is_swept_once(tmp_path):
    def build():
        w, rate = variable("w"), tf.constant(0.1)
        gradient = low_gradient(w)
        with after(gradient):
            decayed = w.assign_sub(w.read_value() * rate, read_value=False)
        with after(decayed):
            return [w.assign_sub(gradient * rate, read_value=False), decayed]

    ran = assert_same_updates(build, tmp_path)
    assert ran.replaced == ["AssignSubVariableOp"] * 2


def test_values_read_before_between_and_after_are_the_same(tmp_path):
    def build():
        w = variable("w")
        before, step = w.read_value(), low_gradient(w) * 0.1
        with tf.control_dependencies([before, step]):
            first = w.assign_sub(w.read_value() * 0.01, read_value=False)
        with after(first):
            between = tf.reduce_sum(w.read_value())
        with after(between):
            second = w.assign_sub(step, read_value=False)
        with after(second):
            return [before, between, w.read_value()]

    assert assert_same_updates(build, tmp_path).replaced == []


def test_the_value_of_an_update_that_others_read_is_still_there(tmp_path):
    def nodes(w, m, first):
        with after(first):
            return [tf.reduce_max(m.read_value())]

    ran = assert_same_updates(lambda: momentum(nodes), tmp_path)
    assert ran.replaced == ["AssignAddVariableOp", "AssignVariableOp"]


def test_an_update_that_needs_a_norm_of_the_one_before_stays_behind_it(tmp_path):
    """As LAMB does: one sweep cannot know the norm."""

    def build():
        w, m = variable("w"), variable("mm")
        first = m.assign(m.read_value() * 0.9 - low_gradient(w) * 0.1, read_value=False)
        with after(first):
            step = m.read_value()
            norm = tf.sqrt(tf.reduce_sum(tf.square(step)))
            return [w.assign_add(step / norm, read_value=False), first]

    ran = assert_same_updates(build, tmp_path)
    assert ran.replaced == ["AssignAddVariableOp", "AssignVariableOp"]


def test_groups_that_need_each_other_are_not_both_fused(tmp_path):
    """The last update of each needs a sum of what the first of the other wrote."""

    def build():
        variables = [variable(name) for name in ("a", "bb", "ccc", "dddd")]
        first = [
            each.assign_sub(each.read_value() * 0.1, read_value=False) for each in variables[:2]
        ]
        sums, read = [], []
        for update, each in zip(first, variables):
            with after(update):
                read.append(each.read_value())
                sums.append(tf.reduce_sum(tf.square(each.read_value())))
        last = [
            variables[2].assign_sub(read[0] / sums[1], read_value=False),
            variables[3].assign_sub(read[1] / sums[0], read_value=False),
        ]
        return first + last

    ran = assert_same_updates(build, tmp_path)
    assert len(ran.replaced) == 4
    assert ran.ran == 3  # the two of one group are one


def adam_of_an_embedding(reads=lambda *_: []):
    """As Keras writes it: the moments decay, and then some rows of them get gradients."""
    w, m, v = variable("w"), variable("mm"), variable("vvv")
    gradient, done = low_gradient(w), []
    for moment, part, grown in ((m, 0.1, gradient), (v, 0.01, tf.square(gradient))):
        old, rows = moment.read_value(), some_rows(grown * part)
        with tf.control_dependencies([old, grown]):
            decayed = moment.assign_add(-old * part, read_value=False)
        with after(decayed):
            done.append(add_rows(moment, rows))
    with tf.control_dependencies(done):
        step = m.read_value() * 0.3 / (tf.sqrt(tf.square(v.read_value())) + 0.1)
        return [w.assign_sub(step, read_value=False), *done, *reads(w, m, v)]


def test_an_embedding_is_updated_in_whole_sweeps(tmp_path):
    ran = assert_same_updates(adam_of_an_embedding, tmp_path)
    assert ran.replaced == ["AssignAddVariableOp", "AssignAddVariableOp", "AssignSubVariableOp"]
    assert ran.ran == 3


def test_moments_that_others_read_are_those_of_that_time(tmp_path):
    ran = assert_same_updates(
        lambda: adam_of_an_embedding(
            lambda w, m, v: [m.read_value(), tf.reduce_max(v.read_value())]
        ),
        tmp_path,
    )
    assert len(ran.replaced) == 3


def test_an_embedding_with_momentum_is_updated_without_a_copy(tmp_path):
    def build():
        w, m = variable("w"), variable("mm")
        rows, old = some_rows(low_gradient(w)), m.read_value()
        with after(old):
            decayed = m.assign(old * 0.9, read_value=False)
        with after(decayed):
            grown = add_rows(m, rows)
        with after(grown):
            return [w.assign_add(m.read_value(), read_value=False), grown]

    ran = assert_same_updates(build, tmp_path)
    assert ran.replaced == ["AssignAddVariableOp", "AssignVariableOp"]


def test_a_read_that_is_fetched_yields_the_value_of_before(tmp_path):
    def build():
        w, m = variable("w"), variable("mm")
        rows = some_rows(low_gradient(w))
        old = m.read_value()
        with after(old):
            decayed = m.assign_sub(old * 0.1, read_value=False)
        with after(decayed):
            return [old, add_rows(m, rows)]

    assert assert_same_updates(build, tmp_path).replaced == ["AssignSubVariableOp"]


def test_what_is_written_before_the_update_may_be_too_late_for_it(tmp_path):
    def build():
        w, m = variable("w"), variable("mm")
        grown = add_rows(m, some_rows(low_gradient(w)))
        with after(grown):
            old = m.read_value()
        change = old * 0.3
        decayed = m.assign_sub(old * 0.5, read_value=False)
        with after(decayed):
            return [w.assign_sub(change, read_value=False), grown]

    assert assert_same_updates(build, tmp_path).replaced == ["AssignSubVariableOp"] * 2


def test_the_gradient_may_be_float32(tmp_path):
    def build():
        w = variable("w")
        gradient = tf.exp(-tf.abs(tf1.placeholder(tf.float32, SHAPE, name="x")))
        return w.assign_sub(gradient * 0.1, read_value=False)

    ran = assert_same_updates(build, tmp_path, feeds={"x": numbers(1)})
    assert ran.replaced == ["AssignSubVariableOp"]


def overwritten():
    w = variable("w")
    old = w.read_value()
    gradient = low_gradient(w)
    with tf.control_dependencies([old, gradient]):
        reset = w.assign(tf.ones(SHAPE), read_value=False)
    with after(reset):  # reads the ones, but `old` is from before
        return w.assign_sub((old + gradient) * 0.1, read_value=False)


def scattered():
    w = variable("w")
    old, gradient = w.read_value(), low_gradient(w)
    with tf.control_dependencies([old, gradient]):
        reset = tf.raw_ops.ResourceScatterUpdate(
            resource=w.handle, indices=[0], updates=tf.zeros([1, SHAPE[1]])
        )
    with after(reset):
        return w.assign_sub((old + gradient) * 0.1, read_value=False)


def unordered():
    w = variable("w")
    gradient = low_gradient(w)
    with after(gradient):
        first = w.assign_sub(gradient * 0.1, read_value=False)
    with after(first):
        between = tf.identity(0.5)
    with after(between):
        return w.assign_sub(gradient * 0.2, read_value=False)


def of_a_branch():
    w = variable("w")
    gradient = low_gradient(w)
    step = tf.cond(
        tf1.placeholder_with_default(True, []),
        lambda: w.assign_sub(gradient * 0.1, read_value=True) + 0.0,
        lambda: tf.zeros(SHAPE),
    )
    with after(step):
        return w.assign_add(w.read_value() * 0.1, read_value=False)


REFUSED = {
    "another node writes the variable in between": overwritten,
    "another kind of op writes a part of it in between": scattered,
    "no edge tells which update comes first": unordered,
    "one of them is in a branch": of_a_branch,
}


@pytest.mark.parametrize("case", REFUSED)
def test_updates_that_one_sweep_cannot_do_stay_right(case, tmp_path):
    assert_same_updates(REFUSED[case], tmp_path)


LEFT = {
    "a variable may not exist yet": lambda: tf1.get_variable(
        "w", initializer=tf.random.uniform(SHAPE, seed=3) * 2.0 - 1.0, use_resource=True
    ).read_value(),
    "a variable of one number": lambda: variable("w", []).assign_add(0.5, read_value=False),
    "an unknown shape": lambda: variable("w").assign_sub(
        tf1.placeholder(tf.float32, None, name="x") * 0.1, read_value=False
    ),
    "a value that is copied": lambda: variable("w").assign_add(
        tf1.placeholder(tf.float32, SHAPE, name="x"), read_value=False
    ),
    "a term of each row": lambda: variable("w").assign_add(
        variable("row", SHAPE[1:]).read_value() * tf1.placeholder(tf.float32, SHAPE, name="x"),
        read_value=False,
    ),
}


@pytest.mark.parametrize("case", LEFT)
def test_what_is_no_update_of_this_form_stays(case, tmp_path):
    graph = tf.Graph()
    with graph.as_default():
        LEFT[case]()
    needs = any(node.name == "x" for node in graph.as_graph_def().node)
    ran = assert_same_updates(LEFT[case], tmp_path, feeds={"x": numbers(1)} if needs else None)
    assert ran.replaced == []


def some_rows(value):
    """What add_rows() adds, made before what it waits for."""
    return {"indices": tf.constant([2, 30, 2]), "updates": value[:3] * 0.1}


def add_rows(target, rows):
    """Adds to some rows, as the update of an embedding does."""
    return tf.raw_ops.ResourceScatterAdd(resource=target.handle, **rows)


def random_step(random):
    """Some updates of three variables, from what was read before or after others of them."""
    variables = [variable("v" * (k + 1)) for k in range(3)]
    gradient = low_gradient(variables[0])
    values = [gradient, *(each.read_value() for each in variables)]
    fetched, last = [], list(values)

    def term():
        chosen = values[random.integers(len(values))]
        other = values[random.integers(len(values))]
        kind = random.integers(6)
        if kind == 0:
            return chosen + other
        if kind == 1:
            return chosen - 0.3 * other
        if kind == 2:
            return chosen * tf.constant(random.normal(), tf.float32)
        if kind == 3:
            return tf.sqrt(tf.square(chosen))
        return -chosen / (1.0 + tf.square(other)) if kind == 4 else tf.identity(other)

    for _ in range(random.integers(2, 6)):
        values.append(0.5 * term())
        rows = some_rows(values[-1])
        target = variables[random.integers(3)]
        kind = random.integers(4)
        assign = [target.assign, target.assign_add, target.assign_sub][kind % 3]
        with tf.control_dependencies(last):
            if kind == 3:
                update = add_rows(target, rows)
            else:
                update = assign(values[-1], read_value=False)
        fetched.append(update)
        with after(update):
            values.append(variables[random.integers(3)].read_value())
        last = [update, values[-1]]
    if random.integers(2):
        fetched.append(tf.reduce_sum(values[-1]))
    return fetched


def random_graph(seed):
    return lambda: random_step(np.random.default_rng(seed))


@pytest.mark.parametrize("seed", range(RANDOM_GRAPHS))
def test_random_updates_leave_the_same_values(seed, tmp_path):
    assert_same_updates(random_graph(seed), tmp_path, steps=2)


def test_random_updates_are_fused(tmp_path):
    replaced = [run_updates(random_graph(seed), tmp_path).replaced for seed in range(20)]
    assert sum(map(bool, replaced)) > 5
