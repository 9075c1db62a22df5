#include "graph_passes/rewrite/constants_into_loops.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tensorflow/core/framework/attr_value.pb.h"
#include "tensorflow/core/framework/op_def.pb.h"
#include "tensorflow/core/framework/types.h"

namespace npu_precision {
namespace {

using tensorflow::NodeDef;

bool IsFloatConstant(const NodeDef& node) {
  if (node.op() != "Const") return false;
  const auto dtype = node.attr().find("dtype");
  return dtype != node.attr().end() && tensorflow::DataTypeIsFloating(dtype->second.type());
}

}  // namespace

bool CopyConstantIntoLoop(const NodeDef& given, const std::string& argument, const NodeDef* copy,
                          GraphBody* body) {
  if (!IsFloatConstant(given)) return false;
  std::vector<GraphBody::Reader> readers;
  for (const GraphBody::Reader& reader : body->Readers(argument)) {
    if (reader.node != copy) readers.push_back(reader);
  }
  if (readers.empty()) return false;
  NodeDef* own = body->Add(absl::StrCat(argument, "/npu_constant"));
  own->set_op("Const");
  own->set_device(given.device());
  *own->mutable_attr() = given.attr();
  own->mutable_attr()->erase("_class");  // it names nodes of the caller
  const std::string tensor = body->OutputOf(*own, "output", 0);
  for (const GraphBody::Reader& reader : readers) {
    body->SetInput(reader.node, reader.input, tensor);
  }
  return true;
}

}  // namespace npu_precision
