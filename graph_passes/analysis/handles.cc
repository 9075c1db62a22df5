#include "graph_passes/analysis/handles.h"

#include <map>
#include <unordered_map>
#include <unordered_set>

#include "graph_passes/graph/op_set.h"
#include "graph_passes/graph/op_traits.h"
#include "graph_passes/graph/union_find.h"
#include "tensorflow/core/framework/types.pb.h"

namespace npu_precision {
namespace {

using Names = std::unordered_set<std::string>;

// The op uses a handle but has no dtype of its own. The gradient of a TensorArray has its dtype.
bool IsIndifferent(const std::string& op) {
  static const auto* names =
      new Names{"TensorListElementShape", "TensorListLength",  "TensorListResize",
                "TensorArrayCloseV3",     "TensorArrayGradV3", "TensorArrayGradWithShape",
                "TensorArraySizeV3",      "StackCloseV2"};
  return names->count(op) != 0;
}

// The op forwards a handle, or makes another with the same element dtype.
bool ForwardsHandle(const std::string& op) {
  static const auto* names = new Names{"AddN",         "Enter",           "Exit",     "Identity",
                                       "Merge",        "NextIteration",   "Switch",   "_SwitchN",
                                       "StopGradient", "PreventGradient", "Snapshot", "ZerosLike"};
  return names->count(op) != 0;
}

// The op moves handles that are packed in a tensor. All of the handles count as one, because a
// reader of the tensor may read any of them.
bool MovesHandles(const std::string& op) {
  static const auto* names =
      new Names{"BroadcastTo", "Fill",   "Gather",       "GatherV2", "Pack",      "Reshape",
                "Split",       "SplitV", "StridedSlice", "Tile",     "Transpose", "Unpack"};
  return names->count(op) != 0;
}

bool Adds(const std::string& op) {
  return op == "AddN" || op == "TensorArrayGradV3" || op == "TensorArrayGradWithShape";
}

bool IsHandle(tensorflow::DataType dtype) {
  return dtype == tensorflow::DT_RESOURCE || dtype == tensorflow::DT_VARIANT;
}

class Finder {
 public:
  Finder(const GraphView& view, const std::set<std::string>& fetched,
         const std::set<std::string>& fed)
      : view_(view), fetched_(fetched), fed_(fed), first_output_(view.size() + 1, 0) {
    for (int id = 0; id < view.size(); ++id) {
      first_output_[id + 1] = first_output_[id] + view.num_outputs(id);
    }
    // After the tensors comes one member for each node, which stands for all handles of the op.
    tensors_ = UnionFind(first_output_.back() + view.size());
    leaves_.assign(first_output_.back() + view.size(), false);
    adds_ = leaves_;
  }

  std::vector<Handle> Run() {
    for (int id = 0; id < view_.size(); ++id) JoinHandlesOf(id);
    std::map<int, Handle> handles;
    for (int id = 0; id < view_.size(); ++id) {
      const int group = ElementGroup(id);
      if (group != kNoGroup) handles[tensors_.Find(MemberOf(id))].groups.push_back(group);
    }
    for (size_t member = 0; member < leaves_.size(); ++member) {
      if (!leaves_[member] && !adds_[member]) continue;
      const auto handle = handles.find(tensors_.Find(static_cast<int>(member)));
      if (handle == handles.end()) continue;
      handle->second.leaves_graph |= leaves_[member];
      handle->second.adds |= adds_[member];
    }
    std::vector<Handle> found;
    for (auto& entry : handles) found.push_back(std::move(entry.second));
    return found;
  }

 private:
  int MemberOf(int id) const { return first_output_.back() + id; }
  int MemberOf(const OutputPort& tensor) const { return first_output_[tensor.node] + tensor.port; }

  int ElementGroup(int id) const {
    const std::string* element = ElementDtypeAttribute(view_.node(id).op());
    if (element == nullptr || view_.op_def(id) == nullptr) return kNoGroup;
    for (int g = 0; g < view_.num_groups(id); ++g) {
      const auto& attr = view_.op_def(id)->attr(view_.groups(id)[g].attr);
      if (attr.name() == *element) return view_.first_group(id) + g;
    }
    return kNoGroup;
  }

  tensorflow::DataType DtypeRead(int id, int input) const {
    return view_.op_def(id) == nullptr ? view_.dtype(view_.fanin(id)[input])
                                       : view_.inputs(id)[input].dtype;
  }

  // Joins the handles that an op reads and yields, if the effect of the op on them is known.
  void JoinHandlesOf(int id) {
    const std::string& op = view_.node(id).op();
    const std::string& name = view_.node(id).name();
    if (op == "IdentityN") return JoinEach(id);
    adds_[MemberOf(id)] = Adds(op);
    const bool knows_elements = HasElementDtype(op) || IsIndifferent(op);
    const bool known =
        view_.op_def(id) != nullptr && (knows_elements || ForwardsHandle(op) || MovesHandles(op));
    // A handle that is itself an element is not traced further.
    const auto is_element = [=](int group) { return knows_elements && group != kFixedDtype; };
    for (int k = 0; k < view_.num_fanin(id); ++k) {
      const OutputPort tensor = view_.fanin(id)[k];
      if (!IsHandle(DtypeRead(id, k))) continue;
      if (view_.op_def(tensor.node) == nullptr) {
        leaves_[MemberOf(id)] = true;
        continue;
      }
      Use(id, MemberOf(tensor), known && !is_element(view_.inputs(id)[k].group));
    }
    const bool fed = fed_.count(name) != 0;
    const bool seen = fed || fetched_.count(name) != 0;
    for (int p = 0; p < view_.num_outputs(id); ++p) {
      const Port& output = view_.outputs(id)[p];
      if (!IsHandle(output.dtype)) continue;
      Use(id, MemberOf({id, p}), known && !is_element(output.group));
      if (seen) leaves_[MemberOf({id, p})] = true;
    }
    // A fed handle keeps its dtype.
    if (fed) leaves_[MemberOf(id)] = true;
  }

  void Use(int id, int tensor, bool is_traced) {
    if (is_traced) {
      tensors_.Join(MemberOf(id), tensor);
    } else {
      leaves_[tensor] = true;
    }
  }

  // An IdentityN forwards each input as the output of the same number.
  void JoinEach(int id) {
    const std::string& name = view_.node(id).name();
    const bool seen = fed_.count(name) != 0 || fetched_.count(name) != 0;
    for (int k = 0; k < view_.num_fanin(id); ++k) {
      const OutputPort tensor = view_.fanin(id)[k];
      if (!IsHandle(DtypeRead(id, k))) continue;
      if (view_.op_def(tensor.node) == nullptr) {
        leaves_[MemberOf({id, k})] = true;
        continue;
      }
      tensors_.Join(MemberOf(tensor), MemberOf({id, k}));
      if (seen) leaves_[MemberOf(tensor)] = true;
    }
  }

  const GraphView& view_;
  const std::set<std::string>& fetched_;
  const std::set<std::string>& fed_;
  std::vector<int> first_output_;
  UnionFind tensors_;
  std::vector<bool> leaves_, adds_;
};

}  // namespace

std::vector<Handle> FindHandles(const GraphView& view, const std::set<std::string>& fetched,
                                const std::set<std::string>& fed) {
  if (OpSet(view, HasElementDtype).IsEmpty()) return {};
  return Finder(view, fetched, fed).Run();
}

}  // namespace npu_precision
