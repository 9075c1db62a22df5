#include "cc/flight_store.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "graph_passes/graph/dtype_names.h"
#include "graph_passes/graph/fused_ops.h"
#include "tensorflow/core/lib/core/errors.h"

namespace npu_precision {
namespace {

using tensorflow::Status;

// The number of concurrent runs of one graph whose steps can be distinguished.
constexpr size_t kMostRecent = 64;
// The most bytes of one graph's steps that are kept until they are drained; more are dropped.
constexpr size_t kMostBytes = 16 << 20;
// How many recorded steps of one graph may be running: always the first number, and up to the
// second if they take few bytes. Nothing signals the end of a step, so the oldest counts as ended
// if there are more. A thread that is delayed in its step by that many steps of other threads loses
// its counts.
constexpr size_t kFewestLive = 4;
constexpr size_t kMostLive = kMostRecent;
constexpr size_t kLiveBytes = kMostBytes / 4;

size_t MostLive(size_t tensors) {
  const size_t fit = kLiveBytes / sizeof(TensorCounts) / std::max<size_t>(1, tensors);
  return std::min(kMostLive, std::max(kFewestLive, fit));
}
// A step has ended if a later one began and nothing was counted in it for this long.
constexpr std::chrono::milliseconds kSettled(500);

// Whether the parts of the scope are parts of the name, one after the other.
bool IsIn(const std::string& name, const std::string& scope) {
  return absl::StrContains(absl::StrCat("/", name, "/"), absl::StrCat("/", scope, "/"));
}

double MeanOf(const TensorCounts& counts) { return counts.statistics.sum / counts.Finite(); }

double DeviationOf(const TensorCounts& counts) {
  const double mean = MeanOf(counts);
  const double variance = counts.statistics.squares / counts.Finite() - mean * mean;
  return std::sqrt(std::max(0.0, variance));
}

double LengthOf(const TensorCounts& counts) { return std::sqrt(counts.statistics.squares); }

const char* Describe(Fault fault) {
  switch (fault) {
    case Fault::kOverflow:
      return "an overflow";
    case Fault::kInfinity:
      return "an infinity";
    default:
      return "a NaN";
  }
}

}  // namespace

WatchedGraph::WatchedGraph(int number, std::vector<WatchedTensor> tensors,
                           std::vector<LoweredNode> lowered)
    : number_(number), tensors_(std::move(tensors)), lowered_(std::move(lowered)) {}

bool WatchedGraph::Records(long long step_id, int tensor) {
  const FlightStore& store = FlightStore::Get();
  if (store.watch() == Watch::kNothing || idle_.load(std::memory_order_relaxed) == step_id) {
    return false;
  }
  std::lock_guard<std::mutex> lock(mutex_);
  Begin(store.recording_);
  if (chosen_.empty()) {
    idle_ = step_id;
    return false;
  }
  for (const Step& step : live_) {
    if (step.id == step_id) return tensor < 0 || is_chosen_[tensor];
  }
  if (std::find(recent_.begin(), recent_.end(), step_id) != recent_.end()) return false;
  return RecordsNew(step_id) && (tensor < 0 || is_chosen_[tensor]);
}

void WatchedGraph::Begin(long long recording) {
  if (recording_ == recording) return;
  recording_ = recording;
  selection_ = FlightStore::Get().selection();
  Choose();
  described_ = false;
  const auto before = selection_->before.find(number_);
  steps_ = before != selection_->before.end() ? before->second : 0;
  dropped_ = 0;
  recent_.clear();
  live_.clear();
  done_.clear();
}

void WatchedGraph::Choose() {
  is_chosen_.assign(tensors_.size(), false);
  chosen_.clear();
  const std::vector<std::string>& scopes = selection_->scopes;
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const auto has = [&](const std::string& scope) { return IsIn(tensors_[i].node, scope); };
    is_chosen_[i] = scopes.empty() || std::any_of(scopes.begin(), scopes.end(), has);
    if (is_chosen_[i]) chosen_.push_back(static_cast<int>(i));
  }
}

bool WatchedGraph::RecordsNew(long long step_id) {
  recent_.push_back(step_id);
  if (recent_.size() > kMostRecent) recent_.pop_front();
  const long long number = steps_++;
  const bool is_within = number >= selection_->first && number <= selection_->last;
  if (!is_within || (number - selection_->first) % selection_->every_n_steps != 0) {
    idle_ = step_id;
    return false;
  }
  if (live_.size() == MostLive(tensors_.size())) {
    End(std::move(live_.front()));
    live_.pop_front();
  }
  live_.push_back({step_id, number, std::vector<TensorCounts>(tensors_.size()),
                   std::chrono::steady_clock::now()});
  return true;
}

void WatchedGraph::End(Step step) {
  const size_t most = std::max<size_t>(1, kMostBytes / sizeof(TensorCounts) / tensors_.size());
  if (done_.size() < most) {
    done_.push_back(std::move(step));
  } else {
    ++dropped_;
  }
}

Status WatchedGraph::Add(long long step_id, int tensor, const TensorCounts& counts,
                         long long iteration) {
  std::lock_guard<std::mutex> lock(mutex_);
  for (Step& step : live_) {
    if (step.id != step_id || !is_chosen_[tensor]) continue;
    step.counts[tensor].Add(counts, iteration);
    step.last_change = std::chrono::steady_clock::now();
    const Fault fault = counts.Worst();
    if (!selection_->stops || fault == Fault::kNone) continue;
    const WatchedTensor& where = tensors_[tensor];
    return tensorflow::errors::InvalidArgument(
        "FlightRecorder: stop_at_infinity: ", Describe(fault), " of ", DtypeName(where.low_type),
        " in ", where.node.substr(0, where.node.rfind(kRenamedSuffix)), ", in step ", step.number,
        " of graph ", number_);
  }
  return Status();
}

