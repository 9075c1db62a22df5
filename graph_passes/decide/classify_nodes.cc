#include "graph_passes/decide/classify_nodes.h"

#include <map>
#include <unordered_map>
#include <unordered_set>

#include "absl/strings/str_cat.h"
#include "graph_passes/analysis/gated_tails.h"
#include "graph_passes/analysis/reference_reads.h"
#include "graph_passes/decide/apply_custom_dtypes.h"
#include "graph_passes/decide/kept_by_mark.h"
#include "graph_passes/decide/node_shapes.h"
#include "graph_passes/graph/fused_ops.h"
#include "graph_passes/graph/low_types.h"
#include "graph_passes/graph/marks.h"
#include "graph_passes/graph/op_set.h"
#include "graph_passes/graph/op_traits.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "tensorflow/core/lib/core/errors.h"

namespace npu_precision {
namespace {

using tensorflow::DataType;
using tensorflow::NodeDef;
using tensorflow::OpDef;
using tensorflow::Status;

// All ports of an argument are bound to the same attribute.
template <typename Arguments>
bool ArgumentsAllow(const std::map<int, FloatDtypes>& restricted, const Arguments& arguments,
                    const std::string& attr, DataType dtype, bool* is_restricted) {
  for (const auto& entry : restricted) {
    if (entry.first >= arguments.size()) continue;
    const OpDef::ArgDef& argument = arguments.Get(entry.first);
    const bool bound = argument.type_attr() == attr || argument.type_list_attr() == attr;
    *is_restricted |= bound;
    if (bound && !entry.second.Allows(dtype)) return false;
  }
  return true;
}

class Classifier {
 public:
  Classifier(const GraphView& view, const DecideContext& context, NodeClasses* classes)
      : view_(view),
        context_(context),
        references_(view, context.fed),
        neutral_(view, IsNeutralSource),
        has_element_dtype_(view, HasElementDtype),
        never_changed_(view, NeverChanges),
        einsums_(view, "Einsum"),
        classes_(classes) {}

  Status Run() {
    classes_->nodes.assign(view_.size(), NodeClass());
    classes_->can_change.assign(view_.num_groups(), false);
    classes_->handles = FindHandles(view_, context_.preserved, context_.fed);
    for (const Handle& handle : classes_->handles) {
      if (handle.leaves_graph) leaving_.insert(handle.groups.begin(), handle.groups.end());
    }
    for (int id = 0; id < view_.size(); ++id) TF_RETURN_IF_ERROR(Classify(id));
    return Status();
  }

 private:
  Status Classify(int id) {
    NodeClass& node = classes_->nodes[id];
    const NodeDef& def = view_.node(id);
    if (view_.op_def(id) == nullptr || view_.IsTransparent(id)) return Status();
    // A Cast that an earlier run inserted, with control inputs, is not transparent but decided too.
    if (IsInsertedCast(def) && view_.outputs(id)[0].dtype == context_.NewDtype()) return Status();
    for (const Port& port : view_.inputs(id)) node.is_float |= context_.Changes(port.dtype);
    for (const Port& port : view_.outputs(id)) node.is_float |= context_.Changes(port.dtype);
    if (has_element_dtype_.Has(id)) {
      for (const TypeGroup& group : view_.groups(id))
        node.is_float |= context_.Changes(group.dtype);
    }
    if (!node.is_float) {
      TakeCustomDtypes(id, &node);
      if (node.custom != nullptr) node.fixed = FixedReason(id);
      return Status();
    }
    TF_RETURN_IF_ERROR(LookUp(id, &node));
    TakeCustomDtypes(id, &node);
    node.is_neutral =
        !HasKeptArgumentMark(def) && (neutral_.Has(id) || context_.fed.count(def.name()) != 0);
    node.fixed = FixedReason(id);
    if (node.fixed == Reason::kNone) node.fixed = FindChangeableGroups(id);
    return Status();
  }

  Status LookUp(int id, NodeClass* node) {
    TF_RETURN_IF_ERROR(LookUpOp(id, node));
    ListAsFused(view_.node(id), &node->listing);
    ListByMark(view_.node(id), &node->listing);
    ListAsGated(id, &node->listing);
    // The lists have op types only, and Einsum is on the list of the products.
    if (!einsums_.Has(id) || node->listing.edited != Edited::kNo) return Status();
    const NodeDef& def = view_.node(id);
    const std::string computed = ComputedByEinsum(def);
    if (computed != "Einsum") {
      node->listing = context_.lists->OfOp(computed, context_.support->KindOf(def));
    }
    return Status();
  }

  // An op that will be fused is computed inside the kernel of another op, so it is gray.
  static void ListAsFused(const NodeDef& def, Listing* listing) {
    if (listing->edited != Edited::kNo || !HasFusedMark(def)) return;
    static const std::string* const place = new std::string("its kernel");
    *listing = {ListColor::kGray, place, false, Edited::kNo};
  }

