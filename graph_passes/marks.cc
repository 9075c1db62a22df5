#include "graph_passes/marks.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "tensorflow/core/framework/attr_value.pb.h"

namespace npu_precision {
namespace {

constexpr char kKeepDtype[] = "_keep_dtype";
constexpr char kPreserved[] = "_npu_precision_preserved";
constexpr char kInserted[] = "_npu_precision_cast";
constexpr char kDecision[] = "_npu_precision";

const tensorflow::AttrValue* Find(const tensorflow::NodeDef& node, const char* name) {
  const auto found = node.attr().find(name);
  return found == node.attr().end() ? nullptr : &found->second;
}

}  // namespace

bool HasKeepDtypeMark(const tensorflow::NodeDef& node) {
  const tensorflow::AttrValue* value = Find(node, kKeepDtype);
  return value != nullptr && (value->i() != 0 || value->b());
}

bool HasPreservedMark(const tensorflow::NodeDef& node) { return Find(node, kPreserved) != nullptr; }

std::vector<std::string> ColocatedWith(const tensorflow::NodeDef& node) {
  std::vector<std::string> names;
  for (const char* attr : {"_class", "_npu_precision_class"}) {
    const tensorflow::AttrValue* value = Find(node, attr);
    if (value == nullptr) continue;
    for (const std::string& place : value->list().s()) {
      names.emplace_back(absl::StripPrefix(place, "loc:@"));
    }
  }
  return names;
}

void MarkInserted(tensorflow::NodeDef* node) {
  node->mutable_attr()->erase(kDecision);  // a copy's original may have one
  (*node->mutable_attr())[kInserted].set_b(true);
}

bool IsInserted(const tensorflow::NodeDef& node) {
  // Whoever looks through one reads its first input, which a mark on any other op would not
  // promise.
  const std::string& op = node.op();
  return (op == "Cast" || op == "Enter" || op == "Switch" || op == "Identity" || op == "NoOp") &&
         Find(node, kInserted) != nullptr;
}

bool IsInsertedCast(const tensorflow::NodeDef& node) {
  return node.op() == "Cast" && IsInserted(node);
}

bool IsTransparent(const tensorflow::NodeDef& node) {
  if (!IsInserted(node) || node.op() == "NoOp") return false;
  return node.op() != "Cast" || node.input_size() == 1;
}

bool IsTransparentCast(const tensorflow::NodeDef& node) {
  return node.op() == "Cast" && IsTransparent(node);
}

bool UnmarkFedNodes(const tensorflow::GraphDef& graph, const std::set<std::string>& fed,
                    tensorflow::GraphDef* copy) {
  const auto is_fed = [&fed](const tensorflow::NodeDef& node) {
    return IsInserted(node) && fed.count(node.name()) != 0;
  };
  if (std::none_of(graph.node().begin(), graph.node().end(), is_fed)) return false;
  *copy = graph;
  for (tensorflow::NodeDef& node : *copy->mutable_node()) {
    if (is_fed(node)) node.mutable_attr()->erase(kInserted);
  }
  return true;
}

void MarkDecision(const DecisionMark& mark, tensorflow::NodeDef* node) {
  DecisionMark earlier;
  ReadDecisionMark(*node, &earlier);
  std::map<std::string, std::string> before = mark.before;
  before.insert(earlier.before.begin(), earlier.before.end());
  (*node->mutable_attr())[kDecision].set_s(
      absl::StrJoin({mark.decision, mark.list, mark.reason,
                     absl::StrJoin(before, ",", absl::PairFormatter("=")), mark.cause},
                    " "));
}

bool ReadDecisionMark(const tensorflow::NodeDef& node, DecisionMark* mark) {
  const tensorflow::AttrValue* value = Find(node, kDecision);
  if (value == nullptr) return false;
  const std::vector<std::string> words = absl::StrSplit(value->s(), absl::MaxSplits(' ', 4));
  if (words.size() != 5) return false;
  *mark = {words[0], words[1], words[2], {}, words[4]};
  for (absl::string_view entry : absl::StrSplit(words[3], ',', absl::SkipEmpty())) {
    const std::pair<std::string, std::string> group =
        absl::StrSplit(entry, absl::MaxSplits('=', 1));
    mark->before.insert(group);
  }
  return true;
}

}  // namespace npu_precision
