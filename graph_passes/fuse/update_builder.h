// Builds the update op of a group of updates: its inputs, and its program step by step.
#ifndef NPU_PRECISION_GRAPH_PASSES_FUSE_UPDATE_BUILDER_H_
#define NPU_PRECISION_GRAPH_PASSES_FUSE_UPDATE_BUILDER_H_

#include <set>
#include <string>
#include <vector>

#include "graph_passes/graph/graph_view.h"
#include "graph_passes/graph/update_program.h"

namespace npu_precision {

class UpdateBuilder {
 public:
  explicit UpdateBuilder(const GraphView& view) : view_(view) {}  // must outlive this object

  // The steps that read an input; the same step if it was read before. A variable is named by the
  // tensor of its handle or reference.
  int Variable(const OutputPort& variable) {
    return Read(UpdateKind::kVariable, variable, &variables_);
  }
  int Tensor(const OutputPort& tensor) { return Read(UpdateKind::kTensor, tensor, &tensors_); }
  int Scalar(const OutputPort& tensor) { return Read(UpdateKind::kScalar, tensor, &scalars_); }

  int One() { return Append({UpdateKind::kOne}); }
  int Add(int a, int b) { return Of(UpdateKind::kAdd, a, b); }
  int Sub(int a, int b) { return Of(UpdateKind::kSub, a, b); }
  int Mul(int a, int b) { return Of(UpdateKind::kMul, a, b); }
  int Div(int a, int b) { return Of(UpdateKind::kDiv, a, b); }
  int Of(UpdateKind kind, int a, int b = 0) { return Append({kind, a, b}); }
  void Store(const OutputPort& variable, int step) {
    Append({UpdateKind::kStore, IndexIn(variable, &variables_), step});
  }

  // Makes the node the update op `op`, which waits for `controls`, such as "^x".
  void Write(const char* op, const std::set<std::string>& controls,
             tensorflow::NodeDef* node) const;

  // The program and the numbers and dtypes of the inputs, which tell one update from another.
  std::string Text() const;

  const std::vector<OutputPort>& tensors() const { return tensors_; }
  const std::vector<OutputPort>& scalars() const { return scalars_; }

 private:
  int Read(UpdateKind kind, const OutputPort& tensor, std::vector<OutputPort>* inputs);
  static int IndexIn(const OutputPort& tensor, std::vector<OutputPort>* inputs);
  int Append(const UpdateStep& step) {
    program_.push_back(step);
    return static_cast<int>(program_.size()) - 1;
  }

  const GraphView& view_;
  std::vector<OutputPort> variables_, tensors_, scalars_;
  UpdateProgram program_;
};

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_FUSE_UPDATE_BUILDER_H_
