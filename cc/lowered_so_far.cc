#include "cc/lowered_so_far.h"

#include <atomic>
#include <map>
#include <mutex>
#include <set>

#include "cc/log_once.h"
#include "graph_passes/idle_mode.h"

namespace npu_precision {

namespace {

std::atomic<int64_t> float_nodes{0}, lowered{0};

struct Sessions {
  std::mutex mutex;
  std::map<std::string, IdleMode> modes;  // by name
  std::set<std::string> warned;           // names of modes
};

Sessions& InSessions() {
  static auto* sessions = new Sessions();
  return *sessions;
}

}  // namespace

void CountLowered(const Ledger& ledger) {
  float_nodes += ledger.counts.float_nodes;
  lowered += ledger.counts.lowered;
}

LoweredSoFar GetLoweredSoFar() {
  LoweredSoFar so_far;
  so_far.float_nodes = float_nodes;
  so_far.lowered = lowered;
  return so_far;
}

void CountInSession(const std::string& mode, const Counts& counts) {
  Sessions& sessions = InSessions();
  const std::lock_guard<std::mutex> lock(sessions.mutex);
  IdleMode& so_far = sessions.modes[mode];
  so_far.Add(counts);
  if (so_far.IsCertain() && sessions.warned.insert(mode).second) {
    WarnOnce(so_far.Sentence(mode));
  }
}

std::vector<std::string> IdleModes() {
  Sessions& sessions = InSessions();
  const std::lock_guard<std::mutex> lock(sessions.mutex);
  std::vector<std::string> lines;
  for (const auto& entry : sessions.modes) {
    if (entry.second.IsIdle() && sessions.warned.count(entry.first) == 0) {
      lines.push_back(entry.second.Sentence(entry.first));
    }
  }
  return lines;
}

}  // namespace npu_precision