  // On a CPU it is slower in a low type, but where it is fused into a product: see activations.h.
  void ListAsGated(int id, Listing* listing) const {
    if (listing->edited != Edited::kNo || listing->color != ListColor::kBlack ||
        !IsGatedTail(view_, id) || context_.support->KindOf(view_.node(id)) != DeviceKind::kGpu) {
      return;
    }
    static const std::string* const place = new std::string("what it weighs");
    *listing = {ListColor::kGray, place, false, Edited::kNo};
  }

  // Only the mixed modes use lists. A name in the mixlist beats the mark of a function.
  void ListByMark(const NodeDef& def, Listing* listing) const {
    if (context_.mode.rule != ModeRule::kMix || listing->edited == Edited::kByName) return;
    static const std::string* const place = new std::string("its function");
    const std::string mark = ListMark(def);
    for (ListColor color : {ListColor::kWhite, ListColor::kBlack, ListColor::kGray}) {
      if (mark == ListColorName(color)) *listing = {color, place, false, Edited::kByOpType};
    }
  }

  // A line for a name beats all else. A line for an op type beats all but a name in the mixlist.
  void TakeCustomDtypes(int id, NodeClass* node) const {
    if (context_.custom_dtypes == nullptr || context_.custom_dtypes->empty()) return;
    const NodeDef& def = view_.node(id);
    const CustomDtypes* of_name = context_.custom_dtypes->OfName(NameInMixlist(def.name()));
    node->custom = of_name;
    if (of_name == nullptr && node->listing.edited != Edited::kByName) {
      node->custom = context_.custom_dtypes->OfOp(OpsOf(def).front());
    }
    if (node->custom == nullptr) return;
    bool lowers = false, keeps = false;
    for (int g = 0; g < view_.num_groups(id); ++g) {
      const DataType wanted = WantedOfGroup(view_, id, g, *node->custom);
      lowers |= IsLowType(wanted);
      keeps |= wanted == tensorflow::DT_FLOAT;
    }
    if (!lowers && !keeps) return;
    node->listing = {keeps ? ListColor::kBlack : ListColor::kWhite, &node->custom->place, false,
                     of_name == nullptr ? Edited::kByOpType : Edited::kByName};
  }

  Status LookUpOp(int id, NodeClass* node) {
    const NodeDef& def = view_.node(id);
    const DeviceKind kind = context_.support->KindOf(def);
    // The list depends on more than the op: on the parts of a fused op, or on the name.
    if (StandsForSeveral(def) || context_.lists->HasNodePatterns()) {
      node->info = &context_.lists->Info(OpsOf(def).front(), kind);
      return context_.lists->OfNode(NameInMixlist(def.name()), OpsOf(def), kind, &node->listing);
    }
    const auto key = std::make_pair(view_.op(id), kind);
    const auto known = of_op_.find(key);
    if (known != of_op_.end()) {
      node->info = known->second.info;
      node->listing = known->second.listing;
      return Status();
    }
    node->info = InfoOf(def, context_);
    node->listing = context_.lists->OfOp(OpsOf(def).front(), kind);
    of_op_[key] = *node;
    return Status();
  }

  Reason FixedReason(int id) const {
    const NodeDef& def = view_.node(id);
    if (neutral_.Has(id)) {
      return HasKeptArgumentMark(def) ? Reason::kKeptByCaller : Reason::kNeutralSource;
    }
    if (context_.fed.count(def.name()) != 0) return Reason::kFed;
    if (view_.calls_function(id)) return Reason::kNeverChanged;
    if (never_changed_.Has(id)) return Reason::kNeverChanged;
    for (int g = 0; g < view_.num_groups(id); ++g) {
      if (leaving_.count(view_.first_group(id) + g) != 0) return Reason::kHandleLeavesGraph;
    }
    if (HasOpaqueNeighbour(id)) return Reason::kUnknownNeighbour;
    const NodeClass& node = classes_->nodes[id];
    const bool is_named = node.listing.edited == Edited::kByName || node.custom != nullptr;
    const Reason of_mark = KeptByMark(def, context_, is_named);
    if (of_mark != Reason::kNone) return of_mark;
    if (context_.preserved.count(def.name()) != 0 && !CastCanTakeName(id)) {
      return Reason::kPreservedOutputs;
    }
    return references_.AliasesReference(id) ? Reason::kNeutralSource : Reason::kNone;
  }

  // Whether a Cast can take the name of a fetched node, so that the node can change under a new
  // name. A node with state keeps its name.
  bool CastCanTakeName(int id) const {
    const absl::Span<const Port> outputs = view_.outputs(id);
    if (outputs.size() == 1 && outputs[0].group != kFixedDtype) return true;
    return outputs.size() <= 1 && !view_.op_def(id)->is_stateful();
  }

  // Whether a neighbour is of an op that TensorFlow does not know, so that its dtypes are unknown.
  bool HasOpaqueNeighbour(int id) const {
    for (const OutputPort& producer : view_.fanin(id)) {
      if (view_.op_def(producer.node) == nullptr) return true;
    }
    for (const InputPort& consumer : view_.fanout(id)) {
      if (view_.op_def(consumer.node) == nullptr) return true;
    }
    return false;
  }

