#include "graph_passes/rewrite/loop_lists.h"

#include <string>
#include <vector>

#include "graph_passes/rewrite/changed_graph.h"
#include "tensorflow/core/framework/attr_value.pb.h"

namespace npu_precision {
namespace {

using tensorflow::DataType;
using tensorflow::NodeDef;

constexpr DataType kNone = tensorflow::DT_INVALID;

bool HoldsFloat32(const NodeDef& node) {
  const auto found = node.attr().find("element_dtype");
  return found != node.attr().end() && found->second.type() == tensorflow::DT_FLOAT;
}

// The ops on one list in one body, by their use of its elements.
struct Uses {
  std::vector<NodeDef*> others;  // yield a new state of the list, or its length
  std::vector<NodeDef*> reads;   // TensorListGetItem, TensorListStack
  std::vector<NodeDef*> writes;  // TensorListSetItem
};

std::string ElementsOf(const GraphBody& body, const NodeDef& read) {
  return body.OutputOf(read, read.op() == "TensorListStack" ? "tensor" : "item", 0);
}

// Follows the list from `tensor`, through all its states. Returns false if an unknown op reads it,
// or it leaves the body other than as `result`. `is_result` gets whether it is returned as
// `result`.
bool Follow(const GraphBody& body, const std::string& tensor, const std::string& result, Uses* uses,
            bool* is_result) {
  std::vector<std::string> states = {tensor};
  *is_result = false;
  for (size_t at = 0; at < states.size(); ++at) {
    if (body.IsReturned(states[at])) {
      if (states[at] != result || !body.IsReturnedOnce(result)) return false;
      *is_result = true;
    }
    for (const GraphBody::Reader& reader : body.Readers(states[at])) {
      NodeDef* node = reader.node;
      if (reader.input != 0 || body.IsControlProducer(node->name())) return false;
      if (node->op() == "Identity") {
        states.push_back(body.OutputOf(*node, "output", 0));
      } else if (node->op() == "TensorListSetItem" && HoldsFloat32(*node)) {
        uses->writes.push_back(node);
        states.push_back(body.OutputOf(*node, "output_handle", 0));
      } else if ((node->op() == "TensorListGetItem" || node->op() == "TensorListStack") &&
                 HoldsFloat32(*node)) {
        uses->reads.push_back(node);
      } else if (node->op() != "TensorListLength") {
        return false;
      }
      uses->others.push_back(node);
    }
  }
  return true;
}

void SetElements(NodeDef* node, DataType low) {
  const auto found = node->mutable_attr()->find("element_dtype");
  if (found != node->mutable_attr()->end()) found->second.set_type(low);
  ForgetFullType(node);
}

}  // namespace

DataType LowerListOfLoop(GraphBody* caller, const NodeDef& loop, int i, GraphBody* body,
                         GraphBody* condition, MovableCasts* casts) {
  const auto& signature = body->function()->signature();
  if (signature.input_arg(i).type() != tensorflow::DT_VARIANT) return kNone;
  const std::string given = caller->Input(loop, i);
  NodeDef* maker = caller->Producer(given);
  if (maker == nullptr || !HoldsFloat32(*maker) || caller->Readers(given).size() != 1 ||
      caller->IsReturned(given) || casts->IsKept(*caller, *maker)) {
    return kNone;
  }
  const bool is_filled = maker->op() == "TensorListFromTensor";
  if (!is_filled && maker->op() != "TensorListReserve") return kNone;

  Uses inside, outside, asked;
  bool is_result = false, leaves = false;
  if (!Follow(*body, signature.input_arg(i).name(), body->Result(signature.output_arg(i).name()),
              &inside, &is_result) ||
      !is_result ||
      !Follow(*condition, condition->function()->signature().input_arg(i).name(), "", &asked,
              &leaves) ||
      !asked.reads.empty() || !asked.writes.empty() ||
      !Follow(*caller, caller->OutputOf(loop, "output", i), "", &outside, &leaves) || leaves ||
      !outside.writes.empty()) {
    return kNone;
  }
  DataType low = kNone;
  for (const NodeDef* read : inside.reads) {
    if (!casts->OnlyCasts(*body, ElementsOf(*body, *read), &low)) return kNone;
  }
  for (const NodeDef* write : inside.writes) {
    const DataType from = casts->CastFrom(*body, body->Input(*write, 2));
    if (from == kNone || (low != kNone && low != from)) return kNone;
    low = from;
  }
  if (low == kNone) return kNone;
  for (const NodeDef* read : outside.reads) {
    if (casts->IsKept(*caller, *read)) return kNone;
  }

  SetElements(maker, low);
  if (is_filled) casts->CastInput(caller, maker, 0, low);
  for (NodeDef* node : inside.others) SetElements(node, low);
  for (NodeDef* node : outside.others) SetElements(node, low);
  for (const NodeDef* read : inside.reads) {
    casts->DropReadingCasts(body, ElementsOf(*body, *read), low);
  }
  for (NodeDef* write : inside.writes) casts->SkipCast(body, write, 2);
  for (const NodeDef* read : outside.reads) {
    casts->CastOutput(caller, *read, ElementsOf(*caller, *read), low);
  }
  return low;
}

}  // namespace npu_precision
