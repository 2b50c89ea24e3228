#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "calibrate/import/kernel_classes.h"
#include "calibrate/match/detail/comparing.h"
#include "calibrate/match/detail/matching.h"

namespace plumbline::calibrate {
namespace {

using model::Timeline;

const model::Kernel& kernel_at(const Timeline& timeline, std::size_t span) {
  return timeline.kernel_of(timeline.spans[span]);
}

// The highest rate of a GEMM that either side takes for this one. Clocks may be above those of datasheets: an H100's is
// 1,980 MHz at most, its datasheet counts 1,830.
double highest_rate(const model::Device& device, const model::Kernel& predicted, const model::Kernel& measured) {
  constexpr double clocks = 1.1;
  const auto has = [&](std::string_view format) {
    return predicted.key.empty() || predicted.key.find(format) != std::string::npos ||
           measured.class_name.find(format) != std::string::npos;
  };
  const double fp4 = has("fp4") ? device.nvfp4_peak.value() : 0, fp8 = has("fp8") ? device.fp8_peak.value() : 0;
  return clocks * std::max({fp4, fp8, device.bf16_peak.value()});
}

// GEMMs of one shape of the plan whose matches have other FLOPs.
struct OtherGemm {
  std::string text;
  double seconds = 0;
};

std::string shape_text(const std::array<double, 3>& extents) {
  return fmt::format("{:.0f} x {:.0f} x {:.0f}", extents[0], extents[1], extents[2]);
}

class ShapeCheck {
 public:
  ShapeCheck(const Timeline& measured, const TraceComparison& comparison) : c_(comparison) {
    for (const MatchItem& item : match_items(measured, {})) {
      if (item.extents[0] == 0) continue;
      const auto span = static_cast<std::size_t>(item.span);
      const std::int32_t own = c_.match.predicted_of[span];
      const std::string shape = shape_text(item.extents);
      if (own < 0)
        add(shape, fmt::format("the plan has no GEMM {}", shape), item.seconds);
      else
        shapes_.try_emplace(own, shape);
    }
    const std::vector<MeasuredPart> parts = measured_parts(c_.match, c_.predicted, measured);
    for (const auto& [span, shape] : shapes_) {
      const auto i = static_cast<std::size_t>(span);
      const model::Kernel& kernel = kernel_at(c_.predicted, i);
      constexpr double tolerance = 0.05;  // groups of experts have as many rows as the router gives them
      if (kernel.gemm.empty() || kernel.extents[3] > 1 || parts[i].flops <= 0 || kernel.flops <= 0) continue;
      const double ratio = parts[i].flops / kernel.flops;
      if (std::abs(ratio - 1) <= tolerance)
        same_s += parts[i].seconds;
      else
        add(kernel.gemm + kernel.gemm_kind,
            fmt::format("{} {} is {} in the plan, {} in the trace with {:.2f} times the FLOPs", kernel.gemm,
                        kernel.gemm_kind, shape_text({kernel.extents[0], kernel.extents[1], kernel.extents[2]}), shape,
                        ratio),
            parts[i].seconds);
    }
  }

  // Describes those that take the longest.
  std::string text() const {
    std::vector<OtherGemm> sorted;
    for (const auto& [key, other] : others_) sorted.push_back(other);
    std::ranges::stable_sort(sorted, std::greater<>{}, &OtherGemm::seconds);
    constexpr std::size_t most = 3;
    std::string text;
    for (std::size_t i = 0; i < std::min(most, sorted.size()); ++i) text += (i > 0 ? "; " : "") + sorted[i].text;
    return text;
  }

  double same_s = 0, other_s = 0;

 private:
  void add(const std::string& key, const std::string& text, double seconds) {
    OtherGemm& other = others_.try_emplace(key, OtherGemm{text}).first->second;
    other.seconds += seconds;
    other_s += seconds;
  }

