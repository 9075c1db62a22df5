#include "graph_passes/fuse/stock_updates.h"

#include <map>

#include "absl/strings/str_cat.h"
#include "tensorflow/core/framework/attr_value.pb.h"

namespace npu_precision {
namespace {

using tensorflow::NodeDef;
using Inputs = std::vector<OutputPort>;

bool Flag(const NodeDef& node, const char* name, bool by_default) {
  const auto found = node.attr().find(name);
  return found == node.attr().end() ? by_default : found->second.b();
}

// var, alpha, delta
void WriteGradientDescent(const NodeDef&, const Inputs& in, int gradient, UpdateBuilder* to) {
  const int step = to->Mul(gradient, to->Scalar(in[1]));
  to->Store(in[0], to->Sub(to->Variable(in[0]), step));
}

// var, accum, lr, grad, momentum
void WriteMomentum(const NodeDef& node, const Inputs& in, int gradient, UpdateBuilder* to) {
  const int rate = to->Scalar(in[2]), momentum = to->Scalar(in[4]);
  const int accum = to->Add(to->Mul(to->Variable(in[1]), momentum), gradient);
  int step = to->Mul(accum, rate);
  if (Flag(node, "use_nesterov", false)) {
    const int ahead = to->Mul(to->Mul(accum, momentum), rate);
    step = to->Add(to->Mul(gradient, rate), ahead);
  }
  const int var = to->Sub(to->Variable(in[0]), step);
  to->Store(in[1], accum);
  to->Store(in[0], var);
}

// var, accum, lr, grad, momentum
void WriteKerasMomentum(const NodeDef& node, const Inputs& in, int gradient, UpdateBuilder* to) {
  const int momentum = to->Scalar(in[4]);
  const int part = to->Mul(gradient, to->Scalar(in[2]));
  const int accum = to->Sub(to->Mul(to->Variable(in[1]), momentum), part);
  const bool nesterov = Flag(node, "use_nesterov", false);
  const int step = nesterov ? to->Sub(to->Mul(accum, momentum), part) : accum;
  const int var = to->Add(to->Variable(in[0]), step);
  to->Store(in[1], accum);
  to->Store(in[0], var);
}

// var, m, v, beta1_power, beta2_power, lr, beta1, beta2, epsilon, grad
void WriteAdam(const NodeDef& node, const Inputs& in, int gradient, UpdateBuilder* to) {
  const int one = to->One();
  const int beta1 = to->Scalar(in[6]), left1 = to->Sub(one, beta1);
  const int left2 = to->Sub(one, to->Scalar(in[7]));
  const int root = to->Of(UpdateKind::kSqrt, to->Sub(one, to->Scalar(in[4])));
  const int scaled = to->Mul(to->Scalar(in[5]), root);
  const int alpha = to->Div(scaled, to->Sub(one, to->Scalar(in[3])));
  const int old_m = to->Variable(in[1]), old_v = to->Variable(in[2]);
  const int m = to->Add(old_m, to->Mul(to->Sub(gradient, old_m), left1));
  const int square = to->Of(UpdateKind::kSquare, gradient);
  const int v = to->Add(old_v, to->Mul(to->Sub(square, old_v), left2));
  int direction = m;
  if (Flag(node, "use_nesterov", false)) {
    const int fresh = to->Mul(gradient, left1);
    direction = to->Add(fresh, to->Mul(beta1, m));
  }
  const int root_of_v = to->Of(UpdateKind::kSqrt, v);
  const int below = to->Add(root_of_v, to->Scalar(in[8]));
  const int step = to->Div(to->Mul(direction, alpha), below);
  const int var = to->Sub(to->Variable(in[0]), step);
  to->Store(in[1], m);
  to->Store(in[2], v);
  to->Store(in[0], var);
}

// var, ms, mom, lr, rho, momentum, epsilon, grad
void WriteRmsProp(const NodeDef&, const Inputs& in, int gradient, UpdateBuilder* to) {
  const int one = to->One();
  const int rest = to->Sub(one, to->Scalar(in[4]));
  const int old_ms = to->Variable(in[1]);
  const int square = to->Of(UpdateKind::kSquare, gradient);
  const int ms = to->Add(old_ms, to->Mul(to->Sub(square, old_ms), rest));
  const int root = to->Of(UpdateKind::kSqrt, to->Add(ms, to->Scalar(in[6])));
  const int step = to->Div(to->Mul(gradient, to->Scalar(in[3])), root);
  const int old_mom = to->Variable(in[2]);
  const int mom = to->Add(to->Mul(old_mom, to->Scalar(in[5])), step);
  const int var = to->Sub(to->Variable(in[0]), mom);
  to->Store(in[1], ms);
  to->Store(in[2], mom);
  to->Store(in[0], var);
}

int Accumulated(const NodeDef& node, const Inputs& in, int gradient, UpdateBuilder* to) {
  const int old = to->Variable(in[1]);
  if (!Flag(node, "update_slots", true)) return old;
  return to->Add(old, to->Of(UpdateKind::kSquare, gradient));
}

// var, accum, lr, grad
void WriteAdagrad(const NodeDef& node, const Inputs& in, int gradient, UpdateBuilder* to) {
  const int accum = Accumulated(node, in, gradient, to);
  const int part = to->Mul(gradient, to->Scalar(in[2]));
  const int step = to->Mul(part, to->Of(UpdateKind::kRsqrt, accum));
  const int var = to->Sub(to->Variable(in[0]), step);
  to->Store(in[1], accum);
  to->Store(in[0], var);
}

// var, accum, lr, epsilon, grad
void WriteAdagradV2(const NodeDef& node, const Inputs& in, int gradient, UpdateBuilder* to) {
  const int accum = Accumulated(node, in, gradient, to);
  const int root = to->Of(UpdateKind::kSqrt, accum);
  const int below = to->Add(root, to->Scalar(in[3]));
  const int step = to->Div(to->Mul(gradient, to->Scalar(in[2])), below);
  const int var = to->Sub(to->Variable(in[0]), step);
  to->Store(in[1], accum);
  to->Store(in[0], var);
}

std::map<std::string, StockUpdate> AllUpdates() {
  const std::map<std::string, StockUpdate> of_tensorflow_1 = {
      {"ApplyGradientDescent", {1, 2, WriteGradientDescent, true}},
      {"ApplyMomentum", {2, 3, WriteMomentum, true}},
      {"ApplyKerasMomentum", {2, 3, WriteKerasMomentum, true}},
      {"ApplyAdam", {3, 9, WriteAdam, true}},
      {"ApplyRMSProp", {3, 7, WriteRmsProp, true}},
      {"ApplyAdagrad", {2, 3, WriteAdagrad, true}},
      {"ApplyAdagradV2", {2, 4, WriteAdagradV2, true}},
  };
  std::map<std::string, StockUpdate> all = of_tensorflow_1;
  for (const auto& each : of_tensorflow_1) {
    StockUpdate of_resources = each.second;
    of_resources.is_reference = false;
    all[absl::StrCat("Resource", each.first)] = of_resources;
  }
  return all;
}

}  // namespace

const StockUpdate* StockUpdateOf(const std::string& op) {
  static const auto* all = new std::map<std::string, StockUpdate>(AllUpdates());
  const auto found = all->find(op);
  return found == all->end() ? nullptr : &found->second;
}

}  // namespace npu_precision
