// The lists of the mixed precision modes.
#ifndef NPU_PRECISION_GRAPH_PASSES_LISTS_LIST_COLOR_H_
#define NPU_PRECISION_GRAPH_PASSES_LISTS_LIST_COLOR_H_

namespace npu_precision {

enum class ListColor : unsigned char {
  kWhite,     // may be lowered
  kBlack,     // must not be lowered
  kGray,      // follows its predecessors
  kUnlisted,  // in no file: keeps its dtype
};

inline const char* ListColorName(ListColor color) {
  switch (color) {
    case ListColor::kWhite:
      return "white";
    case ListColor::kBlack:
      return "black";
    case ListColor::kGray:
      return "gray";
    case ListColor::kUnlisted:
      return "unlisted";
  }
  return "unlisted";
}

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_LISTS_LIST_COLOR_H_
