#include "calibrate/match/detail/matching.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "calibrate/chunk/chunk.h"
#include "calibrate/import/kernel_classes.h"
#include "calibrate/match/detail/comparing.h"
#include "model/base/text.h"
#include "model/result/comparison.h"

namespace plumbline::calibrate {
namespace {

constexpr std::array<std::pair<std::string_view, MatchRow>, 16> row_names = {
    {{"GEMM", MatchRow::gemm},
     {"weight-gradient GEMM", MatchRow::weight_gradient},
     {"attention", MatchRow::attention},
     {"norm", MatchRow::norm},
     {"cast", MatchRow::cast},
     {"transpose", MatchRow::transpose},
     {"swiglu", MatchRow::swiglu},
     {"permute", MatchRow::permute},
     {"copy", MatchRow::copy},
     {"host_link", MatchRow::copy},
     {"rotary", MatchRow::rotary},
     {"elementwise", MatchRow::elementwise},
     {"router", MatchRow::router},
     {"optimizer", MatchRow::optimizer},
     {"embedding", MatchRow::embedding},
     {"loss", MatchRow::loss}}};

std::optional<bool> runs_backward(const model::Kernel& kernel, MatchRow row) {
  if (row != MatchRow::attention && row != MatchRow::norm) return std::nullopt;
  const std::string& name = kernel.key.empty() ? kernel.class_name : kernel.key.substr(0, kernel.key.find('-'));
  if (model::contains(name, "bwd") || model::contains(name, "_grad")) return true;
  const bool forward = model::contains(name, "fwd") || !kernel.key.empty();
  return forward ? std::optional(false) : std::nullopt;
}

// Returns the format of a predicted GEMM's key, or that of a measured class's name.
std::string format_of(const model::Kernel& kernel) {
  for (const char* format : {"fp4", "fp8", "bf16", "fp32"})
    if (model::contains(kernel.key.empty() ? kernel.class_name : kernel.key, format)) return format;
  return "";
}

// Returns "4096x7168x2048" of a note "q_b:fprop:4096x7168x2048" or "m=4096 n=7168 k=2048".
std::array<double, 3> extents_of(const model::Kernel& kernel) {
  std::array<double, 3> found{kernel.extents[0], kernel.extents[1], kernel.extents[2]};
  constexpr std::array<std::string_view, 3> keys = {"m", "n", "k"};
  for (std::size_t i = 0; i < keys.size(); ++i)
    if (const auto value = model::parse_number<double>(note_value(kernel.note, keys[i]))) found[i] = *value;
  if (found[0] == 0 && !kernel.gemm.empty()) {
    const std::string_view note = std::string_view(kernel.note).substr(0, kernel.note.find(' '));
    const auto parts = model::split_at(note.substr(note.rfind(':') + 1), 'x');
    for (std::size_t i = 0; i < parts.size() && parts.size() == found.size(); ++i)
      found[i] = model::parse_number<double>(parts[i]).value_or(0);
  }
  return std::ranges::min(found) > 0 ? found : std::array<double, 3>{};
}

MatchItem item_of(const model::Span& span, const model::Kernel& kernel) {
  MatchItem item;
  const auto row = std::ranges::find(row_names, kernel.row, &std::pair<std::string_view, MatchRow>::first);
  if (row != row_names.end()) item.row = row->second;
  item.communicates = model::is_communication(kernel.row);
  if (item.communicates) item.transfer = kernel.row == "collective" ? kernel.class_name : kernel.row;
  item.phase = kernel.phase;
  item.backward = runs_backward(kernel, item.row);
  if (item.row <= MatchRow::weight_gradient) {
    item.format = format_of(kernel);
    item.extents = extents_of(kernel);
  }
  item.recomputed = note_value(kernel.note, "recomputed") == "1";
  item.layer = span.layer;
  item.start_s = static_cast<double>(span.start_ps) * 1e-12;
  item.seconds = span.seconds();
  item.log_seconds = std::log(std::max(item.seconds, 1e-9));
  return item;
}

// Gives what runs between two attentions of one direction that direction, where a trace states no phases.
// Where forwards stand alone between backwards, layers run again or passes overlap, and neighbors show nothing.
void add_directions(std::vector<MatchItem>& items) {
  if (std::ranges::any_of(items, [](const MatchItem& item) { return !item.phase.empty(); })) return;
  std::vector<std::span<MatchItem>> attentions;  // kernels of one, without a GEMM between them
  bool gemm = true;
  for (MatchItem& item : items) {
    gemm = gemm || item.row <= MatchRow::weight_gradient;
    if (item.row != MatchRow::attention || !item.backward) continue;
    if (gemm || attentions.back().front().backward != item.backward)
      attentions.emplace_back(&item, 1);
    else
      attentions.back() = {attentions.back().data(), &item + 1};
    gemm = false;
  }
  const auto backward = [&](std::size_t i) { return *attentions[i].front().backward; };
  for (std::size_t i = 2; i < attentions.size(); ++i)
    if (backward(i - 2) && !backward(i - 1) && backward(i)) return;
  for (std::size_t i = 1; i < attentions.size(); ++i)
    if (backward(i - 1) == backward(i))
      for (MatchItem& between : std::span(attentions[i - 1].data(), &attentions[i].back() + 1))
        between.direction = backward(i);
}

bool memory_bound(MatchRow row) { return row > MatchRow::attention; }

using model::Timeline;

const model::Kernel& kernel_at(const Timeline& timeline, std::size_t span) {
  return timeline.kernel_of(timeline.spans[span]);
}

// The highest rate of a GEMM that either side takes for this one. Clocks may be above those of datasheets: an H100's is
// 1,980 MHz at most, its datasheet counts 1,830.
double highest_rate(const model::Device& device, const model::Kernel& predicted, const model::Kernel& measured) {
  constexpr double clock_margin = 1.1;
  const auto has = [&](std::string_view format) {
    return predicted.key.empty() || predicted.key.find(format) != std::string::npos ||
           measured.class_name.find(format) != std::string::npos;
  };
  const double fp4 = has("fp4") ? device.nvfp4_peak.value() : 0, fp8 = has("fp8") ? device.fp8_peak.value() : 0;
  return clock_margin * std::max({fp4, fp8, device.bf16_peak.value()});
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

// Returns what the shapes of two GEMMs speak for their match, where both are known.
double shape_evidence(const MatchItem& predicted, const MatchItem& measured) {
  constexpr double same = 2, part = 1, transposed = 0.5;
  const auto &p = predicted.extents, &m = measured.extents;
  if (p[0] == 0 || m[0] == 0) return 0;
  if (p == m) return same;
  const int equal = (p[0] == m[0] ? 1 : 0) + (p[1] == m[1] ? 1 : 0) + (p[2] == m[2] ? 1 : 0);
  return equal >= 2 ? part : transposed;
}

constexpr double same_row = 2;  // the gain of a match of one class

// The names of most GEMMs do not state whether they are weight gradients.
std::size_t scale_of(const MatchItem& item) {
  return static_cast<std::size_t>(item.row == MatchRow::weight_gradient ? MatchRow::gemm : item.row);
}

// Returns the mean logarithm of the times of each class. A cut trace has fewer kernels of a class, but kernels like
// those predicted, so that sums would not do.
std::array<double, match_rows> mean_logs(const std::vector<MatchItem>& items) {
  std::array<double, match_rows> means{}, counts{};
  for (const MatchItem& item : items) {
    means[scale_of(item)] += item.log_seconds;
    ++counts[scale_of(item)];
  }
  for (std::size_t row = 0; row < match_rows; ++row)
    means[row] = counts[row] > 0 ? means[row] / counts[row] : std::nan("");
  return means;
}

}  // namespace

std::vector<MatchItem> match_items(const model::Timeline& timeline, std::optional<std::int32_t> rank) {
  std::vector<MatchItem> items;
  for (std::size_t i = 0; i < timeline.spans.size(); ++i) {
    const model::Span& span = timeline.spans[i];
    if (span.kernel < 0 || (rank && span.rank != *rank)) continue;
    items.push_back(item_of(span, timeline.kernel_of(span)));
    items.back().span = static_cast<std::int32_t>(i);
  }
  const bool tells = std::ranges::any_of(items, &MatchItem::recomputed);
  for (MatchItem& item : items) item.has_recomputed = tells;
  std::ranges::stable_sort(items, {}, &MatchItem::start_s);
  if (!rank) add_directions(items);
  return items;
}

double traced_flops(const model::Kernel& kernel) {
  double flops = 2;
  for (const std::string_view key : {"m", "n", "k"})
    flops *= model::parse_number<double>(note_value(kernel.note, key)).value_or(0);
  return flops * model::parse_number<double>(note_value(kernel.note, "groups")).value_or(1);
}

Likeness likeness(const MatchItem& predicted, const MatchItem& measured) {
  if (predicted.backward && measured.backward && *predicted.backward != *measured.backward) return Likeness::none;
  const Likeness likeness_of_shapes = may_be_part(predicted, measured) ? Likeness::same : Likeness::none;
  if (predicted.row == measured.row) return likeness_of_shapes;
  // The names of most GEMMs do not state what they are for.
  if (predicted.row == MatchRow::weight_gradient && measured.row == MatchRow::gemm) return likeness_of_shapes;
  const bool cast = predicted.row == MatchRow::cast && measured.row == MatchRow::transpose;
  if (cast || (predicted.row == MatchRow::transpose && measured.row == MatchRow::cast)) return Likeness::same;
  return memory_bound(predicted.row) && memory_bound(measured.row) ? Likeness::similar : Likeness::none;
}

bool may_be_part(const MatchItem& predicted, const MatchItem& measured) {
  const auto &p = predicted.extents, &m = measured.extents;
  if (p[0] == 0 || m[0] == 0) return true;
  const auto two = [](bool rows, bool columns, bool inner) { return (rows ? columns || inner : columns && inner); };
  const bool inner = p[2] == m[2];
  return two(p[0] == m[0], p[1] == m[1], inner) || two(p[0] == m[1], p[1] == m[0], inner);
}

double place_evidence(const MatchItem& predicted, const MatchItem& measured) {
  constexpr double phase = 2, layer = 0.5;
  double gain = measured.layer >= 0 && measured.layer == predicted.layer ? layer : 0;
  // A direction costs more than leaving both out. It is no gain: that would favor single matches over parts of one.
  // A forward that runs again is of the backward pass, in which it runs forwards.
  const bool other_way = measured.direction && (*measured.direction ? predicted.phase == "F"
                                                                    : predicted.phase != "F" && !predicted.recomputed);
  if (!predicted.phase.empty() && other_way) gain -= 3 * phase;
  if (predicted.phase.empty() || measured.phase.empty()) return gain;
  // "B" of a trace is either part of a backward pass.
  const bool same = predicted.phase == measured.phase || (measured.phase == "B" && predicted.phase != "F");
  gain += same ? phase : -phase;
  if (measured.has_recomputed && measured.recomputed != predicted.recomputed) gain -= 2 * phase;
  return gain;
}

double evidence(const MatchItem& predicted, const MatchItem& measured) {
  constexpr double format = 0.3, name = 2;
  double gain = place_evidence(predicted, measured) + shape_evidence(predicted, measured);
  if (measured.named >= 0) gain += predicted.named == measured.named ? name : -name;
  if (!predicted.format.empty() && !measured.format.empty())
    gain += predicted.format == measured.format ? format : -format;
  return gain;
}

ComputeScore::ComputeScore(const std::vector<MatchItem>& predicted, const std::vector<MatchItem>& measured)
    : predicted_(predicted), measured_(measured) {
  const auto before = mean_logs(predicted), after = mean_logs(measured);
  for (std::size_t row = 0; row < match_rows; ++row)
    if (const double scale = after[row] - before[row]; !std::isnan(scale)) scale_[row] = scale;
}

bool ComputeScore::same(std::size_t i, std::size_t j) const {
  const MatchItem &p = predicted_[i], &m = measured_[j];
  return likeness(p, m) == Likeness::same && place_evidence(p, m) >= 0 && may_be_part(p, m);
}

double ComputeScore::operator()(std::size_t i, std::size_t j) const {
  const MatchItem &p = predicted_[i], &m = measured_[j];
  const Likeness like = likeness(p, m);
  constexpr double never = -1e9, similar = 0.1;
  if (like == Likeness::none) return never;
  return (like == Likeness::same ? same_row : similar) + evidence(p, m) - time_cost(p, m.log_seconds);
}

double ComputeScore::parts(std::size_t i, std::size_t j, std::size_t count) const {
  constexpr double never = -1e9, shorter = 0.15;  // logarithm of a time
  const MatchItem& p = predicted_[i];
  if (p.row > MatchRow::weight_gradient) return never;
  double seconds = 0;
  for (std::size_t part = j; part < j + count; ++part) {
    if (measured_[part].log_seconds > p.log_seconds - shorter || !same(i, part)) return never;
    seconds += measured_[part].seconds;
  }
  return same_row + evidence(p, measured_[j]) - time_cost(p, std::log(std::max(seconds, 1e-9)));
}

void ComputeScore::scale_gemms(const Alignment& alignment) {
  const auto seconds = [](const std::vector<MatchItem>& items, const std::vector<std::int32_t>& of) {
    double sum = 0;
    for (std::size_t i = 0; i < items.size(); ++i)
      sum += of[i] >= 0 && items[i].row <= MatchRow::weight_gradient ? items[i].seconds : 0;
    return sum;
  };
  const double measured = seconds(measured_, alignment.predicted_of);
  const double predicted = seconds(predicted_, alignment.measured_of);
  summed_ = measured > 0 && predicted > 0;
  if (summed_) scale_[static_cast<std::size_t>(MatchRow::gemm)] = std::log(measured / predicted);
}

// Returns what a time off that of its class costs.
double ComputeScore::time_cost(const MatchItem& predicted, double log_measured) const {
  constexpr double weight = 0.5;
  const double ratio = log_measured - predicted.log_seconds;
  const double off = std::abs(ratio - scale_[scale_of(predicted)]);
  const bool open = predicted.row <= MatchRow::weight_gradient && !summed_;
  return weight * std::min(1.0, open ? std::min(off, std::abs(ratio)) : off);
}

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
