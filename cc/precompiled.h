// The headers of TensorFlow and Abseil that nearly every source includes, precompiled once per
// build. They have 180,000 lines, and take most of a source's compile time. setup.py passes this
// file to each source with -include. Sources still include what they use, because Bazel and editors
// build without it.
//
// Headers that only some sources read (op.h, tensor.h, Grappler) are not here. The inline functions
// of a precompiled header cost every source time, whether it calls them or not.
#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tensorflow/core/framework/graph.pb.h"
#include "tensorflow/core/lib/core/errors.h"
