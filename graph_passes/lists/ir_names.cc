#include "graph_passes/lists/ir_names.h"

#include "graph_passes/lists/json_text.h"
#include "tensorflow/core/lib/core/errors.h"

namespace npu_precision {

using tensorflow::Status;

Status ParseIrNames(const std::string& file, const std::string& text, IrNames* names) {
  JsonDocument document;
  TF_RETURN_IF_ERROR(ParseJson(file, text, &document));
  for (const std::string& name : document.root.getMemberNames()) {
    const Json::Value& ops = document.root[name];
    if (!ops.isArray()) {
      return tensorflow::errors::InvalidArgument(document.PlaceOf(ops), ": got ", JsonTypeName(ops),
                                                 ", expected a list of strings");
    }
    std::vector<std::string>& listed = (*names)[name];
    for (const Json::Value& op : ops) {
      if (!op.isString()) {
        return tensorflow::errors::InvalidArgument(document.PlaceOf(op), ": got ", JsonTypeName(op),
                                                   ", expected a string");
      }
      listed.push_back(op.asString());
    }
  }
  return Status();
}

std::vector<std::string> TensorFlowOps(const IrNames& names, const std::string& name) {
  const auto found = names.find(name);
  if (found == names.end()) return {name};
  return found->second;
}

}  // namespace npu_precision
