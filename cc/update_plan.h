// How the program of an update (update_program.h) runs over a block: in as few passes, and in as
// little memory, as its steps allow.
#ifndef NPU_PRECISION_CC_UPDATE_PLAN_H_
#define NPU_PRECISION_CC_UPDATE_PLAN_H_

#include <vector>

#include "graph_passes/graph/update_program.h"

namespace npu_precision {

enum class PassKind {
  kLoadVariable,  // of the number a
  kLoadTensor,    // of the number a
  kLoadScalar,    // of the number a
  kOne,
  kAdd,  // of the values a and b, as all below
  kSub,
  kMul,
  kDiv,
  kMulAdd,   // a * b + c, rounded twice
  kMulSub,   // a * b - c
  kSubMul,   // c - a * b
  kMoveBy,   // c + (a - d) * b, rounded three times
  kSubDiv,   // c - a / b
  kSqrtAdd,  // sqrt(a) + c
  kSquare,   // of the value a, as all below
  kSqrt,
  kRsqrt,
  kNeg,
  kStore,  // of the value b in the variable of the number a
};

constexpr int kNowhere = -1;

struct UpdatePass {
  PassKind kind;
  int a = 0, b = 0, c = 0, d = 0;  // values have the numbers of the steps that yield them
  int value = kNowhere;            // what the pass yields
  int slot = kNowhere;             // the block of memory for it
  int variable = kNowhere;         // or the variable that it writes at once
};

struct UpdatePlan {
  std::vector<UpdatePass> once;  // for values that are the same for all elements
  std::vector<UpdatePass> each;  // for each block
  int slots = 0;
};

// `in_place`: blocks are whole and variables do not overlap, so that passes may read a variable and
// write its new value where it is. Else all that is read is copied, and written at the end.
UpdatePlan PlanUpdate(const UpdateProgram& program, bool in_place);

}  // namespace npu_precision

#endif  // NPU_PRECISION_CC_UPDATE_PLAN_H_
