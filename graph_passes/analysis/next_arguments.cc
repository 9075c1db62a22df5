#include "graph_passes/analysis/next_arguments.h"

#include <algorithm>
#include <string>

#include "graph_passes/graph/op_traits.h"
#include "tensorflow/core/framework/attr_value.pb.h"

namespace npu_precision {

std::vector<int> ArgumentsOf(const GraphView& view) {
  std::vector<int> arguments, placeholders;
  for (int id = 0; id < view.size(); ++id) {
    if (IsArgument(view.node(id).op())) arguments.push_back(id);
    if (view.node(id).op() == "Placeholder") placeholders.push_back(id);
  }
  if (arguments.empty()) return placeholders;
  std::stable_sort(arguments.begin(), arguments.end(),
                   [&view](int a, int b) { return PlaceOf(view, a) < PlaceOf(view, b); });
  return arguments;
}

std::vector<int> NextArguments(const GraphView& view) {
  const std::vector<int> arguments = ArgumentsOf(view);
  std::vector<int> next(view.size(), kNoArgument);
  for (int id = 0; id < view.size(); ++id) {
    if (!IsResult(view.node(id).op())) continue;
    const int place = PlaceOf(view, id);
    if (place >= 0 && place < static_cast<int>(arguments.size())) next[id] = arguments[place];
  }
  return next;
}

int PlaceOf(const GraphView& view, int id) {
  const auto index = view.node(id).attr().find("index");
  return index == view.node(id).attr().end() ? -1 : static_cast<int>(index->second.i());
}

}  // namespace npu_precision
