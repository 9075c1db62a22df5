// The gradient of a batch norm in training: see trained_norm_form.h.
#ifndef NPU_PRECISION_GRAPH_PASSES_FUSE_TRAINED_NORM_GRADIENT_H_
#define NPU_PRECISION_GRAPH_PASSES_FUSE_TRAINED_NORM_GRADIENT_H_

#include "graph_passes/fuse/fusion_site.h"
#include "graph_passes/fuse/norm_algebra.h"
#include "graph_passes/fuse/trained_norm_form.h"
#include "graph_passes/graph/graph_view.h"

namespace npu_precision {

// Fills the gradient of `norm`, whose forward pass is known, if there is one. `forward` has
// evaluated that.
void ReadGradient(const GraphView& view, const FusionSite& site, NormAlgebra* forward,
                  TrainedNorm* norm);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_FUSE_TRAINED_NORM_GRADIENT_H_
