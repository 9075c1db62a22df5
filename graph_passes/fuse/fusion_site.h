// Determines which nodes a pass may rewrite in another form, and the facts that it needs about
// them. All passes that replace several nodes by fewer, or by a form that TensorFlow fuses, use it.
//
// Nodes that a user's file names stay as they are: a line of the mixlist or of customize_dtypes
// refers to a node that must still exist afterwards.
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
  enum class Devices : unsigned char { kCpus, kCpusAndGpus };

  // `state` must outlive this object, which is about state.view(). `devices`: where the pass gains;
  // what the user names runs on GPUs, too, which is how one learns whether it gains there.
  explicit FusionSite(const PassState& state, Devices devices = Devices::kCpus);

  // Whether the node may become another op under its name: it is placed on one of the devices,
  // TensorFlow knows its op, no file of the user names it, and the caller does not feed it.
  bool MayChange(int id) const;
  // MayChange, no file of the user names the node or the other op, and the lists have both ops in
  // the same color.
  bool MayBecome(int id, const std::string& op) const;
  // Whether no file of the user names a node that will be added: its name, or its op.
  bool MayAdd(const tensorflow::NodeDef& node) const { return !IsNamedByUser(node); }
  // Whether only its readers refer to the node, and it has no control inputs. A control dependency
  // on a constant that has no control inputs itself does not count.
  bool IsPrivate(int id) const;
  // Whether the node may be dropped, or get another value, together with its readers: MayChange and
  // IsPrivate.
  bool MayVanish(int id) const;
  // Whether exactly one input reads any output of the node.
  bool HasOneReader(int id) const { return view_.fanout(id).size() == 1; }

  // Whether both are on one device and have the same marks from scopes of the user. Then a new node
  // can replace both with these marks.
  bool AreAlike(int a, int b) const;
  // Gives a new node the device and the scope marks of `like`.
  void Inherit(int like, tensorflow::NodeDef* node) const;

  // The value of a constant tensor, also behind Identity nodes; nullptr if it is not constant, the
  // caller feeds it, or a reader that took the value would no longer wait for an effect.
  const tensorflow::TensorProto* Constant(OutputPort tensor) const;
  // The value of a float constant of one element. Returns false if there is none, or it is not
  // finite.
  bool Number(OutputPort tensor, double* value) const;
  // The values of an integer constant. Returns false if there is none.
  bool Integers(OutputPort tensor, std::vector<int64_t>* values) const;

  // The shape of a tensor of the given graph; of unknown rank for a tensor that a pass added. The
  // first call is slow: check everything else before.
  tensorflow::PartialTensorShape Shape(OutputPort tensor) const;

 private:
  bool IsNamedByUser(const tensorflow::NodeDef& node) const;
  // Whether a line of the user's mixlist names the node, or names it if it has one of these ops.
  // `color` gets its list then.
  bool IsNamedAs(const tensorflow::NodeDef& node, const std::vector<std::string>& ops,
                 ListColor* color) const;
  bool WaitsForOthers(int id) const;
  // Whether a reader waits for an effect only through this Const, or copy of one.
  bool IsWaitedThrough(int id) const;

  const PassState& state_;
  const GraphView& view_;
  const Devices devices_;
  const std::vector<bool> is_control_producer_;
  std::unordered_set<std::string> colocated_with_;  // names of nodes that others are colocated with
  mutable std::vector<bool> waiting_constants_;     // by node id; empty until it is needed
};

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_FUSE_FUSION_SITE_H_
