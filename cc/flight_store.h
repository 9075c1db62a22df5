// What a flight recorder sees of tensors. Python opens and drains it, a graph pass names the
// tensors, and kernels count what is in them.
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

// What is in a tensor in one step, or in all iterations of its loop.
struct TensorCounts {
  // The largest magnitude that is finite.
  float largest = 0;
  long long elements = 0, zeros = 0, infinities = 0, nans = 0;
  // Finite values that the low type would make infinite, and values that are not zero and below
  // its normal numbers.
  long long over = 0, under = 0;
  // The first iteration in which a value was not finite or over, or -1; and what was worst there.
  long long first_iteration = -1;
  Fault fault = Fault::kNone;

  Fault Worst() const;
  void Add(const TensorCounts& other, long long iteration);
};

// The watched tensors of one graph that runs, and what was counted in its last steps.
class WatchedGraph {
 public:
  WatchedGraph(int number, std::vector<WatchedTensor> tensors);

  // Whether the step is one that is recorded. A step is a run of the graph, which TensorFlow gives
  // a number that no other run has.
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

  // Each with mutex_ held.
  void Begin(long long recording);
  bool RecordsNew(long long step_id, int every_n_steps);
  void End(Step step);
  Json::Value Drain(bool all);
  Json::Value Description() const;

  const int number_;
  const std::vector<WatchedTensor> tensors_;
  // A step that is not recorded, so that its other tensors need no lock.
  std::atomic<long long> idle_{-1};
  std::mutex mutex_;
  long long recording_ = 0;  // of the store, to which the rest belongs
  bool described_ = false;
  long long steps_ = 0, dropped_ = 0;
  std::deque<long long> recent_;  // steps that are known
  std::deque<Step> live_, done_;
};

class FlightStore {
 public:
  static FlightStore& Get();

  // Graphs that are made ready to run from now on are watched, and what is watched is recorded.
  void Open(Watch watch, int every_n_steps);
  void Close();
  Watch watch() const { return watch_.load(std::memory_order_relaxed); }

  // Returns the number by which a kernel finds the graph.
  int AddGraph(std::vector<WatchedTensor> tensors);
  std::shared_ptr<WatchedGraph> Find(int number);

  // A list of graphs with "graph", "steps", "dropped", "recorded" and, once, "tensors".
  // With `all`, steps count that may be running.
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
