// Functions without bodies, for optimizers that have no use for them.
#ifndef NPU_PRECISION_CC_FUNCTION_STUBS_H_
#define NPU_PRECISION_CC_FUNCTION_STUBS_H_

#include "tensorflow/core/framework/function.pb.h"
#include "tensorflow/core/grappler/grappler_item.h"

namespace npu_precision {

// The functions' signatures; but with the bodies that a pass may inline.
tensorflow::FunctionDefLibrary WithStubs(const tensorflow::FunctionDefLibrary& library);

// The item with such functions.
tensorflow::grappler::GrapplerItem WithStubs(const tensorflow::grappler::GrapplerItem& item);

}  // namespace npu_precision

#endif  // NPU_PRECISION_CC_FUNCTION_STUBS_H_
