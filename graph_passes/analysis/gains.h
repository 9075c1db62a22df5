// The effect of an op on a value that comes back to it, in the next iteration of a loop or the next
// of many like steps: whether the op yields the value with a gain of about 1, and adds to it.
#ifndef NPU_PRECISION_GRAPH_PASSES_ANALYSIS_GAINS_H_
#define NPU_PRECISION_GRAPH_PASSES_ANALYSIS_GAINS_H_

#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "graph_passes/analysis/value_range.h"
#include "graph_passes/graph/graph_view.h"
#include "graph_passes/graph/op_set.h"

namespace npu_precision {

// How an op uses an input that comes from the previous iteration, call or step.
enum class Path : unsigned char { kEnds, kYields, kAdds };

class Gains {
 public:
  // `fed` are names of nodes. Paths end at nodes with `ends_path` set, by node id. All arguments
  // must outlive this object.
  Gains(const GraphView& view, const std::vector<ValueRange>& ranges,
        const std::set<std::string>& fed, const std::vector<bool>& ends_path);

  // The effect of the node on the input that `use` names.
  Path PathInto(const InputPort& use);

  // Whether the node is a product that may make the value that `use` reads larger.
  bool MayGrow(const InputPort& use);

  // Sets, by node id, whether the node is on a path with such a product. There, a factor that
  // shrinks a value does not end the path: the gain of (99 * mean + x) / 100 is 0.99.
  void set_grows(std::vector<bool> grows) { grows_ = std::move(grows); }

  // Whether a matrix product or convolution adds to an input if its other factor does not vary, as
  // in the linear recurrence x = Ax + b. Paths then end at activations, so that those of a
  // recurrent cell do not pass its products. By default they end at products.
  void set_passes_products(bool passes) { passes_products_ = passes; }

 private:
  // The inputs that the op yields with a gain of 1.
  struct Yields {
    Path path;
    int first, last;  // inputs, both included
  };
  // The effect of a product on one factor, which depends on the other factor.
  enum class Gain : unsigned char { kForgets, kShrinks, kKeeps };
  enum class Known : char { kNo, kForgets, kKeeps };
  static const std::unordered_map<std::string, Yields>& Table();

  bool IsValue(const InputPort& use) const { return view_.GroupOf(use) != kNoGroup; }
  Gain GainOf(const InputPort& use);
  ValueRange FactorsRange(const OutputPort& factor, bool divides) const;
  bool ComesFromModel(int id);
  Path PathIntoProduct(const InputPort& use) const;

  const GraphView& view_;
  const std::vector<ValueRange>& ranges_;
  const std::vector<bool> varies_;
  const std::vector<bool>& ends_path_;
  const OpSet moves_values_, multiplies_, divides_, of_model_, signs_, products_, activates_;
  bool passes_products_ = false;
  std::vector<Known> forgets_;  // by node id: the result of ComesFromModel
  std::vector<Yields> of_op_;   // by the number of the op in the view
  std::vector<bool> grows_;
};

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_ANALYSIS_GAINS_H_
