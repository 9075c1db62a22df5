#include "graph_passes/decide/kept_by_mark.h"

#include "graph_passes/graph/marks.h"

namespace npu_precision {

Reason KeptByMark(const tensorflow::NodeDef& node, const DecideContext& context, bool is_named) {
  const tensorflow::DataType mark = AutocastMark(node);
  const bool is_disabled = mark == tensorflow::DT_FLOAT;
  if (context.autocast.count(is_disabled ? tensorflow::DT_INVALID : mark) == 0) {
    return is_disabled && !is_named ? Reason::kAutocastDisabled : Reason::kOutsideAutocast;
  }
  if (is_named) return Reason::kNone;
  if (HasKeepDtypeMark(node)) return Reason::kKeepDtypeScope;
  return is_disabled ? Reason::kAutocastDisabled : Reason::kNone;
}

}  // namespace npu_precision
