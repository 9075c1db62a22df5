// Which nodes a pass may write in another form, and what it has to know of them. All passes that
// replace several nodes by fewer, or by a form that TensorFlow fuses, ask here.
//
// What a user's file names stays as it is written: a line of the mixlist or of customize_dtypes is
// about a node that is still there afterwards.
#ifndef NPU_PRECISION_GRAPH_PASSES_FUSE_FUSION_SITE_H_
#define NPU_PRECISION_GRAPH_PASSES_FUSE_FUSION_SITE_H_

#include <cstdint>
#include <string>
#include <unordered_set>
#include <vector>

#include "graph_passes/graph/graph_view.h"
#include "graph_passes/rewrite/pass_state.h"
#include "tensorflow/core/framework/node_def.pb.h"
#include "tensorflow/core/framework/tensor.pb.h"
#include "tensorflow/core/framework/tensor_shape.h"

namespace npu_precision {

class FusionSite {
 public:
  // `state` must outlive this object, which is about state.view().
  explicit FusionSite(const PassState& state);

  // Whether the node may become another op under its name: it is placed on a CPU, TensorFlow knows
  // its op, no file of the user names it, and the caller does not feed it.
  bool MayChange(int id) const;
  // MayChange, and the lists have the other op where they have the node's: a file of the user names
  // neither.
  bool MayBecome(int id, const std::string& op) const;
  // Whether no file of the user names a node that is to be written: its name, or its op.
  bool MayAdd(const tensorflow::NodeDef& node) const { return !IsNamedByUser(node); }
  // Whether beside its readers nobody refers to the node, and it waits for none but those it reads.
  // A control dependency on a constant that has none itself does not count.
  bool IsPrivate(int id) const;
  // Whether the node may be dropped, or get another value, together with its readers: MayChange,
  // and IsPrivate.
  bool MayVanish(int id) const;
  // Whether one input reads the node, of all its outputs.
  bool HasOneReader(int id) const { return view_.fanout(id).size() == 1; }

  // Whether both are on one device, and scopes of the user say the same of both: then a new node in
  // their place can say it too.
  bool AreAlike(int a, int b) const;
  // Gives a new node the device of `like` and what scopes of the user say of it.
  void Inherit(int like, tensorflow::NodeDef* node) const;

  // The value of a tensor, behind Identity nodes too, or nullptr. The caller does not feed it.
  const tensorflow::TensorProto* Constant(OutputPort tensor) const;
  // The value of a float constant of one element. False where there is none, or it is not finite.
  bool Number(OutputPort tensor, double* value) const;
  // The values of an integer constant. False where there is none.
  bool Integers(OutputPort tensor, std::vector<int64_t>* values) const;

  // The shape of a tensor of the graph as it was given; of unknown rank for one that a pass added.
  // Slow when it is called first: ask it last.
  tensorflow::PartialTensorShape Shape(OutputPort tensor) const;

 private:
  bool IsNamedByUser(const tensorflow::NodeDef& node) const;
  // Whether a line of the user is about an op of `ops` of this name. `color` gets its list.
  bool IsNamedAs(const std::string& node, const std::vector<std::string>& ops,
                 ListColor* color) const;
  bool WaitsForOthers(int id) const;

  const PassState& state_;
  const GraphView& view_;
  const std::vector<bool> is_control_producer_;
  std::unordered_set<std::string> colocated_with_;  // names of nodes that others are placed with
};

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_FUSE_FUSION_SITE_H_
