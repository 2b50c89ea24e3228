// What a prediction rests on, by part of the step and by where its constants come from (plumbline show coverage).
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <numeric>
#include <span>
#include <string_view>
#include <utility>

#include "reports/csv/csv_table.h"
#include "reports/text/step/describe.h"
#include "reports/text/step/summary.h"
#include "reports/text/table.h"

namespace plumbline::reports {
namespace {

constexpr std::size_t most_shown = 10;
constexpr double shown_share = 0.0005;  // of the step

enum class Origin { here, elsewhere, stated, assumed };
constexpr std::array<std::string_view, 4> origin_names = {"this GPU", "another GPU", "stated", "assumed"};
using Shares = std::array<double, origin_names.size()>;

// A part of a step: the beginnings of its constants' names, separated by spaces, and what measures them.
struct Part {
  std::string_view name, prefixes, measure;
};
constexpr std::array parts = {
    Part{"GEMMs", "gemm.", "its cases, by plumbline measure"},
    Part{"attention", "attention.", "its cases, by plumbline measure"},
    Part{"memory-bound kernels", "memory. kernel. router.", "its cases, by plumbline measure"},
    Part{"dispatch and combine", "exchange. permute.", "the dispatcher's own test"},
    Part{"collectives", "collective. network.", "nccl-tests, for plumbline import"},
    Part{"power", "power.", "GEMMs held for seconds, by plumbline measure"},
    Part{"software", "host. sharding. overlap. allocator.", "three steps, for plumbline calibrate --stack"},
    Part{"rest", "", ""}};
constexpr std::size_t software = parts.size() - 2, rest = parts.size() - 1;

// Constants of a stack are the software's, whatever their name.
std::size_t part_of(const model::Parameter& constant) {
  if (!constant.stack.empty()) return software;
  for (std::size_t i = 0; i < rest; ++i) {
    std::string_view left = parts[i].prefixes;
    while (!left.empty()) {
      const std::string_view prefix = left.substr(0, left.find(' '));
      if (constant.name.starts_with(prefix)) return i;
      left.remove_prefix(std::min(left.size(), prefix.size() + 1));
    }
  }
  return rest;
}

// A recipe takes a constant from the profile of a neighbor with the source "as h100 (345.6 GB/s, fitted)"
// (calibrate/fit/recipe/neighbor_step.cc). Of another constant of its own, whose name has a dot, it writes the same.
// What is assumed there was measured on no GPU.
bool is_transferred(const model::Parameter& constant) {
  constexpr std::string_view as = "as ";
  const std::string_view source = constant.source;
  const std::size_t end = source.find(" (");
  if (!source.starts_with(as) || end == std::string_view::npos) return false;
  return source.substr(as.size(), end - as.size()).find_first_of(" .") == std::string_view::npos &&
         !source.substr(0, source.find(')')).ends_with(to_string(model::Evidence::assumed));
}

Origin origin_of(const CoveredStep& step, const model::Parameter& constant) {
  using enum model::Evidence;
  if (constant.kind == published || constant.kind == datasheet) return Origin::stated;
  if (constant.kind == assumed) return is_transferred(constant) ? Origin::elsewhere : Origin::assumed;
  const std::vector<std::string>& holds = step.profile_devices;
  const bool here = !constant.stack.empty() || holds.empty() || std::ranges::find(holds, step.device) != holds.end();
  return here ? Origin::here : Origin::elsewhere;
}

std::string share_text(double share) { return share < shown_share ? "" : percent(share); }

double sum(const Shares& shares) { return std::accumulate(shares.begin(), shares.end(), 0.0); }

std::string_view origin_name(const CoveredStep& step, const model::Parameter& constant) {
  return origin_names[static_cast<std::size_t>(origin_of(step, constant))];
}

std::string parts_table(const std::array<Shares, parts.size()>& shares) {
  Table table("part | >share | >this GPU | >another GPU | >stated | >assumed | to measure");
  Shares sums{};
  const auto row = [&](std::string_view name, double all, const Shares& of, std::string_view measure = "") {
    std::vector<std::string> cells = {std::string(name), percent(all)};
    for (const double share : of) cells.push_back(share_text(share));
    cells.emplace_back(measure);
    table.add(std::move(cells));
  };
  for (std::size_t i = 0; i < parts.size(); ++i) {
    std::ranges::transform(sums, shares[i], sums.begin(), std::plus<>());
    const double all = sum(shares[i]);
    const bool known = all - shares[i][static_cast<std::size_t>(Origin::here)] < shown_share;
    if (all >= shown_share) row(parts[i].name, all, shares[i], known ? "" : parts[i].measure);
  }
  const double rest_of_step = std::max(0.0, 1 - sum(sums));
  if (rest_of_step >= shown_share) row("not divided", rest_of_step, {});
  table.add_rule();
  row("step", sum(sums) + rest_of_step, sums);
  return table.to_string();
}

}  // namespace

std::string constants_table(std::string_view title, const std::vector<model::ProvenanceEntry>& entries,
                            std::size_t most, bool sources) {
  if (entries.empty()) return "";
  const std::size_t shown = std::min(most, entries.size());
  Table table(fmt::format("constant | >value | unit | kind | >share{}", sources ? " | source" : ""));
  for (const model::ProvenanceEntry& entry : std::span(entries).first(shown)) {
    const model::Parameter& constant = entry.parameter;
    std::vector<std::string> cells = {constant.name, fmt::format("{:.5g}", constant.value), constant.unit,
                                      std::string(to_string(constant.kind)), percent(entry.share_of_step)};
    if (sources) cells.push_back(constant.source);
    table.add(std::move(cells));
  }
  return paragraph(fmt::format("{} ({} of {}):", title, shown, entries.size())) + table.to_string();
}

std::string coverage_text(const CoveredStep& step) {
  std::array<Shares, parts.size()> shares{};
  std::vector<model::ProvenanceEntry> missing;
  for (const model::ProvenanceEntry& entry : step.result.provenance) {
    const Origin origin = origin_of(step, entry.parameter);
    shares[part_of(entry.parameter)][static_cast<std::size_t>(origin)] += entry.share_of_step;
    if (origin != Origin::here && entry.share_of_step >= shown_share) missing.push_back(entry);
  }
  return paragraph(fmt::format(
             "{} on {}, {}: shares of the step, the time of rank 0's kernels and of transfers that it waits for, by "
             "the constants that give it and where these come from. Bubble, messages between stages and optimizer rest "
             "on all constants and are not divided.",
             model_name(step.plan), hardware(step.plan, step.device), constants_words(step.result))) +
         parts_table(shares) + constants_table("Not measured on this GPU", missing, most_shown, true);
}

std::string coverage_csv(const CoveredStep& step) {
  CsvTable table({"part", "parameter", "origin", "kind", "share_of_step", "source"});
  for (const model::ProvenanceEntry& entry : step.result.provenance) {
    const model::Parameter& constant = entry.parameter;
    table.row(parts[part_of(constant)].name, std::string_view(constant.name), origin_name(step, constant),
              to_string(constant.kind), entry.share_of_step, std::string_view(constant.source));
  }
  return table.text();
}

}  // namespace plumbline::reports
