// The store of a flight recorder's counts. Python opens and drains it, a graph pass names the
// tensors, and kernels count their values.
#ifndef NPU_PRECISION_CC_FLIGHT_STORE_H_
#define NPU_PRECISION_CC_FLIGHT_STORE_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cc/tensor_counts.h"
#include "graph_passes/analysis/watched_tensors.h"
#include "include/json/json.h"
#include "tensorflow/core/lib/core/status.h"

namespace npu_precision {

// What an open recorder records.
struct FlightSelection {
  // Of the runs of a graph from `first` to `last`, counted from 0: the first of every so many.
  long long first = 0, last = std::numeric_limits<long long>::max();
  int every_n_steps = 1;
  std::vector<std::string> scopes;  // of the tensors; all tensors if it is empty
  bool statistics = false;
  // Whether a step fails where a value is not finite.
  bool stops = false;
  // By graph: its runs before another recorder took over for a while.
  std::map<int, long long> before;
};

// The watched tensors of one running graph, and their counts in its last steps.
class WatchedGraph {
 public:
  WatchedGraph(int number, std::vector<WatchedTensor> tensors, std::vector<LoweredNode> lowered);

  // Whether the step is recorded. A step is a run of the graph; TensorFlow gives it a unique
  // number. With a tensor: whether that is recorded in the step.
  bool Records(long long step_id, int tensor = -1);
  // Returns an error if the step stops here.
  tensorflow::Status Add(long long step_id, int tensor, const TensorCounts& counts,
                         long long iteration);

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
  void Choose();
  bool RecordsNew(long long step_id);
  void End(Step step);
  Json::Value Drain(bool all);
  Json::Value Recorded(const Step& step) const;
  Json::Value Description() const;
  Json::Value Lowered() const;

  const int number_;
  const std::vector<WatchedTensor> tensors_;
  const std::vector<LoweredNode> lowered_;
  // The latest step that is not recorded, so that its other tensors need no lock.
  std::atomic<long long> idle_{-1};
  std::mutex mutex_;
  long long recording_ = 0;  // the number of the store's recording that the members below belong to
  std::shared_ptr<const FlightSelection> selection_ = std::make_shared<FlightSelection>();
  std::vector<bool> is_chosen_;  // by tensor
  std::vector<int> chosen_;
  bool described_ = false;
  long long steps_ = 0, dropped_ = 0;
  std::deque<long long> recent_;  // steps that are known
  std::deque<Step> live_, done_;
};

class FlightStore {
 public:
  static FlightStore& Get();

  // Starts a recording. Graphs that are prepared to run from now on are watched.
  void Open(Watch watch, FlightSelection selection);
  void Close();
  Watch watch() const { return watch_.load(std::memory_order_relaxed); }
  std::shared_ptr<const FlightSelection> selection() const { return std::atomic_load(&selection_); }

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
  std::shared_ptr<const FlightSelection> selection_ = std::make_shared<FlightSelection>();
  std::atomic<long long> recording_{0};
  std::mutex mutex_;
  std::deque<std::shared_ptr<WatchedGraph>> graphs_;
  int next_number_ = 0;
};

}  // namespace npu_precision

#endif  // NPU_PRECISION_CC_FLIGHT_STORE_H_
