"""Mutations of what updates variables in one sweep."""

from __future__ import annotations

from mutate.mutation import mutations_of

_STOCK = "passes/test_fused_updates.py"
_WRITTEN = "passes/test_written_updates.py"
_OP = "session/test_update_op.py"
_KERAS = "session/test_keras_updates.py"

_writer = mutations_of("graph_passes/fuse/fused_updates.cc")
_group = mutations_of("graph_passes/fuse/update_group.cc")
_expression = mutations_of("graph_passes/fuse/update_expression.cc")
_stock = mutations_of("graph_passes/fuse/stock_updates.cc")
_program = mutations_of("graph_passes/graph/update_program.cc")
_op = mutations_of("cc/update_op.cc")
_blocks = mutations_of("cc/update_blocks.cc")
_plan = mutations_of("cc/update_plan.cc")
_written = mutations_of("graph_passes/fuse/written_updates.cc")
_optimizer = mutations_of("cc/npu_optimizer.cc")

MUTATIONS = (
    _writer(
        "name",
        "absl::Hex(tensorflow::Hash64(absl::StrCat(op, builder.Text())))",
        '"x"',
        "A session runs the kernel of another update.",
        f"{_STOCK}::test_a_session_may_run_other_updates_of_the_same_name",
    ),
    _writer(
        "float32",
        "if (!reads_low) return;",
        "",
        "A training op of TensorFlow is replaced for nothing.",
        f"{_STOCK}::test_a_training_op_with_a_float32_gradient_stays",
    ),
    _group(
        "exists",
        "} else if (!Exists(update)) {",
        "} else if (false) {",
        "The op asks for a variable that an initializer is about to make.",
        f"{_WRITTEN}::test_what_is_no_update_of_this_form_stays",
    ),
    _group(
        "needs_itself",
        "return !NeedsItself(made_one);",
        "return true;",
        "One op would need a norm of what it writes.",
        f"{_WRITTEN}::test_an_update_that_needs_a_norm_of_the_one_before_stays_behind_it",
    ),
    _expression(
        "made_one",
        "for (int other : others->second) visit(other);",
        "",
        "Two groups wait for each other.",
        f"{_WRITTEN}::test_groups_that_need_each_other_are_not_both_fused",
    ),
    _expression(
        "broadcast",
        "return of_input.dims() == 0 || of_input.IsIdenticalTo(shape);",
        "return true;",
        "A row is taken for a whole matrix.",
        f"{_WRITTEN}::test_what_is_no_update_of_this_form_stays",
    ),
    _stock(
        "nesterov",
        "step = to->Add(to->Mul(gradient, rate), ahead);",
        "step = ahead;",
        "Nesterov's momentum lacks the gradient.",
        f"{_STOCK}::test_a_training_op_reads_the_low_gradient_and_computes_the_same",
    ),
    _program(
        "late",
        "if (!fits || is_late) return false;",
        "if (!fits) return false;",
        "A step may read what was stored.",
        f"{_OP}::test_a_program_that_is_none_is_an_error",
    ),
    _op(
        "own_buffer",
        "if (IsOnlyReader(*tensor)) return Status();",
        "if (tensor->IsInitialized()) return Status();",
        "A value that was read changes afterwards.",
        f"{_OP}::test_a_value_that_was_handed_out_does_not_change",
    ),
    _blocks(
        "swap",
        "if (count == kBlock && !copies) return from;",
        "if (count == kBlock) return from;",
        "Two variables do not change places, but become equal.",
        f"{_OP}::test_two_variables_can_change_places",
    ),
    _plan(
        "at_once",
        "if (is_of_before && last_[pass.value] > maker.value) return;",
        "",
        "A variable is written while its value of before is still needed.",
        f"{_OP}::test_any_program_computes_what_its_steps_say",
    ),
    _plan(
        "slots",
        "if (last_[value] != number || is_uniform_[value] || slot == kNowhere) continue;",
        "if (is_uniform_[value] || slot == kNowhere) continue;",
        "A value is overwritten before its last reader.",
        f"{_OP}::test_any_program_computes_what_its_steps_say",
    ),
    _blocks(
        "one_variable",
        "const int64_t whole = Overlap(inputs.variables) ? 0 :",
        "const int64_t whole =",
        "Two variables that are one overwrite each other's values of before.",
        f"{_OP}::test_any_program_computes_what_its_steps_say",
    ),
    _group(
        "last",
        "const bool is_last = next == updates_.end() && HasElements(read.node);",
        "const bool is_last = HasElements(read.node);",
        "An update reads what is written after the read that it replaces.",
        f"{_WRITTEN}::test_what_is_written_before_the_update_may_be_too_late_for_it",
    ),
    _group(
        "copies",
        "if (taken_.empty() && !SparesCopies()) return false;",
        "if (taken_.empty()) return false;",
        "The momentum of an embedding is copied before it is added.",
        f"{_WRITTEN}::test_an_embedding_with_momentum_is_updated_without_a_copy",
    ),
    _group(
        "unread",
        "} else if (expressions_.IsReadOnlyBy(read.first, inside)) {",
        "} else if (false) {",
        "The table of an embedding is copied several times in each step.",
        f"{_KERAS}::test_a_table_is_not_copied_by_reads_that_nobody_needs",
    ),
    _written(
        "rows",
        "if (updates[k].is_whole && updates[earlier].is_whole) {",
        "if (updates[earlier].node >= 0) {",
        "What writes single rows is taken for an update of all.",
        f"{_WRITTEN}::test_an_embedding_is_updated_in_whole_sweeps",
    ),
    _optimizer(
        "other_processes",
        "const KernelSupport kernels(HasGpu(cluster), RunsHere(cluster), RunsHereOnly(cluster),",
        "const KernelSupport kernels(HasGpu(cluster), RunsHere(cluster), RunsHere(cluster),",
        "A parameter server gets an op that it may not know.",
        "training/test_parameter_server.py",
    ),
)
