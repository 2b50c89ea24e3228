#include "calibrate/match/detail/matching.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "calibrate/chunk/kernel_timeline.h"
#include "model/base/text.h"
#include "model/result/timeline_comparison.h"

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

bool memory_bound(MatchRow row) { return row > MatchRow::attention; }

// "B" of a trace is either part of a backward pass.
bool same_phase(std::string_view predicted, std::string_view measured) {
  return predicted == measured || (measured == "B" && predicted != "F");
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

namespace {

// Returns what the shapes of two GEMMs speak for their match, where both are known.
double shape_evidence(const MatchItem& predicted, const MatchItem& measured) {
  constexpr double same = 2, part = 1, transposed = 0.5;
  const auto &p = predicted.extents, &m = measured.extents;
  if (p[0] == 0 || m[0] == 0) return 0;
  if (p == m) return same;
  const int equal = (p[0] == m[0] ? 1 : 0) + (p[1] == m[1] ? 1 : 0) + (p[2] == m[2] ? 1 : 0);
  return equal >= 2 ? part : transposed;
}

}  // namespace

double place_evidence(const MatchItem& predicted, const MatchItem& measured) {
  constexpr double phase = 2, layer = 0.5;
  double gain = measured.layer >= 0 && measured.layer == predicted.layer ? layer : 0;
  if (predicted.phase.empty() || measured.phase.empty()) return gain;
  gain += same_phase(predicted.phase, measured.phase) ? phase : -phase;
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

namespace {

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

bool ComputeScore::fits(const MatchItem& predicted, double log_measured, double log_predicted) const {
  const double most = std::log(3.0), ratio = log_measured - log_predicted;
  return std::min(std::abs(ratio), std::abs(ratio - scale_[scale_of(predicted)])) <= most;
}

}  // namespace plumbline::calibrate