  const TraceComparison& c_;
  std::map<std::int32_t, std::string> shapes_;  // by predicted span, of the first kernel that it ran as
  std::map<std::string, OtherGemm> others_;
};

// What shows on which side tokens go to experts.
struct Experts {
  bool planned = false, expected = false;  // of the plan; of it in the part that the trace holds
  bool sent = false, routed = false;       // in the trace: an all-to-all; any kernel of a router
};

Experts experts_of(const Timeline& measured, const TraceComparison& comparison) {
  const auto transfers = [](std::string_view row) { return row == "dispatch" || row == "combine"; };
  const auto of_experts = [&](std::string_view row) { return row == "permute" || transfers(row); };
  Experts found;
  for (const model::Kernel& kernel : comparison.predicted.kernels) found.planned |= of_experts(kernel.row);
  for (const model::ComparedTime& row : comparison.classes)
    found.expected |= of_experts(row.name) && row.predicted_s.value_or(0) > 0;
  for (const model::Kernel& kernel : measured.kernels) {
    found.sent |= transfers(kernel.row);
    found.routed |= found.sent || kernel.class_name == "router_topk" || kernel.class_name == "permute";
  }
  return found;
}

// Returns the share of the trace's kernel time whose names have no class.
double unknown_share(const Timeline& measured, const StepMatch& match) {
  double seconds = 0;
  for (std::size_t i = 0; i < measured.spans.size(); ++i)
    if (measured.spans[i].kernel >= 0 && kernel_at(measured, i).row == other_class)
      seconds += measured.spans[i].seconds();
  return match.all_s > 0 ? seconds / match.all_s : 0;
}

// Returns the share of these kernels' GEMMs and attention that match one of the other side.
double matched_share(const std::vector<MatchItem>& items, const std::vector<std::int32_t>& of_span) {
  double found = 0, all = 0;
  for (const MatchItem& item : items) {
    if (!item.anchor()) continue;
    all += item.seconds;
    found += of_span[static_cast<std::size_t>(item.span)] < 0 ? 0 : item.seconds;
  }
  return all > 0 ? found / all : 1;
}

// Whether a GEMM is one of a layer: heads run in chunks or with a padded vocabulary, and adapters have a small rank.
bool of_layer(const std::array<double, 3>& extents, double vocabulary) {
  constexpr double least = 256, padding = 0.9;
  return std::ranges::min(extents) > least && std::max(extents[0], extents[1]) < padding * vocabulary;
}

// Returns the FLOPs of the trace's gradients of weights over those of the plan's step. By their shapes they are the
// GEMMs that sum over the tokens of a micro-batch, and no recomputation runs them again. Nothing where the plan has
// experts, where other GEMMs sum over as many values, or where shapes are not recorded.
std::optional<double> weight_gradient_ratio(const Timeline& measured, const TraceComparison& comparison) {
  std::map<double, double> planned;  // FLOPs by what is summed over
  std::set<double> others;
  double vocabulary = std::numeric_limits<double>::infinity();
  const std::vector<MatchItem> items = match_items(comparison.predicted, comparison.rank);
  for (const MatchItem& item : items) {
    const model::Kernel& kernel = kernel_at(comparison.predicted, static_cast<std::size_t>(item.span));
    if (kernel.extents[3] > 1) return std::nullopt;
    if (kernel.gemm.ends_with("output") && kernel.gemm_kind == "fprop") vocabulary = kernel.extents[1];
  }
  for (const MatchItem& item : items) {
    if (item.row > MatchRow::weight_gradient || item.extents[0] == 0) continue;
    const model::Kernel& kernel = kernel_at(comparison.predicted, static_cast<std::size_t>(item.span));
    if (item.row == MatchRow::weight_gradient && of_layer(item.extents, vocabulary))
      planned[item.extents[2]] += kernel.flops;
    else if (item.row == MatchRow::gemm)
      others.insert(item.extents[2]);
  }
  for (const double inner : others) planned.erase(inner);
  double wanted = 0, ran = 0, known_s = 0, unknown_s = 0;
  for (const auto& [inner, flops] : planned) wanted += flops;
  for (const MatchItem& item : match_items(measured, {})) {
    if (item.row > MatchRow::weight_gradient) continue;
    (item.extents[0] > 0 ? known_s : unknown_s) += item.seconds;
    if (planned.contains(item.extents[2]) && of_layer(item.extents, vocabulary))
      ran += traced_flops(kernel_at(measured, static_cast<std::size_t>(item.span)));
  }
  constexpr double most_unknown = 0.05;
  if (wanted <= 0 || known_s <= 0 || unknown_s > most_unknown * known_s) return std::nullopt;
  return ran / wanted;
}

model::Failure another_run(const std::string& what) {
  return model::wrong_input("", "the trace is of another run than the plan: " + what,
                            "compare it with the plan that ran: its model, batch, layout and recomputation");
}

}  // namespace

void undo_impossible(const Timeline& predicted, const Timeline& measured, const model::Device& device,
                     StepMatch& match) {
  const std::vector<MeasuredPart> parts = measured_parts(match, predicted, measured);
  std::vector<bool> impossible(predicted.spans.size(), false);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].seconds <= 0 || match.measured_of[i] < 0) continue;
    const model::Kernel& kernel = kernel_at(predicted, i);
    const bool experts = kernel.extents[3] > 1 && parts[i].flops <= 0;  // whose rows are known to the router alone
    if (kernel.gemm.empty() || experts) continue;
    const double flops = parts[i].flops > 0 ? std::min(parts[i].flops, kernel.flops) : kernel.flops;
    const model::Kernel& own = kernel_at(measured, static_cast<std::size_t>(match.measured_of[i]));
    impossible[i] = flops > highest_rate(device, kernel, own) * parts[i].seconds;
    if (impossible[i]) match.measured_of[i] = -1;
  }
  for (std::size_t j = 0; j < measured.spans.size(); ++j) {
    const std::int32_t own = match.predicted_of[j];
    if (own < 0 || !impossible[static_cast<std::size_t>(own)] || match.by[j] == MatchedBy::neighbors) continue;
    const double seconds = measured.spans[j].seconds();
    match.matched_s -= seconds;
    match.reordered_s -= match.by[j] == MatchedBy::other_order ? seconds : 0;
    match.predicted_of[j] = -1;
    match.by[j] = MatchedBy::nothing;
  }
}

