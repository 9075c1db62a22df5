#include "graph_passes/fuse/flat_nodes.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "graph_passes/graph/op_set.h"
#include "graph_passes/graph/op_traits.h"
#include "graph_passes/graph/registered_ops.h"
#include "graph_passes/rewrite/cast_nodes.h"
#include "graph_passes/rewrite/changed_graph.h"
#include "tensorflow/core/framework/attr_value.pb.h"
#include "tensorflow/core/framework/tensor.pb.h"

namespace npu_precision {
namespace {

using tensorflow::NodeDef;

void SetType(const char* attribute, tensorflow::DataType dtype, NodeDef* node) {
  (*node->mutable_attr())[attribute].set_type(dtype);
}

}  // namespace

FlatNodes::FlatNodes(const GraphView& view, const FusionSite& site, tensorflow::GraphDef* out)
    : view_(view),
      site_(site),
      out_(out),
      names_(view),
      has_loops_(!OpSet(view, IsEnter).IsEmpty()) {}

void FlatNodes::Begin(int like, int in_frame) {
  like_ = like;
  in_frame_ = in_frame;
}

NodeDef* FlatNodes::Add(const std::string& name, const char* op) {
  NodeDef* node = out_->add_node();
  node->set_name(names_.Take(name));
  node->set_op(op);
  SetType("T", tensorflow::DT_FLOAT, node);
  site_.Inherit(like_, node);
  return node;
}

NodeDef* FlatNodes::Constant(const std::string& name, tensorflow::TensorProto** value) {
  NodeDef* node = Add(name, "Const");
  node->mutable_attr()->erase("T");
  SetType("dtype", tensorflow::DT_INT32, node);
  *value = (*node->mutable_attr())["value"].mutable_tensor();
  (*value)->set_dtype(tensorflow::DT_INT32);
  (*value)->mutable_tensor_shape();
  if (has_loops_) node->add_input(absl::StrCat("^", view_.node(in_frame_).name()));
  return node;
}

std::string FlatNodes::Vector(const std::string& name, const std::vector<int64_t>& values) {
  tensorflow::TensorProto* value;
  NodeDef* node = Constant(name, &value);
  value->mutable_tensor_shape()->add_dim()->set_size(values.size());
  for (int64_t number : values) value->add_int_val(static_cast<int>(number));
  return node->name();
}

std::string FlatNodes::Scalar(const std::string& name, int number) {
  tensorflow::TensorProto* value;
  NodeDef* node = Constant(name, &value);
  value->add_int_val(number);
  return node->name();
}

std::string FlatNodes::Floats(const std::string& name, int64_t count, float value) {
  tensorflow::TensorProto* proto;
  NodeDef* node = Constant(name, &proto);
  SetType("dtype", tensorflow::DT_FLOAT, node);
  proto->set_dtype(tensorflow::DT_FLOAT);
  proto->mutable_tensor_shape()->add_dim()->set_size(count);
  proto->add_float_val(value);
  return node->name();
}

std::string FlatNodes::Reshape(const std::string& name, const OutputPort& tensor,
                               const std::vector<int64_t>& shape) {
  return AddReshape(name, TensorName(view_, tensor), view_.dtype(tensor), shape);
}

std::string FlatNodes::Reshape(const std::string& name, const std::string& input,
                               const std::vector<int64_t>& shape) {
  return AddReshape(name, input, tensorflow::DT_FLOAT, shape);
}

std::string FlatNodes::AddReshape(const std::string& name, const std::string& input,
                                  tensorflow::DataType dtype, const std::vector<int64_t>& shape) {
  const std::string shape_name = Vector(absl::StrCat(name, "/shape"), shape);
  NodeDef* node = Add(name, "Reshape");
  SetType("T", dtype, node);
  SetType("Tshape", tensorflow::DT_INT32, node);
  node->add_input(input);
  node->add_input(shape_name);
  return node->name();
}

std::string* FlatNodes::Made(const std::string& name) {
  auto& made = made_[name];
  for (auto& node : made) {
    if (site_.AreAlike(node.first, like_)) return &node.second;
  }
  made.emplace_back(like_, "");
  return &made.back().second;
}

std::string FlatNodes::Rows(const OutputPort& tensor, int64_t columns) {
  const std::string name = absl::StrCat(view_.node(tensor.node).name(), "/npu_rows_", tensor.port);
  std::string* made = Made(absl::StrCat(name, " ", columns));
  if (made->empty()) *made = Reshape(name, tensor, {-1, columns});
  return *made;
}

std::string FlatNodes::TransposeName(const GraphView& view, const OutputPort& tensor,
                                     const std::vector<int>& perm) {
  return absl::StrCat(view.node(tensor.node).name(), "/npu_transpose_", tensor.port, "_",
                      absl::StrJoin(perm, "_"));
}

std::string FlatNodes::Transpose(const OutputPort& tensor, const std::vector<int>& perm) {
  const std::string name = TransposeName(view_, tensor, perm);
  std::string* made = Made(name);
  if (!made->empty()) return *made;
  const std::string perm_name = Vector(absl::StrCat(name, "/perm"), {perm.begin(), perm.end()});
  NodeDef* node = Add(name, "Transpose");
  SetType("Tperm", tensorflow::DT_INT32, node);
  node->add_input(TensorName(view_, tensor));
  node->add_input(perm_name);
  return *made = node->name();
}

std::string FlatNodes::SqueezeName(const GraphView& view, const OutputPort& tensor,
                                   const std::vector<int>& dims) {
  return absl::StrCat(view.node(tensor.node).name(), "/npu_squeeze_", tensor.port, "_",
                      absl::StrJoin(dims, "_"));
}

std::string FlatNodes::Squeeze(const OutputPort& tensor, const std::vector<int>& dims) {
  const std::string name = SqueezeName(view_, tensor, dims);
  std::string* made = Made(name);
  if (!made->empty()) return *made;
  NodeDef* node = Add(name, "Squeeze");
  SetType("T", view_.outputs(tensor.node)[tensor.port].dtype, node);
  node->add_input(TensorName(view_, tensor));
  for (int dim : dims) (*node->mutable_attr())["squeeze_dims"].mutable_list()->add_i(dim);
  return *made = node->name();
}

std::string FlatNodes::ResultShape(const std::string& name, const FlatProduct& product) {
  std::vector<int64_t> sizes;
  int unknown = 0;
  for (int dim = 0; dim < product.row_dims; ++dim) {
    sizes.push_back(product.x_shape.dim_size(dim));
    unknown += sizes.back() < 0;
  }
  // A -1 in the shape would hide a wrong depth.
  if (unknown == 0 || (unknown == 1 && product.has_own_depth)) {
    sizes.insert(sizes.end(), product.columns.begin(), product.columns.end());
    return Vector(name, sizes);
  }
  const std::string columns = Vector(absl::StrCat(name, "/columns"), product.columns);
  const std::string begin = Vector(absl::StrCat(name, "/begin"), {0});
  const std::string end = Vector(absl::StrCat(name, "/end"), {product.row_dims});
  const std::string step = Vector(absl::StrCat(name, "/step"), {1});
  const std::string axis = Scalar(absl::StrCat(name, "/axis"), 0);
  NodeDef* node = Add(absl::StrCat(name, "/of_x"), "Shape");
  SetType("out_type", tensorflow::DT_INT32, node);
  node->add_input(TensorName(view_, product.x));
  const std::string of_x = node->name();

  node = Add(absl::StrCat(name, "/rows"), "StridedSlice");
  SetType("T", tensorflow::DT_INT32, node);
  SetType("Index", tensorflow::DT_INT32, node);
  for (const char* mask :
       {"begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask"}) {
    (*node->mutable_attr())[mask].set_i(0);
  }
  for (const std::string& input : {of_x, begin, end, step}) node->add_input(input);
  const std::string rows = node->name();

  node = Add(name, "ConcatV2");
  SetType("T", tensorflow::DT_INT32, node);
  SetType("Tidx", tensorflow::DT_INT32, node);
  (*node->mutable_attr())["N"].set_i(2);
  const std::string concat = node->name();
  node->add_input(rows);
  node->add_input(columns);
  node->add_input(axis);
  return concat;
}

std::string TensorName(const GraphView& view, const OutputPort& tensor) {
  return InputName(view.node(tensor.node).name(), tensor.port);
}

void ReplaceOp(const FusionSite& site, int id, const std::string& op,
               const std::vector<std::string>& inputs, NodeDef* node) {
  NodeDef made;
  made.set_name(node->name());
  made.set_op(op);
  site.Inherit(id, &made);
  for (const std::string& input : inputs) {
    if (!input.empty()) made.add_input(input);
  }
  SetType("T", tensorflow::DT_FLOAT, &made);
  for (const std::string& input : node->input()) {
    if (input[0] == '^') made.add_input(input);
  }
  node->Swap(&made);
}

void BecomeFusedNorm(const char* op, double epsilon, bool is_training, NodeDef* node) {
  node->set_op(op);
  auto& attr = *node->mutable_attr();
  // TensorFlow's remapper ends the process if an attribute with a default is missing.
  for (const auto& defined : RegisteredOp(op)->attr()) {
    if (defined.has_default_value()) attr[defined.name()] = defined.default_value();
  }
  SetType("T", tensorflow::DT_FLOAT, node);
  SetType("U", tensorflow::DT_FLOAT, node);
  attr["epsilon"].set_f(static_cast<float>(epsilon));
  attr["is_training"].set_b(is_training);
}

void BecomeOp(const char* op, NodeDef* node) {
  NodeDef other;
  other.set_name(node->name());
  other.set_op(op);
  other.set_device(node->device());
  for (const auto& attr : node->attr()) {
    if (absl::StartsWith(attr.first, "_") && attr.first != "_output_shapes") {
      (*other.mutable_attr())[attr.first] = attr.second;
    }
  }
  SetType("T", tensorflow::DT_FLOAT, &other);
  node->Swap(&other);
}

}  // namespace npu_precision
