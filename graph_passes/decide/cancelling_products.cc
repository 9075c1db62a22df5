#include "graph_passes/decide/cancelling_products.h"

#include "graph_passes/analysis/cancelling_terms.h"
#include "graph_passes/analysis/linear_paths.h"

namespace npu_precision {

std::vector<KeptGroup> CancellingProducts(const GraphView& view, const ConstantValues& values,
                                          const DecideContext& context,
                                          const std::vector<bool>& ends_path) {
  std::vector<KeptGroup> keeps;
  std::vector<bool> is_kept(view.size(), false);
  const auto keep = [&](int id, int cause) {
    for (int g = 0; g < view.num_groups(id) && !is_kept[id]; ++g) {
      keeps.push_back({view.first_group(id) + g, Reason::kBeforeMagnifier, cause});
    }
    is_kept[id] = true;
  };
  const LinearPaths paths(view, values, context.elements, ends_path);
  for (const CancellingTerms& terms : FindCancellingTerms(view, values, paths, ends_path)) {
    for (int id : terms.nodes) keep(id, terms.sum);
  }
  return keeps;
}

}  // namespace npu_precision
