#include "reports/text/evidence.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace plumbline::reports {

namespace {

using model::Evidence;

constexpr std::array kinds = {Evidence::measured, Evidence::fitted, Evidence::published, Evidence::datasheet,
                              Evidence::assumed};

}  // namespace

std::vector<EvidenceShare> evidence_shares(const std::vector<model::ProvenanceEntry>& provenance) {
  std::vector<EvidenceShare> shares;
  for (const Evidence kind : kinds) {
    EvidenceShare share{kind};
    for (const model::ProvenanceEntry& entry : provenance) {
      if (entry.parameter.kind != kind) continue;
      share.share += entry.share_of_step;
      ++share.constants;
    }
    if (share.constants > 0) shares.push_back(share);
  }
  return shares;
}

std::vector<model::ProvenanceEntry> unmeasured(const std::vector<model::ProvenanceEntry>& provenance) {
  std::vector<model::ProvenanceEntry> entries;
  for (const model::ProvenanceEntry& entry : provenance) {
    const Evidence kind = entry.parameter.kind;
    if (kind == Evidence::datasheet || kind == Evidence::assumed) entries.push_back(entry);
  }
  std::stable_sort(entries.begin(), entries.end(),
                   [](const auto& a, const auto& b) { return a.share_of_step > b.share_of_step; });
  return entries;
}

std::string evidence_counts(const std::vector<model::Parameter>& parameters, std::string_view prefix) {
  std::string text;
  for (const Evidence kind : kinds) {
    const auto count = std::ranges::count_if(
        parameters, [&](const model::Parameter& p) { return p.kind == kind && p.name.starts_with(prefix); });
    if (count > 0) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, model::to_string(kind));
  }
  return text;
}

}  // namespace plumbline::reports
