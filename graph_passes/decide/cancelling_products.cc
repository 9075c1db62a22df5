#include "graph_passes/decide/cancelling_products.h"

#include "graph_passes/analysis/cancelling_terms.h"
#include "graph_passes/analysis/linear_paths.h"
#include "graph_passes/analysis/zero_sum_weights.h"

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
  for (const ZeroSumProduct& found : ZeroSumProducts(view, values, paths)) {
    const bool is_fed = context.fed.count(view.node(found.weights).name()) != 0;
    if (is_fed || ends_path[found.product]) continue;
    std::vector<int> nodes = {found.product};
    for (const OutputPort& operand : view.fanin(found.product)) paths.AddOffsets(operand, &nodes);
    for (int id : nodes) keep(id, found.weights);
  }
  return keeps;
}

}  // namespace npu_precision