Json::Value WatchedGraph::Recorded(const Step& step) const {
  const auto column = [&](const auto& get) {
    Json::Value values(Json::arrayValue);
    for (int tensor : chosen_) values.append(get(step.counts[tensor]));
    return values;
  };
  Json::Value row(Json::objectValue);
  row["step"] = Json::Int64(step.number);
  row["largest"] = column([](const TensorCounts& each) { return each.largest; });
  for (const auto& named :
       {std::make_pair("elements", &TensorCounts::elements),
        std::make_pair("zeros", &TensorCounts::zeros), std::make_pair("over", &TensorCounts::over),
        std::make_pair("under", &TensorCounts::under),
        std::make_pair("infinities", &TensorCounts::infinities),
        std::make_pair("nans", &TensorCounts::nans),
        std::make_pair("iteration", &TensorCounts::first_iteration)}) {
    const auto member = named.second;
    row[named.first] =
        column([member](const TensorCounts& each) { return Json::Int64(each.*member); });
  }
  row["fault"] = column([](const TensorCounts& each) { return static_cast<int>(each.fault); });
  if (!selection_->statistics) return row;
  const auto statistic = [&](const char* name, const auto& get) {
    row["statistics"][name] = column([&](const TensorCounts& each) {
      return each.statistics.IsEmpty() ? Json::Value() : Json::Value(get(each));
    });
  };
  statistic("mean", MeanOf);
  statistic("deviation", DeviationOf);
  statistic("norm_l1", [](const TensorCounts& each) { return each.statistics.magnitudes; });
  statistic("norm_l2", LengthOf);
  statistic("least", [](const TensorCounts& each) { return each.statistics.least; });
  statistic("most", [](const TensorCounts& each) { return each.statistics.most; });
  return row;
}

Json::Value WatchedGraph::Drain(bool all) {
  const auto settled = std::chrono::steady_clock::now() - kSettled;
  while (!live_.empty()) {
    const Step& step = live_.front();
    if (!all && (step.number + 1 == steps_ || step.last_change > settled)) break;
    End(std::move(live_.front()));
    live_.pop_front();
  }
  Json::Value root(Json::objectValue);
  root["graph"] = number_;
  root["steps"] = Json::Int64(steps_);
  root["dropped"] = Json::Int64(dropped_);
  root["recorded"] = Json::Value(Json::arrayValue);
  for (const Step& step : done_) root["recorded"].append(Recorded(step));
  done_.clear();
  if (!described_) {
    described_ = true;
    root["tensors"] = Description();
    root["lowered"] = Lowered();
  }
  return root;
}

Json::Value WatchedGraph::Description() const {
  Json::Value list(Json::arrayValue);
  for (int chosen : chosen_) {
    const WatchedTensor& tensor = tensors_[chosen];
    Json::Value row(Json::objectValue);
    row["node"] = tensor.node;
    row["op"] = tensor.op;
    row["port"] = tensor.port;
    row["device"] = tensor.device;
    row["dtype"] = DtypeName(tensor.dtype);
    row["low_type"] = DtypeName(tensor.low_type);
    row["place"] = tensor.place;
    row["loop"] = tensor.loop;
    row["readers"] = Json::Value(Json::arrayValue);
    for (const std::string& reader : tensor.readers) row["readers"].append(reader);
    list.append(row);
  }
  return list;
}

Json::Value WatchedGraph::Lowered() const {
  Json::Value list(Json::arrayValue);
  for (const LoweredNode& each : lowered_) {
    Json::Value row(Json::objectValue);
    row["node"] = each.node;
    row["place"] = each.place;
    list.append(row);
  }
  return list;
}

FlightStore& FlightStore::Get() {
  static auto* store = new FlightStore();
  return *store;
}

void FlightStore::Open(Watch watch, FlightSelection selection) {
  std::lock_guard<std::mutex> lock(mutex_);
  // Removes the graphs that no kernel uses any more.
  graphs_.erase(std::remove_if(graphs_.begin(), graphs_.end(),
                               [](const std::shared_ptr<WatchedGraph>& graph) {
                                 return graph.use_count() == 1;
                               }),
                graphs_.end());
  std::atomic_store(&selection_, std::shared_ptr<const FlightSelection>(
                                     std::make_shared<FlightSelection>(std::move(selection))));
  ++recording_;
  watch_ = watch;
}

void FlightStore::Close() { watch_ = Watch::kNothing; }

int FlightStore::AddGraph(std::vector<WatchedTensor> tensors, std::vector<LoweredNode> lowered) {
  std::lock_guard<std::mutex> lock(mutex_);
  graphs_.push_back(
      std::make_shared<WatchedGraph>(next_number_, std::move(tensors), std::move(lowered)));
  return next_number_++;
}

std::shared_ptr<WatchedGraph> FlightStore::Find(int number) {
  std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& graph : graphs_) {
    if (graph->number_ == number) return graph;
  }
  return nullptr;
}

Json::Value FlightStore::Drain(bool all) {
  std::lock_guard<std::mutex> lock(mutex_);
  Json::Value root(Json::arrayValue);
  for (const auto& graph : graphs_) {
    std::lock_guard<std::mutex> graph_lock(graph->mutex_);
    if (graph->recording_ == recording_ && graph->steps_ > 0) root.append(graph->Drain(all));
  }
  return root;
}

}  // namespace npu_precision
