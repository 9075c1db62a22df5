// The lists of the mixed precision modes.
#ifndef NPU_PRECISION_GRAPH_PASSES_LISTS_LIST_COLOR_H_
#define NPU_PRECISION_GRAPH_PASSES_LISTS_LIST_COLOR_H_

#include <string>

namespace npu_precision {

enum class ListColor : unsigned char {
  kWhite,     // may be lowered
  kBlack,     // must not be lowered
  kGray,      // follows its predecessors
  kUnlisted,  // in no file; keeps its dtype
};

constexpr ListColor kListColors[] = {ListColor::kWhite, ListColor::kBlack, ListColor::kGray,
                                     ListColor::kUnlisted};

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

inline ListColor ListColorFromName(const std::string& name) {
  for (ListColor color : kListColors) {
    if (name == ListColorName(color)) return color;
  }
  return ListColor::kUnlisted;
}

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_LISTS_LIST_COLOR_H_