model::Result<void> check_same_run(const Timeline& measured, bool whole_step, TraceComparison& comparison) {
  const Experts experts = experts_of(measured, comparison);
  if (experts.sent && !experts.planned)
    return another_run("tokens of the trace go to experts, and the model of the plan has none");
  const ShapeCheck shapes(measured, comparison);
  constexpr double little = 0.02;
  if (shapes.other_s > shapes.same_s) return another_run(shapes.text());
  const auto gradients = whole_step ? weight_gradient_ratio(measured, comparison) : std::nullopt;
  if (gradients && std::abs(*gradients - 1) > little)
    return another_run(
        fmt::format("its gradients of weights have {:.0f} % of the plan's FLOPs, as of {} layers or "
                    "micro-batches",
                    100 * *gradients, *gradients < 1 ? "fewer" : "more"));
  if (shapes.other_s > little * shapes.same_s)
    comparison.notes.push_back(fmt::format("GEMMs differ from the plan's: {}.", shapes.text()));
  constexpr double most_unknown = 0.1;  // names without a class leave open what is missing
  if (unknown_share(measured, comparison.match) > most_unknown) return {};
  if (experts.expected && !experts.routed)
    return another_run("the model of the plan has experts, and no kernel of the trace routes tokens to any");
  constexpr double least = 0.6;  // a recomputation more or less leaves three quarters
  const double ran = matched_share(match_items(comparison.predicted, comparison.rank), comparison.match.measured_of);
  if (whole_step && ran < least)
    return another_run(
        fmt::format("it has {:.0f} % of the step's GEMMs and attention, as of fewer layers or "
                    "micro-batches",
                    100 * ran));
  const double predicted = matched_share(match_items(measured, {}), comparison.match.predicted_of);
  if (predicted < least)
    return another_run(
        fmt::format("{:.0f} % of its GEMMs and attention are predicted, as of more layers or "
                    "micro-batches",
                    100 * predicted));
  return {};
}

}  // namespace plumbline::calibrate
