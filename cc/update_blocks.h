// Runs the program of an update over a range of elements.
#ifndef NPU_PRECISION_CC_UPDATE_BLOCKS_H_
#define NPU_PRECISION_CC_UPDATE_BLOCKS_H_

#include <cstdint>
#include <vector>

#include "graph_passes/graph/update_program.h"
#include "tensorflow/core/framework/types.pb.h"

namespace npu_precision {

struct UpdateTensor {
  const void* data;
  tensorflow::DataType dtype;  // float32, float16 or bfloat16
};

// Where the new value of a variable is written in a low type, too.
struct UpdateCopy {
  int variable;
  uint16_t* data;
  tensorflow::DataType dtype;
};

struct UpdateInputs {
  std::vector<float*> variables;
  std::vector<UpdateTensor> tensors;
  std::vector<float> scalars;
  std::vector<UpdateCopy> copies;
};

// Runs the program for the elements from `begin` up to `end`, in blocks that stay in the
// first-level cache. All steps compute in float32 and round as TensorFlow's kernels do; for rsqrt
// those are off by up to two units in the last place. May run in several threads on ranges that do
// not overlap.
void RunUpdate(const UpdateProgram& program, const UpdateInputs& inputs, int64_t begin,
               int64_t end);

}  // namespace npu_precision

#endif  // NPU_PRECISION_CC_UPDATE_BLOCKS_H_
