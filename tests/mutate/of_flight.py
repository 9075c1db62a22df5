"""Mutations of the flight recorder's watch."""

from __future__ import annotations

from mutate.mutation import mutations_of

_TENSORS = "flight/test_recorded_tensors.py"
_SELECTED = "flight/test_recorder_selection.py"

_watch_pass = mutations_of("cc/watch_pass.cc")
_watch_op = mutations_of("cc/watch_op.cc")
_flight_store = mutations_of("cc/flight_store.cc")
_tensor_counts = mutations_of("cc/tensor_counts.cc")
_watched_tensors = mutations_of("graph_passes/analysis/watched_tensors.cc")
_tensor_watch = mutations_of("npu_precision/flight/tensor_watch.py")

MUTATIONS = (
    _watch_pass(
        "low_type",
        "tensor.low_type = is_rounded ? rounding.front()->output_type(0) : dtype;",
        "tensor.low_type = dtype;",
        "What is rounded counts by float32's range.",
        f"{_TENSORS}::test_what_is_rounded_is_counted_as_numpy_counts_it",
    ),
    _watch_pass(
        "group",
        "OptimizationPassRegistry::POST_PARTITIONING, 1000, WatchPass",
        "OptimizationPassRegistry::POST_PLACEMENT, 1000, WatchPass",
        "Nothing is watched: before the partitions there are none.",
        f"{_TENSORS}::test_one_in_n_runs_of_a_function_is_recorded",
    ),
    _watch_pass(
        "loop",
        "if (!loop.empty()) tensor.loop",
        'if (loop == "none") tensor.loop',
        "Iterations of a loop are not told apart.",
        f"{_TENSORS}::test_in_a_loop_an_earlier_iteration_comes_before_an_earlier_op",
    ),
    _watch_pass(
        "readers",
        "AddReaders(rounding, &tensor.readers);",
        "",
        "Nothing says who reads what is rounded.",
        f"{_TENSORS}",
        "guard/test_keras_training.py",
    ),
    _watch_pass(
        "movers",
        "if (PassesValues(reader->type_string())) {",
        'if (reader->type_string() == "Cast") {',
        "A Reshape is to be kept rather than the product behind it.",
        f"{_TENSORS}::test_the_readers_of_what_is_rounded_are_those_that_compute_from_it",
    ),
    _watch_pass(
        "seen",
        "!seen.insert(reader).second",
        "seen.count(reader) != 0",
        "A node that reads a tensor twice is its reader twice, and a loop never ends.",
        f"{_TENSORS}::test_the_readers_of_what_is_rounded_are_those_that_compute_from_it",
    ),
    _watch_pass(
        "reads_only",
        "if (!Computes(watched)) continue;",
        "",
        "Graphs of TensorFlow's own that only hand on are recorded.",
        f"{_TENSORS}",
    ),
    _watch_op(
        "last_that_fits",
        "return {kInfinity, 0x477fefff, 0x38800000};",
        "return {kInfinity, 0x477fe000, 0x38800000};",
        "Floats that round down to float16's largest number count as over.",
        f"{_TENSORS}::test_what_is_rounded_is_counted_as_numpy_counts_it",
    ),
    _watch_op(
        "first_normal",
        "return {kInfinity, 0x7f7f7fff, kFirstNormal};",
        "return {kInfinity, 0x7f7f7fff, 0x38800000};",
        "What bfloat16 has counts as under it.",
        f"{_TENSORS}::test_what_is_rounded_is_counted_as_numpy_counts_it",
    ),
    _watch_op(
        "zeros",
        "counts.under += small - zeros;",
        "counts.under += small;",
        "Zeros count as under the range.",
        f"{_TENSORS}::test_what_is_rounded_is_counted_as_numpy_counts_it",
    ),
    _watch_op(
        "infinities",
        "over - infinities - nans;",
        "over;",
        "An infinity is also a finite value that overflows.",
        f"{_TENSORS}::test_what_is_rounded_is_counted_as_numpy_counts_it",
    ),
    _watch_op(
        "block",
        "kBlock = 1 << 14;",
        "kBlock = 1 << 20;",
        "16-bit counts overflow in large tensors.",
        f"{_TENSORS}::test_large_tensors_are_counted_to_the_last_element",
    ),
    _watch_op(
        "iteration",
        "context->frame_iter().iter_id));",
        "0));",
        "All iterations of a loop are the first.",
        f"{_TENSORS}::test_a_loop_is_seen_with_the_iteration_in_which_a_value_left_the_range",
    ),
    _flight_store(
        "every_n_steps",
        "(number - selection_->first) % selection_->every_n_steps != 0) {",
        "(number - selection_->first) % selection_->every_n_steps == 1) {",
        "Steps in between are recorded.",
        f"{_TENSORS}::test_one_in_n_runs_of_a_function_is_recorded",
    ),
    _flight_store(
        "first_step",
        "number >= selection_->first &&",
        "",
        "Steps before the range are recorded.",
        f"{_SELECTED}::test_the_steps_of_a_range_are_recorded",
    ),
    _flight_store(
        "before",
        "before != selection_->before.end() ? before->second : 0;",
        "0;",
        "Another watch that took over moves the range.",
        f"{_SELECTED}::test_the_range_goes_on_after_another_watch_took_over",
    ),
    _flight_store(
        "scopes",
        'absl::StrCat("/", scope, "/")',
        "scope",
        "A part of a part of a name is a scope.",
        f"{_SELECTED}::test_a_scope_that_is_a_part_of_a_name_alone_has_no_tensor",
    ),
    _flight_store(
        "deviation",
        "counts.statistics.squares / counts.Finite() - mean * mean;",
        "counts.statistics.squares / counts.Finite();",
        "The standard deviation is not that from the mean.",
        f"{_SELECTED}::test_statistics_are_those_of_numpy_over_finite_values",
    ),
    _flight_store(
        "stops",
        "if (!selection_->stops || fault == Fault::kNone) continue;",
        "if (fault == Fault::kNone) continue;",
        "A recorder stops steps without being asked.",
        f"{_SELECTED}::test_a_recorder_without_a_stop_is_not_stopped_by_an_earlier_one",
    ),
    _watch_op(
        "finite",
        "if (!std::isfinite(value)) continue;",
        "",
        "An infinity is in the statistics.",
        f"{_SELECTED}::test_statistics_are_those_of_numpy_over_finite_values",
    ),
    _watch_pass(
        "wait",
        "graph->AddControlEdge(watch, reader);",
        "",
        "What reads an infinity may fail first.",
        f"{_SELECTED}::test_a_step_stops_where_the_first_value_is_not_finite",
    ),
    _tensor_counts(
        "first_iteration",
        "if (first_iteration < 0 || iteration < first_iteration) {",
        "if (first_iteration < 0 || iteration > first_iteration) {",
        "The last iteration with a fault counts, not the first.",
        f"{_TENSORS}::test_a_loop_is_seen_with_the_iteration_in_which_a_value_left_the_range",
    ),
    _flight_store(
        "recent",
        "if (std::find(recent_.begin(), recent_.end(), step_id) != recent_.end()) return false;",
        "",
        "Each op of a step that is not recorded counts as another step.",
        f"{_TENSORS}::test_runs_in_several_threads_are_told_apart",
    ),
    _flight_store(
        "memory",
        "if (done_.size() < most) {",
        "if (true) {",
        "Steps that nobody takes need memory without end.",
        f"{_TENSORS}::test_steps_that_find_no_memory_are_counted",
    ),
    _flight_store(
        "closed",
        "void FlightStore::Close() { watch_ = Watch::kNothing; }",
        "void FlightStore::Close() {}",
        "What ran in a watch is counted after it, too.",
        f"{_TENSORS}::test_steps_that_find_no_memory_are_counted",
    ),
    _flight_store(
        "numbered_anew",
        "steps_ = before != selection_->before.end() ? before->second : 0;",
        "",
        "Steps are numbered from an earlier recording on.",
        f"{_TENSORS}",
    ),
    _watched_tensors(
        "casts",
        "if (PassesValues(op)) return false;",
        "if (SelectsValues(op)) return false;",
        "A Cast of a lowered tensor is watched besides its input.",
        f"{_TENSORS}",
    ),
    _watched_tensors(
        "sources",
        "return IsLowType(dtype) && !IsNeutralSource(op);",
        "return IsLowType(dtype);",
        "What the graph reads is watched as if it were computed in the low type.",
        f"{_TENSORS}::test_what_the_graph_reads_in_a_low_type_is_watched_by_all_only",
    ),
    _watched_tensors(
        "all",
        "return IsLowType(dtype) || dtype == tensorflow::DT_FLOAT;",
        "return IsLowType(dtype);",
        'watch="all" does not see what keeps float32.',
        f"{_TENSORS}::test_all_also_watches_what_keeps_float32",
    ),
    _tensor_watch(
        "order",
        'return tensor.loop, int(self.counts["iteration"][index]), tensor.place',
        "return tensor.place, 0, 0",
        "In a loop, an op of a later iteration may be blamed.",
        f"{_TENSORS}::test_in_a_loop_an_earlier_iteration_comes_before_an_earlier_op",
    ),
)
