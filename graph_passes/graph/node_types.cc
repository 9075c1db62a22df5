#include "graph_passes/graph/node_types.h"

#include <limits>

#include "absl/strings/str_cat.h"
#include "graph_passes/graph/quoted.h"
#include "tensorflow/core/framework/attr_value.pb.h"
#include "tensorflow/core/lib/core/errors.h"

namespace npu_precision {
namespace {

using tensorflow::AttrValue;
using tensorflow::DataType;
using tensorflow::NodeDef;
using tensorflow::OpDef;
using tensorflow::Status;
using tensorflow::errors::FailedPrecondition;

// Ports are numbered in a short. The bound also limits memory for a damaged count.
constexpr size_t kMaxPorts = std::numeric_limits<short>::max();

int AttrIndex(const OpDef& op_def, const std::string& name) {
  for (int i = 0; i < op_def.attr_size(); ++i) {
    if (op_def.attr(i).name() == name) return i;
  }
  return -1;
}

// The node's value, else the OpDef's default, else nullptr.
const AttrValue* FindAttr(const NodeDef& node, const OpDef& op_def, const std::string& name) {
  const auto found = node.attr().find(name);
  if (found != node.attr().end()) return &found->second;
  const int index = AttrIndex(op_def, name);
  if (index < 0 || !op_def.attr(index).has_default_value()) return nullptr;
  return &op_def.attr(index).default_value();
}

Status BadAttr(const NodeDef& node, const std::string& attr, const char* expected) {
  return FailedPrecondition("node ", Quoted(node.name()), " (", Quoted(node.op()), "): attribute ",
                            Quoted(attr), " is not ", expected);
}

Status TooMany(const NodeDef& node, const std::string& attr, int64_t count) {
  return FailedPrecondition("node ", Quoted(node.name()), " (", Quoted(node.op()), "): attribute ",
                            Quoted(attr), " is ", count, ", and ", kMaxPorts,
                            " ports are the most that are counted");
}

class Describer {
 public:
  Describer(const NodeDef& node, const OpDef& op_def, NodeTypes* types)
      : node_(node), op_def_(op_def), types_(types), first_group_(op_def.attr_size(), -1) {}

  Status Run() {
    TF_RETURN_IF_ERROR(AddGroups());
    TF_RETURN_IF_ERROR(AddPorts(op_def_.input_arg(), &types_->inputs));
    return AddPorts(op_def_.output_arg(), &types_->outputs);
  }

 private:
  Status AddGroups() {
    for (int i = 0; i < op_def_.attr_size(); ++i) {
      const OpDef::AttrDef& attr = op_def_.attr(i);
      const bool is_list = attr.type() == "list(type)";
      if (!is_list && attr.type() != "type") continue;
      const AttrValue* value = FindAttr(node_, op_def_, attr.name());
      first_group_[i] = static_cast<int>(types_->groups.size());
      if (is_list) {
        if (value == nullptr || value->value_case() != AttrValue::kList) {
          return BadAttr(node_, attr.name(), "a list of types");
        }
        if (static_cast<size_t>(value->list().type_size()) > kMaxPorts) {
          return TooMany(node_, attr.name(), value->list().type_size());
        }
        for (int e = 0; e < value->list().type_size(); ++e) {
          types_->groups.push_back(
              {static_cast<short>(i), static_cast<short>(e), value->list().type(e)});
        }
      } else {
        if (value == nullptr || value->value_case() != AttrValue::kType) {
          return BadAttr(node_, attr.name(), "a type");
        }
        types_->groups.push_back({static_cast<short>(i), -1, value->type()});
      }
      if (types_->groups.size() > kMaxPorts) return BadAttr(node_, attr.name(), "short enough");
    }
    return Status();
  }

  template <typename Arguments>
  Status AddPorts(const Arguments& arguments, std::vector<Port>* ports) {
    for (int a = 0; a < arguments.size(); ++a) {
      const OpDef::ArgDef& argument = arguments.Get(a);
      int64_t count = 1;
      int group = kFixedDtype;
      const bool is_list = !argument.type_list_attr().empty();
      if (is_list) {
        const int attr = AttrIndex(op_def_, argument.type_list_attr());
        if (attr < 0) return BadAttr(node_, argument.type_list_attr(), "declared");
        group = first_group_[attr];
        count = 0;
        for (const TypeGroup& g : types_->groups) count += g.attr == attr ? 1 : 0;
      } else if (!argument.type_attr().empty()) {
        const int attr = AttrIndex(op_def_, argument.type_attr());
        if (attr < 0 || first_group_[attr] < 0) {
          return BadAttr(node_, argument.type_attr(), "declared as a type");
        }
        group = first_group_[attr];
      }
      if (!argument.number_attr().empty()) {
        const AttrValue* number = FindAttr(node_, op_def_, argument.number_attr());
        if (number == nullptr || number->value_case() != AttrValue::kI || number->i() < 0) {
          return BadAttr(node_, argument.number_attr(), "a count");
        }
        if (number->i() > static_cast<int64_t>(kMaxPorts)) {
          return TooMany(node_, argument.number_attr(), number->i());
        }
        count = number->i();
      }
      for (int64_t i = 0; i < count; ++i) {
        const int bound = is_list ? group + static_cast<int>(i) : group;
        const DataType dtype = bound == kFixedDtype ? argument.type() : types_->groups[bound].dtype;
        ports->push_back({dtype, static_cast<short>(bound), static_cast<short>(a)});
      }
    }
    return Status();
  }

  const NodeDef& node_;
  const OpDef& op_def_;
  NodeTypes* types_;
  std::vector<int> first_group_;  // by attribute
};

}  // namespace

Status DescribeTypes(const NodeDef& node, const OpDef& op_def, NodeTypes* types) {
  types->groups.clear();
  types->inputs.clear();
  types->outputs.clear();
  return Describer(node, op_def, types).Run();
}

void SetGroupDtype(const OpDef& op_def, const TypeGroup& group, DataType dtype, NodeDef* node) {
  const OpDef::AttrDef& attr = op_def.attr(group.attr);
  AttrValue& value = (*node->mutable_attr())[attr.name()];
  if (group.element < 0) {
    value.set_type(dtype);
    return;
  }
  if (value.value_case() != AttrValue::kList) value = attr.default_value();
  value.mutable_list()->set_type(group.element, dtype);
}

bool OpDefAllows(const OpDef& op_def, const TypeGroup& group, DataType dtype) {
  const OpDef::AttrDef& attr = op_def.attr(group.attr);
  if (!attr.has_allowed_values()) return true;
  for (int allowed : attr.allowed_values().list().type()) {
    if (allowed == dtype) return true;
  }
  return false;
}

std::string GroupName(const OpDef& op_def, const TypeGroup& group) {
  const std::string& name = op_def.attr(group.attr).name();
  if (group.element < 0) return name;
  return absl::StrCat(name, "[", group.element, "]");
}

}  // namespace npu_precision
