"""The op types of the random graphs, with a maker for each op or group of similar ops.

A maker takes operands from the builder, adds a node (and the Consts it needs) and states the
interval of the result. It raises UnfitError where the graph has no operands for it.
"""

from support.random_ops import (
    contractions,
    control_flow,
    elementwise,
    functions,
    handles,
    movement,
    other_types,
    reductions,
    sources,
)

MAKERS = {
    **sources.MAKERS,
    **elementwise.MAKERS,
    **contractions.MAKERS,
    **reductions.MAKERS,
    **movement.MAKERS,
    **other_types.MAKERS,
}
# Makers that are drawn three times as often: the ops that modes change, and conversions of types.
COMMON = ["matmul", "conv2d", "batch_matmul", "batch_norm", "cast", "compare", "select"]

# Only some graphs have these. Bodies of loops have loops and branches, too.
CONTROL_FLOW = {**MAKERS, **handles.MAKERS}
IN_BODIES = [*MAKERS, *COMMON * 2, *["branch", "loop"] * 5, *handles.MAKERS, "call"]
CONTROL_FLOW["loop"] = control_flow.loop_maker(CONTROL_FLOW, IN_BODIES)
CONTROL_FLOW.update(functions.makers(CONTROL_FLOW, IN_BODIES))