  // Marks the groups that the OpDef, the target and the device's kernels allow to change. If no
  // kernel takes all of them changed, attributes are tried one after the other. Each is added if a
  // kernel exists for it together with those added before. All elements of a list are tried at
  // once, because no kernel distinguishes them. Returns the reason why no group can change, or
  // kNone.
  Reason FindChangeableGroups(int id) {
    Reason reason = Reason::kFixedDtype;
    std::vector<int> allowed, changeable;
    for (int g = 0; g < view_.num_groups(id); ++g) {
      const TypeGroup& group = view_.groups(id)[g];
      if (!context_.Changes(group.dtype)) continue;
      if (!TargetAllows(view_, classes_->nodes[id].info, id, g, context_.NewDtype())) {
        reason = Reason::kTargetUnsupported;
        continue;
      }
      reason = Reason::kNoKernel;
      if (OpDefAllows(*view_.op_def(id), group, context_.NewDtype())) allowed.push_back(g);
    }
    if (!allowed.empty() && HasKernel(id, allowed)) changeable = allowed;
    for (size_t i = 0; changeable.size() < allowed.size() && i < allowed.size();) {
      const size_t before = changeable.size();
      const short attr = view_.groups(id)[allowed[i]].attr;
      for (; i < allowed.size() && view_.groups(id)[allowed[i]].attr == attr; ++i) {
        changeable.push_back(allowed[i]);
      }
      if (!HasKernel(id, changeable)) changeable.resize(before);
    }
    for (int g : changeable) classes_->can_change[view_.first_group(id) + g] = true;
    return changeable.empty() ? reason : Reason::kNone;
  }

  bool HasKernel(int id, const std::vector<int>& changed) {
    const NodeDef& def = view_.node(id);
    // Nodes with the same key have the same answer: it depends on nothing else.
    std::string key = absl::StrCat(def.op(), "|", def.device());
    for (int g = 0; g < view_.num_groups(id); ++g) {
      absl::StrAppend(&key, "|", static_cast<int>(view_.groups(id)[g].dtype));
    }
    for (int g : changed) absl::StrAppend(&key, "!", g);
    for (const char* name :
         {"_kernel", "data_format", "dilations", "ksize", "equation", "padding"}) {
      const auto attr = def.attr().find(name);
      if (attr == def.attr().end()) continue;
      absl::StrAppend(&key, "|", attr->second.s());
      for (const auto i : attr->second.list().i()) absl::StrAppend(&key, ",", i);
    }
    NodeShapes shapes;
    const bool depends_on_shapes = context_.shapes && context_.support->DependsOnShapes(def);
    if (depends_on_shapes) {
      for (const OutputPort& from : view_.fanin(id)) shapes.inputs.push_back(ShapeOf(from));
      shapes.output = ShapeOf({id, 0});
      for (const auto& shape : shapes.inputs) absl::StrAppend(&key, "|", shape.DebugString());
      absl::StrAppend(&key, "|", shapes.output.DebugString());
    }
    const auto known = has_kernel_.find(key);
    if (known != has_kernel_.end()) return known->second;
    NodeDef trial = def;
    for (int g : changed) {
      SetGroupDtype(*view_.op_def(id), view_.groups(id)[g], context_.NewDtype(), &trial);
    }
    return has_kernel_[key] = context_.support->CanRun(def, trial) &&
                              (!depends_on_shapes || context_.support->CanRunWith(trial, shapes));
  }

  tensorflow::PartialTensorShape ShapeOf(const OutputPort& tensor) const {
    return context_.shapes(view_.node(tensor.node).name(), tensor.port);
  }

  const GraphView& view_;
  const DecideContext& context_;
  const ReferenceReads references_;
  const OpSet neutral_, has_element_dtype_, never_changed_, einsums_;
  NodeClasses* classes_;
  std::map<std::pair<int, DeviceKind>, NodeClass> of_op_;  // by the number of the op in the view
  std::unordered_set<int> leaving_;  // group numbers of handles that leave the graph
  std::unordered_map<std::string, bool> has_kernel_;
};

}  // namespace

Status ClassifyNodes(const GraphView& view, const DecideContext& context, NodeClasses* classes) {
  return Classifier(view, context, classes).Run();
}

const OpInfo* InfoOf(const NodeDef& node, const DecideContext& context) {
  return &context.lists->Info(OpsOf(node).front(), context.support->KindOf(node));
}

bool TargetAllows(const GraphView& view, const OpInfo* info, int id, int group, DataType dtype) {
  if (info == nullptr) return true;
  if (info->inputs.empty() && info->outputs.empty()) return info->otherwise.Allows(dtype);
  const OpDef& op_def = *view.op_def(id);
  const std::string& attr = op_def.attr(view.groups(id)[group].attr).name();
  bool is_restricted = false;
  return ArgumentsAllow(info->inputs, op_def.input_arg(), attr, dtype, &is_restricted) &&
         ArgumentsAllow(info->outputs, op_def.output_arg(), attr, dtype, &is_restricted) &&
         (is_restricted || info->otherwise.Allows(dtype));
}

}  // namespace npu_precision
