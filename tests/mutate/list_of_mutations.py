"""The list of all mutations, from the files of_*.py."""

from __future__ import annotations

from mutate import (
    of_activations,
    of_batch_norms,
    of_cancelling,
    of_casts,
    of_close_differences,
    of_decide,
    of_flat_products,
    of_flight,
    of_fold_scales,
    of_fuse,
    of_graph,
    of_guard,
    of_keep_rules,
    of_lists,
    of_loops,
    of_loss_scaling,
    of_rewrite,
    of_shell,
    of_sums_and_offsets,
    of_whole_numbers,
)

MUTATIONS = (
    *of_graph.MUTATIONS,
    *of_lists.MUTATIONS,
    *of_decide.MUTATIONS,
    *of_keep_rules.MUTATIONS,
    *of_sums_and_offsets.MUTATIONS,
    *of_whole_numbers.MUTATIONS,
    *of_activations.MUTATIONS,
    *of_loops.MUTATIONS,
    *of_batch_norms.MUTATIONS,
    *of_cancelling.MUTATIONS,
    *of_casts.MUTATIONS,
    *of_close_differences.MUTATIONS,
    *of_flat_products.MUTATIONS,
    *of_rewrite.MUTATIONS,
    *of_shell.MUTATIONS,
    *of_flight.MUTATIONS,
    *of_fold_scales.MUTATIONS,
    *of_fuse.MUTATIONS,
    *of_guard.MUTATIONS,
    *of_loss_scaling.MUTATIONS,
)
