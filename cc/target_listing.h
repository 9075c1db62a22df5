// The built-in lists of a target as data for people: what `npu-precision lists` shows and writes.
#ifndef NPU_PRECISION_CC_TARGET_LISTING_H_
#define NPU_PRECISION_CC_TARGET_LISTING_H_

#include <string>

#include "include/json/json.h"

namespace npu_precision {

// Returns {"target": ..., "dtype": "float16,float32", "lists_of": "" or another target, "folders":
// {FOLDER: {OP: {...}}}}. FOLDER is "" or a device folder. OP is TensorFlow's name or, if it has
// none, Ascend's. The entry of an op has "list", "tensorflow" (whether this TensorFlow has it),
// "ascend" (Ascend's names that stand for it), "place" and "entry", in CANN's format. `target` is
// one of TargetNames().
Json::Value ListingJson(const std::string& target);

}  // namespace npu_precision

#endif  // NPU_PRECISION_CC_TARGET_LISTING_H_
