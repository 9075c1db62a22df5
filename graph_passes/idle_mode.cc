#include "graph_passes/idle_mode.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "graph_passes/decide/reasons.h"

namespace npu_precision {
namespace {

bool IsUsersWish(Reason reason) {
  return KindOf(reason) == ReasonKind::kNode || KindOf(reason) == ReasonKind::kLine ||
         reason == Reason::kFollowsForward;
}

}  // namespace

void IdleMode::Add(const Counts& counts) {
  lowered_ += counts.lowered;
  for (const auto& entry : counts.white_kept_by_reason) {
    if (IsUsersWish(entry.first)) continue;
    white_ += entry.second;
    white_kept_[entry.first] += entry.second;
  }
}

bool IdleMode::IsIdle() const { return white_ > 0 && lowered_ == 0; }

bool IdleMode::IsCertain() const {
  return IsIdle() && std::all_of(white_kept_.begin(), white_kept_.end(), [](const auto& entry) {
           return KindOf(entry.first) == ReasonKind::kSupport;
         });
}

std::string IdleMode::Sentence(const std::string& mode) const {
  const auto most = std::max_element(
      white_kept_.begin(), white_kept_.end(),
      [](const auto& one, const auto& other) { return one.second < other.second; });
  const char* remedy = KindOf(most->first) == ReasonKind::kSupport
                           ? "`npu-precision doctor` says what each mode does on this machine"
                           : "report_dir=... writes why, for `npu-precision explain`";
  return absl::StrCat(mode, " lowered nothing in a session: ", most->second, " of ", white_,
                      " ops on its white list keep their dtype for the reason ",
                      ReasonName(most->first), "; ", remedy);
}

}  // namespace npu_precision
