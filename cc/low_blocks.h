// Converts float32 to the low types and back, as TensorFlow's Cast does but for the bits of a NaN,
// in loops that the compiler vectorizes.
#ifndef NPU_PRECISION_CC_LOW_BLOCKS_H_
#define NPU_PRECISION_CC_LOW_BLOCKS_H_

#include <cstdint>

#include "tensorflow/core/framework/types.pb.h"

// With wider vectors where the processor has them. Never with FMA, which would round once where
// TensorFlow's kernels round twice; nor under ThreadSanitizer, which starts after the code that
// chooses between them.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_THREAD__)
#define NPU_PRECISION_VECTORIZED                              \
  __attribute__((target_clones("avx512f", "avx2", "default"), \
                 optimize("O3", "no-math-errno", "fp-contract=off")))
#else
#define NPU_PRECISION_VECTORIZED
#endif

namespace npu_precision {

// `dtype` is float16 or bfloat16, of two bytes each.
void FromLow(const uint16_t* from, int64_t size, tensorflow::DataType dtype, float* to);
void ToLow(const float* from, int64_t size, tensorflow::DataType dtype, uint16_t* to);

}  // namespace npu_precision

#endif  // NPU_PRECISION_CC_LOW_BLOCKS_H_
