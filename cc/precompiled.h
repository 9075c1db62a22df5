// What nearly every source reads of TensorFlow and Abseil, compiled once per build: these headers
// are 180,000 lines, and most of a source's time. setup.py gives it to each source with -include.
// Sources include what they use all the same, since Bazel and editors build without it.
//
// Not here: what only some read (op.h, tensor.h, Grappler). The inline functions of a precompiled
// header cost every source, whether it calls them or not.
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
