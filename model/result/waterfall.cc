#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "model/result/comparison.h"

namespace plumbline::model {
namespace {

constexpr double rounding = 1e-9;  // seconds, in sums of slots
constexpr std::string_view point_to_point = "point-to-point";

// The order of the rows; other classes come after those of compute.
constexpr std::array<std::string_view, 5> compute_order = {"GEMM", "attention", "memory-bound", "casts and transposes",
                                                           "other memory-bound"};
constexpr std::array<std::string_view, 10> other_order = {
    "slots",         "exposed communication",    "exposed parameter gather",   point_to_point, "bubble",
    "exposed input", "exposed copy to the host", "exposed gradient reduction", "optimizer",    "not attributed"};

std::size_t place(std::string_view name) {
  const auto* compute = std::ranges::find(compute_order, name);
  const auto* other = std::ranges::find(other_order, name);
  if (compute != compute_order.end()) return static_cast<std::size_t>(compute - compute_order.begin());
  if (other == other_order.end()) return compute_order.size();
  return compute_order.size() + 1 + static_cast<std::size_t>(other - other_order.begin());
}

std::string row_name(const std::string& part, WaterfallDetail detail) {
  if (part == "bubble and messages") return "bubble";
  const bool memory_bound = part == "other memory-bound" || part == "casts and transposes";
  return memory_bound && detail == WaterfallDetail::categories ? "memory-bound" : part;
}

// Seconds by row; parts of the same name are added.
class StepParts {
 public:
  void add(std::string_view name, double seconds) {
    const auto known = std::ranges::find(parts_, name, &StepTimes::ClassTime::name);
    if (known == parts_.end())
      parts_.push_back({std::string(name), seconds});
    else
      known->seconds += seconds;
  }
  // Moves seconds out of one row into a row of their own, at most what the row has.
  void split(std::string_view from, std::string_view name, std::optional<double> seconds) {
    const double taken = std::clamp(seconds.value_or(0), 0.0, std::max(0.0, of(from)));
    if (taken == 0) return;
    add(from, -taken);
    add(name, taken);
  }
  double of(std::string_view name) const {
    const auto known = std::ranges::find(parts_, name, &StepTimes::ClassTime::name);
    return known == parts_.end() ? 0 : known->seconds;
  }
  double total() const {
    double sum = 0;
    for (const StepTimes::ClassTime& part : parts_) sum += part.seconds;
    return sum;
  }
  const std::vector<StepTimes::ClassTime>& all() const { return parts_; }

