// The store of a flight recorder's counts. Python opens and drains it, a graph pass names the
// tensors, and kernels count their values.
#ifndef NPU_PRECISION_CC_FLIGHT_STORE_H_
#define NPU_PRECISION_CC_FLIGHT_STORE_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "graph_passes/analysis/watched_tensors.h"
#include "include/json/json.h"

namespace npu_precision {

enum class Fault { kNone = 0, kOverflow = 1, kInfinity = 2, kNan = 3 };

// The counts of a tensor in one step, or in all iterations of its loop.
struct TensorCounts {
  // The largest finite magnitude.
  float largest = 0;
  long long elements = 0, zeros = 0, infinities = 0, nans = 0;
  // `over`: finite values that the low type would make infinite. `under`: values below its normal
  // numbers, but not zero.
  long long over = 0, under = 0;
  // The first iteration in which a value was infinite, NaN or over, or -1; and the worst kind of
  // value in it.
  long long first_iteration = -1;
  Fault fault = Fault::kNone;

  Fault Worst() const;
  void Add(const TensorCounts& other, long long iteration);
};

// The watched tensors of one running graph, and their counts in its last steps.
class WatchedGraph {
 public:
  WatchedGraph(int number, std::vector<WatchedTensor> tensors, std::vector<LoweredNode> lowered);

  // Whether the step is recorded. A step is a run of the graph; TensorFlow gives it a unique
  // number.
  bool Records(long long step_id);
  void Add(long long step_id, int tensor, const TensorCounts& counts, long long iteration);

 private:
  friend class FlightStore;
  struct Step {
    long long id;
    long long number;
    std::vector<TensorCounts> counts;
    std::chrono::steady_clock::time_point last_change;
  };

  // These are called with mutex_ held.
  void Begin(long long recording);
  bool RecordsNew(long long step_id, int every_n_steps);
  void End(Step step);
  Json::Value Drain(bool all);
  Json::Value Description() const;
  Json::Value Lowered() const;

  const int number_;
  const std::vector<WatchedTensor> tensors_;
  const std::vector<LoweredNode> lowered_;
  // The latest step that is not recorded, so that its other tensors need no lock.
  std::atomic<long long> idle_{-1};
  std::mutex mutex_;
  long long recording_ = 0;  // the number of the store's recording that the members below belong to
  bool described_ = false;
  long long steps_ = 0, dropped_ = 0;
  std::deque<long long> recent_;  // steps that are known
  std::deque<Step> live_, done_;
};

class FlightStore {
 public:
  static FlightStore& Get();

  // Starts a recording. Graphs that are prepared to run from now on are watched.
  void Open(Watch watch, int every_n_steps);
  void Close();
  Watch watch() const { return watch_.load(std::memory_order_relaxed); }

  // Returns the number by which a kernel finds the graph.
  int AddGraph(std::vector<WatchedTensor> tensors, std::vector<LoweredNode> lowered);
  std::shared_ptr<WatchedGraph> Find(int number);

  // Returns a list of graphs with "graph", "steps", "dropped", "recorded" and, once, "tensors" and
  // "lowered".
  // With `all`, it includes steps that may still be running.
  Json::Value Drain(bool all);

 private:
  friend class WatchedGraph;
  std::atomic<Watch> watch_{Watch::kNothing};
  std::atomic<int> every_n_steps_{1};
  std::atomic<long long> recording_{0};
  std::mutex mutex_;
  std::deque<std::shared_ptr<WatchedGraph>> graphs_;
  int next_number_ = 0;
};

}  // namespace npu_precision

#endif  // NPU_PRECISION_CC_FLIGHT_STORE_H_
