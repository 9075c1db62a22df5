#include "graph_passes/counts.h"

#include <algorithm>
#include <cstdio>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "graph_passes/decide/reasons.h"

namespace npu_precision {
namespace {

// More reasons than these are not named one by one.
constexpr size_t kMostReasons = 5;

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

bool OnlyRaises(const Counts& counts) { return counts.raised > 0 && counts.lowered == 0; }

// What most of the time goes into. All of them, and none, need no share.
std::string ProductsText(const Counts& counts) {
  if (counts.products == 0) return "";
  const int changed = counts.products_changed;
  std::string text = absl::StrCat(changed, " of ", counts.products, " matrix and convolution ops ");
  if (changed == 0) return absl::StrCat(text, OnlyRaises(counts) ? "raised; " : "lowered; ");
  absl::StrAppend(&text, "in ", absl::StrJoin(counts.products_in, " or "));
  const bool knows_flops = counts.products_of_known_size == counts.products && counts.flops > 0;
  if (changed < counts.products && knows_flops) {
    absl::StrAppend(&text, " (", Percent(counts.flops_changed, counts.flops),
                    " of their arithmetic)");
  }
  return absl::StrCat(text, "; ");
}

std::string NodesText(const Counts& counts) {
  if (OnlyRaises(counts)) {
    return absl::StrCat("raised ", counts.raised, " of ", counts.float_nodes, " float nodes");
  }
  std::string text =
      absl::StrCat("lowered ", counts.lowered, " of ", counts.float_nodes, " float nodes");
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
  int others = 0;
  for (size_t i = 0; i < reasons.size(); ++i) {
    if (i >= kMostReasons && reasons.size() > kMostReasons + 1) {
      others -= reasons[i].first;
      continue;
    }
    absl::StrAppend(&text, separator, -reasons[i].first, " ", reasons[i].second);
    separator = ", ";
  }
  if (others > 0) absl::StrAppend(&text, ", ", others, " for other reasons");
  return text;
}

// The nodes that are no part of the model's arithmetic. Sources have no decision to report.
std::string ApartText(const Counts& counts) {
  std::string text;
  const auto add = [&](int nodes, NodeRole role, const char* name) {
    if (nodes == 0) return;
    absl::StrAppend(&text, text.empty() ? "; apart: " : ", ", nodes, " of ", name);
    const auto changed = counts.changed_apart.find(role);
    if (changed == counts.changed_apart.end()) return;
    absl::StrAppend(&text, " (", changed->second, OnlyRaises(counts) ? " raised)" : " lowered)");
  };
  add(counts.variable_updates, NodeRole::kUpdatesVariable, "variable updates");
  add(counts.bookkeeping, NodeRole::kBookkeeping, "bookkeeping");
  return text;
}

}  // namespace

void Counts::AddNode(const CountedNode& node) {
  ++by_list[node.color];
  ++by_reason[node.reason];
  if (node.role != NodeRole::kComputes) {
    sources += node.role == NodeRole::kSource;
    variable_updates += node.role == NodeRole::kUpdatesVariable;
    bookkeeping += node.role == NodeRole::kBookkeeping;
    if (node.verdict != Verdict::kKept) ++changed_apart[node.role];
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
  if (!node.is_product) return;
  ++products;
  if (!is_kept) {
    ++products_changed;
    products_in.insert(node.changed_to);
  }
  if (node.flops < 0) return;
  ++products_of_known_size;
  flops += node.flops;
  if (is_lowered) flops_lowered += node.flops;
  if (!is_kept) flops_changed += node.flops;
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
  if (counts.float_nodes == 0) {
    return absl::StrCat("no node that computes has a dtype that this mode is about",
                        ApartText(counts));
  }
  std::string text = absl::StrCat(ProductsText(counts), NodesText(counts), ", ", CastsText(counts));
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
  return text + ApartText(counts);
}

}  // namespace npu_precision
