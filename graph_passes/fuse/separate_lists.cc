#include "graph_passes/fuse/separate_lists.h"

#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph_passes/fuse/fusion_site.h"
#include "graph_passes/graph/op_set.h"
#include "graph_passes/rewrite/unique_names.h"
#include "tensorflow/core/framework/attr_value.pb.h"

namespace npu_precision {
namespace {

using tensorflow::NodeDef;

constexpr char kPass[] = "separate_lists";

bool MakesEmptyList(const std::string& op) {
  return op == "EmptyTensorList" || op == "TensorListReserve";
}

bool HasElementsOfFloat32(const NodeDef& node) {
  const auto dtype = node.attr().find("element_dtype");
  return dtype != node.attr().end() && dtype->second.type() == tensorflow::DT_FLOAT;
}

// By name: the order of nodes must not matter.
template <typename Readers>
std::vector<InputPort> Sorted(const GraphView& view, const Readers& readers) {
  std::vector<InputPort> sorted(readers.begin(), readers.end());
  std::sort(sorted.begin(), sorted.end(), [&](const InputPort& a, const InputPort& b) {
    return std::tie(view.node(a.node).name(), a.index) <
           std::tie(view.node(b.node).name(), b.index);
  });
  return sorted;
}

}  // namespace

tensorflow::Status SeparateLists(PassState* state, bool* changed) {
  *changed = false;
  const GraphView& view = state->view();
  const OpSet lists(view, MakesEmptyList);
  if (lists.IsEmpty()) return tensorflow::Status();
  const FusionSite site(*state, FusionSite::Devices::kCpusAndGpus);
  UniqueNames names(view);
  for (int id : lists.Ids()) {
    const std::vector<InputPort> readers = Sorted(view, view.fanout(id));
    if (readers.size() < 2 || !HasElementsOfFloat32(view.node(id)) || !site.MayChange(id)) continue;
    for (size_t k = 1; k < readers.size(); ++k) {
      NodeDef own = view.node(id);
      own.set_name(names.Take(absl::StrCat(view.node(id).name(), "/npu_of_reader")));
      tensorflow::GraphDef* graph = state->Copied();
      graph->mutable_node(readers[k].node)->set_input(readers[k].index, own.name());
      state->rewrites.push_back(
          {kPass, own.name(), view.node(id).name(), view.node(readers[k].node).name()});
      graph->add_node()->Swap(&own);
    }
    *changed = true;
  }
  return tensorflow::Status();
}

}  // namespace npu_precision
