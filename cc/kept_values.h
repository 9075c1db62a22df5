// What a rewritten body keeps in float32, of the arguments of functions that it calls and of its
// own results.
#ifndef NPU_PRECISION_CC_KEPT_VALUES_H_
#define NPU_PRECISION_CC_KEPT_VALUES_H_

#include <string>
#include <unordered_map>
#include <vector>

#include "tensorflow/core/framework/graph.pb.h"

namespace npu_precision {

enum class Kept : unsigned char {
  kNo,       // not float32, or lowered
  kNeutral,  // a constant, a variable or an argument
  kYes,      // a float32 that some node computed
};

// Marks the arguments of a body that are kept.
void MarkKept(const std::vector<bool>& kept, tensorflow::GraphDef* body);

class KeptValues {
 public:
  explicit KeptValues(const tensorflow::GraphDef& body);  // must outlive this object

  // For a call, loop or branch: by argument of the function, what its value is. Empty for other
  // nodes.
  std::vector<Kept> Arguments(const tensorflow::NodeDef& node) const;
  std::vector<Kept> Results() const;
  // By result, whether it is the argument of the same number.
  std::vector<bool> Invariant() const;

 private:
  // The node that yields the value, behind Identity nodes; nullptr if it is not in the body.
  const tensorflow::NodeDef* ProducerOf(const std::string& input) const;
  Kept Of(const std::string& input) const;

  const tensorflow::GraphDef& body_;
  std::unordered_map<std::string, const tensorflow::NodeDef*> nodes_;
};

}  // namespace npu_precision

#endif  // NPU_PRECISION_CC_KEPT_VALUES_H_
