#include "graph_passes/rewrite/compute_in_float32.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "graph_passes/decide/compute_dtypes.h"
#include "graph_passes/graph/control_inputs.h"
#include "graph_passes/graph/float_values.h"
#include "graph_passes/graph/low_types.h"
#include "graph_passes/graph/marks.h"
#include "graph_passes/rewrite/constants.h"
#include "graph_passes/rewrite/raise_groups.h"
#include "tensorflow/core/framework/attr_value.pb.h"
#include "tensorflow/core/framework/tensor.pb.h"
#include "tensorflow/core/framework/tensor_util.h"

namespace npu_precision {
namespace {

using tensorflow::DataType;
using tensorflow::TensorProto;

constexpr char kSuffix[] = "npu_rounded";

// Returns true, and fills `to`, if rounding to `low` changes a value of the float32 tensor.
bool RoundThrough(DataType low, const FloatValues& from, const TensorProto& like, TensorProto* to) {
  std::string content(from.size() * sizeof(float), '\0');
  bool changes = false;
  for (int64_t i = 0; i < from.size(); ++i) {
    const float value = from[i];
    const float rounded = RoundedTo(low, value);
    changes |= std::memcmp(&value, &rounded, sizeof(value)) != 0;
    std::memcpy(&content[i * sizeof(rounded)], &rounded, sizeof(rounded));
  }
  if (!changes) return false;
  to->set_dtype(tensorflow::DT_FLOAT);
  *to->mutable_tensor_shape() = like.tensor_shape();
  to->mutable_tensor_content()->swap(content);
  tensorflow::tensor::CompressTensorProtoInPlace(to);
  return true;
}

class Rewriter {
 public:
  explicit Rewriter(PassState* state)
      : state_(*state),
        view_(state->view()),
        graph_(*state->Editable()),
        constants_(state->context, view_, &state->values),
        dtypes_(DecideComputeDtypes(view_, state->context)) {}

  // Returns whether anything changed.
  bool Run() {
    const std::vector<bool>& raised = dtypes_.in_float32;
    if (std::find(raised.begin(), raised.end(), true) == raised.end()) return false;
    for (int id = 0; id < view_.size(); ++id) {
      if (!view_.IsTransparentCast(id)) continue;
      const DataType from = view_.inputs(id)[0].dtype, to = view_.outputs(id)[0].dtype;
      if (IsLowType(from) && to == tensorflow::DT_FLOAT) SkipCastFrom(id);
      if (from == tensorflow::DT_FLOAT && IsLowType(to)) RoundConstantBefore(id, to);
    }
    GroupRaiser raiser(view_, &graph_, raised, kSuffix);
    raiser.Run([this](int id) { return dtypes_.read_unrounded[id]; });
    Mark();
    return true;
  }

 private:
  bool IsInFloat32(int group) const { return group != kNoGroup && dtypes_.in_float32[group]; }

  // A Cast of a tensor that is float32 now, with values of the low type, has nothing left to do.
  void SkipCastFrom(int cast) {
    const OutputPort from = view_.fanin(cast)[0];
    if (!IsInFloat32(view_.GroupOf(from)) || !dtypes_.is_exact[from.node]) return;
    dtypes_.in_float32[view_.GroupOf(InputPort{cast, 0})] = true;
  }

  // Rounds the constant instead of its Cast, if nothing else reads the constant.
  void RoundConstantBefore(int cast, DataType low) {
    if (constants_.IsFixed(cast) || view_.fanout(cast).empty()) return;
    for (const InputPort& use : view_.fanout(cast)) {
      if (!IsInFloat32(view_.GroupOf(use))) return;
    }
    const std::vector<int> path = constants_.PathBack(view_.fanin(cast)[0]);
    for (int id : path) {
      if (view_.fanout(id).size() != 1) return;
    }
    const TensorProto* value = path.empty() ? nullptr : constants_.Value(path);
    FloatValues values;
    if (value == nullptr || !values.Read(*value)) return;
    TensorProto rounded;
    if (RoundThrough(low, values, *value, &rounded)) {
      tensorflow::NodeDef* constant = graph_.mutable_node(path.back());
      state_.values.Forget(*constant);
      (*constant->mutable_attr())["value"].mutable_tensor()->Swap(&rounded);
    }
    dtypes_.in_float32[view_.GroupOf(OutputPort{cast, 0})] = true;
    dtypes_.read_unrounded[cast] = true;
    WaitForConstant(path.back(), cast);
  }

  // TensorFlow's remapper takes the value of a constant behind a Cast and forgets what the constant
  // waits for. It leaves a Cast with control inputs as it is.
  void WaitForConstant(int constant, int cast) {
    std::set<std::string> controls;
    AddControlInputs(view_.node(constant), &controls);
    tensorflow::NodeDef* node = graph_.mutable_node(cast);
    for (const std::string& input : node->input()) controls.erase(input);
    for (const std::string& control : controls) node->add_input(control);
  }

  void Mark() {
    std::map<int, std::map<std::string, DataType>> groups;  // by node id
    for (int g = 0; g < view_.num_groups(); ++g) {
      if (!dtypes_.in_float32[g]) continue;
      const int id = view_.node_of_group(g);
      const TypeGroup& group = view_.group_numbered(g);
      groups[id][GroupName(*view_.op_def(id), group)] = group.dtype;
    }
    for (const auto& entry : groups) MarkInFloat32(entry.second, graph_.mutable_node(entry.first));
    for (int id = view_.size(); id < graph_.node_size(); ++id) {
      MarkRounding(graph_.mutable_node(id));
    }
  }

  PassState& state_;
  const GraphView& view_;
  tensorflow::GraphDef& graph_;
  const Constants constants_;
  ComputeDtypes dtypes_;
};

}  // namespace

tensorflow::Status ComputeInFloat32(PassState* state, bool* changed) {
  *changed = Rewriter(state).Run();
  return tensorflow::Status();
}

}  // namespace npu_precision
