// The program of an update op (private_ops.h): what one element of each variable becomes. A pass
// writes it as an attribute, and the op's kernel runs it over all elements in one sweep.
//
// A step is "kind", "kind:a" or "kind:a:b". What a step yields has the number of the step:
//
//   variable:0 tensor:0 scalar:0 mul:1:2 sub:0:3 store:0:4    variable -= tensor * scalar
//
// "store:v:a" writes a variable. All stores come last, so that "variable" is always the value from
// before the update.
#ifndef NPU_PRECISION_GRAPH_PASSES_GRAPH_UPDATE_PROGRAM_H_
#define NPU_PRECISION_GRAPH_PASSES_GRAPH_UPDATE_PROGRAM_H_

#include <string>
#include <vector>

#include "tensorflow/core/lib/core/status.h"

namespace npu_precision {

enum class UpdateKind {
  kVariable,  // of the number a
  kTensor,    // of the number a; float32, or of a low type
  kScalar,    // of the number a; the same for all elements
  kOne,       // 1
  kAdd,       // of steps a and b, as all below
  kSub,
  kMul,
  kDiv,
  kSquare,  // of step a, as all below
  kSqrt,
  kRsqrt,
  kNeg,
  kStore,  // of step b in the variable of the number a
};

struct UpdateStep {
  UpdateKind kind;
  int a = 0, b = 0;
};

using UpdateProgram = std::vector<UpdateStep>;

// How many numbers a step of this kind has: 0, 1 or 2.
int NumbersOf(UpdateKind kind);
// Whether its first, its second number is that of a step.
bool ReadsFirst(UpdateKind kind);
bool ReadsSecond(UpdateKind kind);

std::string UpdateText(const UpdateProgram& program);

// Parses a text. InvalidArgument, which names the step: a kind that there is not, a number that is
// missing, or beyond the numbers of inputs, of a step that comes later or yields
// nothing; another step behind a store.
tensorflow::Status ParseUpdate(const std::string& text, int variables, int tensors, int scalars,
                               UpdateProgram* program);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_GRAPH_UPDATE_PROGRAM_H_
