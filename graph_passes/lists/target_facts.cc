#include "graph_passes/lists/target_facts.h"

#include "graph_passes/graph/quoted.h"
#include "graph_passes/lists/json_text.h"
#include "tensorflow/core/lib/core/errors.h"

namespace npu_precision {

using tensorflow::Status;
using tensorflow::errors::InvalidArgument;

Status ParseTargetFacts(const std::string& file, const std::string& text,
                        std::map<std::string, TargetFacts>* facts) {
  JsonDocument document;
  TF_RETURN_IF_ERROR(ParseJson(file, text, &document));
  for (const std::string& target : document.root.getMemberNames()) {
    const Json::Value& entry = document.root[target];
    if (!entry.isObject()) {
      return InvalidArgument(document.PlaceOf(entry), ": got ", JsonTypeName(entry),
                             ", expected an object");
    }
    TargetFacts& found = (*facts)[target];
    for (const std::string& key : entry.getMemberNames()) {
      const Json::Value& value = entry[key];
      if (key == "lists_of" && value.isString()) {
        found.lists_of = value.asString();
      } else if (key == "dtype" && value.isString()) {
        std::string error;
        if (!ParseFloatDtypes(value.asString(), &found.computes, &error)) {
          return InvalidArgument(document.PlaceOf(value), ": ", error);
        }
      } else if (key == "saturates" && value.isBool()) {
        found.saturates = value.asBool();
      } else if (key == "lowers_matrix_ops" && value.isBool()) {
        found.lowers_matrix_ops = value.asBool();
      } else if (key == "follows_consumers" && value.isBool()) {
        found.follows_consumers = value.asBool();
      } else {
        return InvalidArgument(document.PlaceOf(value), ": got ", Quoted(key), " with ",
                               JsonTypeName(value),
                               ", expected lists_of or dtype with a string, or saturates, "
                               "lowers_matrix_ops or follows_consumers with a bool");
      }
    }
  }
  return Status();
}

}  // namespace npu_precision
