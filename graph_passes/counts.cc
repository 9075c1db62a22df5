#include "graph_passes/counts.h"

#include <algorithm>
#include <cstdio>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph_passes/decide/reasons.h"

namespace npu_precision {
namespace {

// "1 byte", "320 bytes", "36.9 kB": decimal units.
std::string SizeText(int64_t bytes) {
  if (bytes < 1000) return absl::StrCat(bytes, bytes == 1 ? " byte" : " bytes");
  double size = bytes;
  const char* unit = "";
  for (const char* larger : {"kB", "MB", "GB", "TB"}) {
    if (size < 1000) break;
    size /= 1000;
    unit = larger;
  }
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f %s", size, unit);
  return text;
}

// A share below 100 % is never rounded up to it.
std::string Percent(double part, double whole) {
  const double percent = whole > 0 ? 100 * part / whole : 100;
  if (percent >= 100) return "100 %";
  char text[16];
  std::snprintf(text, sizeof(text), percent > 99 ? "%.1f %%" : "%.0f %%", std::min(percent, 99.9));
  return text;
}

std::string NodesText(const Counts& counts) {
  const bool only_raises = counts.raised > 0 && counts.lowered == 0;
  std::string text = absl::StrCat(only_raises ? "raised " : "lowered ",
                                  only_raises ? counts.raised : counts.lowered, " of ",
                                  counts.float_nodes, " float nodes");
  std::string about;
  if (only_raises) return text;
  if (counts.white > 0) about = absl::StrCat(counts.white_lowered, " of ", counts.white, " white");
  if (counts.flops > 0 && counts.products_of_known_size == counts.products) {
    absl::StrAppend(&about, about.empty() ? "" : ", ", Percent(counts.flops_lowered, counts.flops),
                    " of the flops");
  }
  if (!about.empty()) absl::StrAppend(&text, " (", about, ")");
  if (counts.raised > 0) absl::StrAppend(&text, ", raised ", counts.raised);
  return text;
}

std::string CastsText(const Counts& counts) {
  std::string text = absl::StrCat(counts.casts, counts.casts == 1 ? " Cast" : " Casts");
  if (!counts.measured) return text;
  const int unknown = counts.casts_of_unknown_size;
  if (unknown < counts.casts) {
    absl::StrAppend(&text, " of ", SizeText(counts.cast_bytes));
    if (unknown > 0) absl::StrAppend(&text, " and ", unknown, " of unknown size");
  } else if (unknown > 0) {
    absl::StrAppend(&text, " of unknown size");
  }
  return text;
}

// The reasons with the most nodes come first.
std::string KeptText(const Counts& counts) {
  std::vector<std::pair<int, std::string>> reasons;
  for (const auto& entry : counts.kept_by_reason) {
    reasons.emplace_back(-entry.second, ReasonName(entry.first));
  }
  std::sort(reasons.begin(), reasons.end());
  std::string text = absl::StrCat("; kept ", counts.kept, ": ");
  const char* separator = "";
  for (const auto& reason : reasons) {
    absl::StrAppend(&text, separator, -reason.first, " ", reason.second);
    separator = ", ";
  }
  return text;
}

}  // namespace

void Counts::AddNode(const CountedNode& node) {
  ++by_list[node.color];
  ++by_reason[node.reason];
  if (node.reason == Reason::kNeutralSource) {
    ++sources;
    return;
  }
  const bool is_lowered = node.verdict == Verdict::kLowered;
  const bool is_kept = node.verdict == Verdict::kKept;
  ++float_nodes;
  lowered += is_lowered;
  raised += node.verdict == Verdict::kRaised;
  kept += is_kept;
  if (is_kept) ++kept_by_reason[node.reason];
  if (node.color == ListColor::kWhite) {
    ++white;
    white_lowered += is_lowered;
    if (is_kept) ++white_kept_by_reason[node.reason];
  }
  computed_in_float32 += node.computes_in_float32;
  products += node.is_product;
  if (!node.is_product || node.flops < 0) return;
  ++products_of_known_size;
  flops += node.flops;
  if (is_lowered) flops_lowered += node.flops;
}

void Counts::AddCast(int64_t bytes) {
  ++casts;
  casts_of_unknown_size += bytes == kUnknownBytes;
  if (bytes != kUnknownBytes) cast_bytes += bytes;
}

void Counts::AddCollective(const CollectiveEntry& collective) {
  ++collectives;
  if (collective.bytes_before == kUnknownBytes) {
    ++collectives_of_unknown_size;
    return;
  }
  collective_bytes_before += collective.bytes_before;
  collective_bytes_after += collective.bytes_after;
}

std::string CountsSentence(const Counts& counts) {
  if (counts.float_nodes == 0) return "no node has a dtype that this mode is about";
  std::string text = absl::StrCat(NodesText(counts), ", ", CastsText(counts));
  if (counts.computed_in_float32 > 0) {
    absl::StrAppend(&text, ", ", counts.computed_in_float32, " computed in float32");
  }
  for (const auto& entry : counts.rewrites) {
    absl::StrAppend(&text, ", ", entry.second, " by ", entry.first);
  }
  if (counts.collective_bytes_before > counts.collective_bytes_after) {
    absl::StrAppend(&text, ", all-reduces of ", SizeText(counts.collective_bytes_after),
                    " instead of ", SizeText(counts.collective_bytes_before));
  }
  if (counts.kept > 0) absl::StrAppend(&text, KeptText(counts));
  return text;
}

}  // namespace npu_precision