 private:
  std::vector<StepTimes::ClassTime> parts_;
};

void add_slots(const StepTimes& step, StepParts& parts) {
  for (const std::optional<double>& seconds : step.slots_s) parts.add("slots", seconds.value_or(0));
  const double input = step.exposed_input_s.value_or(0), host = step.exposed_host_s.value_or(0);
  parts.add("bubble", step.bubble_s.value_or(0) - input - host);
  parts.add("exposed input", input);
  parts.add("exposed copy to the host", host);
  parts.add("optimizer", step.optimizer_s.value_or(0));
}

bool has_part(const StepTimes& step, std::string_view name) {
  return std::ranges::find(step.breakdown, name, &StepTimes::ClassTime::name) != step.breakdown.end();
}

// The parts that both steps separate; what one of them has in one row is one row of both.
struct Separable {
  bool classes, messages, gathers, reductions;
  Separable(const StepTimes& a, const StepTimes& b)
      : classes(!a.breakdown.empty() && !b.breakdown.empty()),
        messages(has_part(a, point_to_point) && has_part(b, point_to_point)),
        gathers(a.exposed_parameter_gather_s && b.exposed_parameter_gather_s),
        reductions(a.exposed_gradient_reduce_s && b.exposed_gradient_reduce_s) {}
};

StepParts parts_of(const StepTimes& step, WaterfallDetail detail, const Separable& apart) {
  StepParts parts;
  if (apart.classes) {
    for (const StepTimes::ClassTime& part : step.breakdown) {
      const bool message = part.name == point_to_point && !apart.messages;
      parts.add(message ? "bubble" : row_name(part.name, detail), part.seconds);
    }
  } else if (step.bubble_s) {
    add_slots(step, parts);
  }
  if (apart.gathers)
    parts.split(apart.classes ? "exposed communication" : "slots", "exposed parameter gather",
                step.exposed_parameter_gather_s);
  if (apart.reductions) parts.split("optimizer", "exposed gradient reduction", step.exposed_gradient_reduce_s);
  const double rest = step.time_s - parts.total();
  if (std::abs(rest) > rounding) parts.add("not attributed", rest);
  return parts;
}

// Returns the rows of both, in the order of the first.
Waterfall joined_rows(double from_s, double to_s, const StepParts& first, const StepParts& second) {
  Waterfall result{from_s, to_s, {}};
  for (const StepTimes::ClassTime& part : first.all())
    result.rows.push_back({part.name, part.seconds, second.of(part.name)});
  for (const StepTimes::ClassTime& part : second.all())
    if (std::ranges::find(result.rows, part.name, &WaterfallRow::name) == result.rows.end())
      result.rows.push_back({part.name, 0, part.seconds});
  std::erase_if(result.rows, [](const WaterfallRow& row) { return row.from_s == 0 && row.to_s == 0; });
  return result;
}

constexpr std::string_view prompts_row = "prompts";

double seconds_of_tokens(const ServingResult& serving) {
  constexpr double tokens = 1000;
  return tokens / serving.output_tokens_per_s_per_gpu;
}

// A token takes its GPUs as its time does: in parts of a step of the pool that decodes, and what lies between.
StepParts parts_of(const ServingResult& serving) {
  StepParts parts;
  const ServingPool& decode = serving.pools.back();
  const bool apart = serving.pools.size() > 1;
  const double all = seconds_of_tokens(serving);
  const double decoding =
      apart ? all * static_cast<double>(decode.gpus) / static_cast<double>(decode.gpus + serving.pools.front().gpus)
            : all;
  for (const ServingPart& part : decode.parts)
    parts.add(part.name, decoding * part.seconds / serving.tokens_per_step / serving.tpot_s);
  const double rest = all - parts.total();
  if (std::abs(rest) > rounding) parts.add(prompts_row, rest);
  return parts;
}

constexpr std::string_view saved_row = "halves at once";

StepParts parts_of(const RolloutResult& rollout) {
  StepParts parts;
  for (const RolloutPart& part : rollout.parts) parts.add(part.name, part.seconds);
  const double saved = rollout.step_s - parts.total();
  if (std::abs(saved) > rounding) parts.add(saved_row, saved);
  return parts;
}

std::string change_text(double seconds, double largest) {
  if (largest >= 0.1) return fmt::format("{:+.2f} s", seconds);
  return largest >= 1e-3 ? fmt::format("{:+.1f} ms", seconds * 1e3) : fmt::format("{:+.1f} us", seconds * 1e6);
}

}  // namespace

Waterfall waterfall(const StepTimes& from, const StepTimes& to, WaterfallDetail detail) {
  const Separable apart(from, to);
  const StepParts first = parts_of(from, detail, apart), second = parts_of(to, detail, apart);
  Waterfall result = joined_rows(from.time_s, to.time_s, first, second);
  std::ranges::stable_sort(result.rows, {}, [](const WaterfallRow& row) { return place(row.name); });
  return result;
}

Waterfall waterfall(const ServingResult& from, const ServingResult& to) {
  Waterfall result = joined_rows(seconds_of_tokens(from), seconds_of_tokens(to), parts_of(from), parts_of(to));
  std::ranges::stable_partition(result.rows, [](const WaterfallRow& row) { return row.name != prompts_row; });
  return result;
}

Waterfall waterfall(const RolloutResult& from, const RolloutResult& to) {
  Waterfall result = joined_rows(from.step_s, to.step_s, parts_of(from), parts_of(to));
  std::ranges::stable_partition(result.rows, [](const WaterfallRow& row) { return row.name != saved_row; });
  return result;
}

std::string main_reasons(const Waterfall& waterfall, std::size_t most) {
  std::vector<WaterfallRow> rows = waterfall.rows;
  std::ranges::stable_sort(rows, std::ranges::greater(),
                           [](const WaterfallRow& row) { return std::abs(row.change_s()); });
  const double largest = rows.empty() ? 0 : std::abs(rows.front().change_s());
  if (largest <= 1e-6 * std::max(waterfall.from_s, waterfall.to_s)) return "";
  // Rows below a twentieth of the largest are left out.
  const double least = largest / 20;
  const bool slower = waterfall.change_s() >= 0;
  std::vector<std::string> with, against;
  for (const WaterfallRow& row : rows) {
    if (std::abs(row.change_s()) < least) break;
    std::vector<std::string>& side = (row.change_s() > 0) == slower ? with : against;
    if (side.size() < most) side.push_back(fmt::format("{} {}", row.name, change_text(row.change_s(), largest)));
  }
  std::string text = fmt::format("{}", fmt::join(with, ", "));
  if (!against.empty()) text += fmt::format("{}({})", text.empty() ? "" : " ", fmt::join(against, ", "));
  return text;
}

namespace {

bool same_slots(const StepTimes& predicted, const StepTimes& measured) {
  const bool any = std::ranges::any_of(measured.slot_counts, [](std::int64_t count) { return count > 0; });
  return any && predicted.slot_counts == measured.slot_counts;
}

std::vector<SlotPrediction> slots_of(const StepTimes& predicted, const StepTimes& measured) {
  std::vector<SlotPrediction> slots;
  for (std::size_t i = 0; i < measured.slot_counts.size(); ++i) {
    const std::int64_t count = measured.slot_counts[i];
    if (count == 0) continue;
    const auto kind = static_cast<OpType>(i);
    ComparedTime together{std::string(to_string(kind)), predicted.slots_s[i].value_or(0),
                          measured.slots_s[i].value_or(0)};
    ComparedTime each = together;
    *each.predicted_s /= static_cast<double>(count);
    *each.measured_s /= static_cast<double>(count);
    slots.push_back({kind, count, std::move(each), std::move(together)});
  }
  return slots;
}

}  // namespace

double PredictionError::contribution(const ComparedTime& row) const {
  return (row.predicted_s.value_or(0) - row.measured_s.value_or(0)) / step.measured_s.value_or(0);
}

PredictionError prediction_error(const StepTimes& predicted, const StepTimes& measured, WaterfallDetail detail) {
  PredictionError error;
  error.step = {"step", predicted.time_s, measured.time_s};
  for (const WaterfallRow& row : waterfall(predicted, measured, detail).rows)
    error.classes.push_back({row.name, row.from_s, row.to_s});
  if (!same_slots(predicted, measured)) return error;
  error.slots = slots_of(predicted, measured);
  for (const SlotPrediction& slot : error.slots) error.parts.push_back(slot.together);
  error.parts.push_back({"bubble", predicted.bubble_s.value_or(0), measured.bubble_s.value_or(0)});
  error.parts.push_back({"optimizer", predicted.optimizer_s.value_or(0), measured.optimizer_s.value_or(0)});
  return error;
}

}  // namespace plumbline::model
