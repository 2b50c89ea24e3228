#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "model/memory/memory.h"
#include "model/result/comparison.h"
#include "model/result/result.h"
#include "reports/text/compare/comparison.h"
#include "reports/text/step/describe.h"
#include "reports/text/step/sections.h"
#include "reports/text/table.h"
#include "sim/deployment/deployment_answer.h"

namespace plumbline::reports {
namespace {

using model::ComparedTime;

// A first column of fixed width aligns the three tables.
Table table_of(const std::string& title, const std::string& last) {
  return Table({{fmt::format("{:<26}", title)},
                {"predicted", Align::right},
                {" measured", Align::right},
                {"   error", Align::right},
                {last, Align::right}});
}

std::string error_text(const ComparedTime& row) {
  const auto error = row.error();
  return error ? signed_percent(*error) : "-";
}

void add(Table& table, const std::string& name, const ComparedTime& row, const std::string& last) {
  table.add({name, duration(row.predicted_s.value_or(0)), duration(row.measured_s.value_or(0)), error_text(row), last});
}

// Returns a table of rows that add up to the step, and the step.
std::string parts_table(const model::PredictionError& error, const std::string& title,
                        const std::vector<ComparedTime>& rows, const std::vector<std::string>& names) {
  Table table = table_of(title, "of the step");
  for (std::size_t i = 0; i < rows.size(); ++i)
    add(table, names[i], rows[i], signed_percent(error.contribution(rows[i])));
  table.add_rule();
  add(table, "step", error.step, signed_percent(error.contribution(error.step)));
  return table.to_string();
}

std::string slot_tables(const model::PredictionError& error) {
  Table each = table_of("one slot of rank 0", "count");
  std::vector<std::string> names;
  for (const model::SlotPrediction& slot : error.slots) {
    names.emplace_back(describe(slot.kind));
    add(each, names.back(), slot.each, fmt::format("{}", slot.count));
  }
  for (std::size_t i = names.size(); i < error.parts.size(); ++i) names.push_back(error.parts[i].name);
  return each.to_string() + "\n" + parts_table(error, "all slots of rank 0", error.parts, names);
}

std::string class_table(const model::PredictionError& error) {
  std::vector<std::string> names;
  for (const ComparedTime& row : error.classes) names.push_back(row.name);
  return parts_table(error, "class of operator, rank 0", error.classes, names);
}

std::string differences(const model::ResultComparison::MeasuredPair& pair) {
  if (pair.plans.empty()) return "";
  std::string text = "What was predicted is not what was executed: ";
  for (const model::ResultComparison::PlanDifference& difference : pair.plans) {
    const bool first = &difference == &pair.plans.front();
    text += fmt::format("{}{} (predicted {}, measured {})", first ? "" : "; ", difference.key, difference.predicted,
                        difference.measured);
  }
  return paragraph(text + ".");
}

// Adds the rows of a table of pairs, each with the second prediction's row of the same name where there is one.
void add_pairs(Table& table, const std::vector<ComparedTime>& rows, const std::vector<ComparedTime>& by_baseline) {
  for (const ComparedTime& row : rows) {
    std::vector<std::string> cells = {row.name, duration(row.predicted_s.value_or(0)),
                                      duration(row.measured_s.value_or(0)), error_text(row)};
    if (const auto other = std::ranges::find(by_baseline, row.name, &ComparedTime::name); other != by_baseline.end())
      cells.insert(cells.end(), {duration(other->predicted_s.value_or(0)), error_text(*other)});
    table.add(std::move(cells));
  }
}

std::string pair_table(const model::OverlappedPairs& pairs) {
  const model::OverlappedSlots& slots = pairs.predicted.slots;
  Table table(fmt::format("overlapped pair of rank {} | >predicted | >measured | >error{}", slots.rank,
                          pairs.by_baseline ? " | >baseline | >error" : ""));
  const auto mean_of = [&](ComparedTime row) {
    row.name = fmt::format("mean of {}", slots.errors.size());
    return std::vector{std::move(row)};
  };
  const model::OverlappedPairs::Prediction other = pairs.by_baseline.value_or(model::OverlappedPairs::Prediction());
  add_pairs(table, mean_of(slots.each), pairs.by_baseline ? mean_of(other.slots.each) : std::vector<ComparedTime>());
  table.add_rule();
  add_pairs(table, slots.phases, other.slots.phases);
  if (!pairs.predicted.classes.empty()) table.add_rule();
  add_pairs(table, pairs.predicted.classes, other.classes);
  return table.to_string();
}

std::string errors_text(const model::OverlappedSlots& slots) {
  return fmt::format("median {}, from {} to {}", signed_percent(slots.median_error()),
                     signed_percent(slots.errors.front()), signed_percent(slots.errors.back()));
}

// Returns a table of the pairs, their phases and their classes of operators.
std::string overlapped_pairs_text(const model::OverlappedPairs& pairs) {
  std::string text = pair_table(pairs);
  std::string errors = fmt::format("Single pairs: {}", errors_text(pairs.predicted.slots));
  if (pairs.by_baseline)
    errors += fmt::format("; by the baseline {}: {}", pairs.baseline, errors_text(pairs.by_baseline->slots));
  return text + paragraph(errors + ". Phases overlap; classes are sums over operators.");
}

using model::StepResult;
using model::WaterfallRow;
using Text = std::optional<std::string>;

constexpr std::size_t half_difference_bar = 9;  // characters for the largest change on either side

// Returns "cpu clock, median of 11 steps, 93.1 to 96.0 ms".
std::string measured_steps(const model::ComparisonSubject& subject) {
  const std::string clock = subject.clock.empty() ? "unknown clock" : subject.clock + " clock";
  if (subject.measured_seconds.size() < 2) return clock;
  const auto [low, high] = std::ranges::minmax(subject.measured_seconds);
  return fmt::format("{}, median of {} steps, {} to {}", clock, subject.measured_seconds.size(), duration(low),
                     duration(high));
}

// Returns each subject: its letter, its name, and below it a description.
std::string legend(const model::ResultComparison& comparison) {
  std::string text;
  for (std::size_t i = 0; i < comparison.subjects.size(); ++i) {
    const model::ComparisonSubject& subject = comparison.subjects[i];
    text += fmt::format("{:<3}{}{}\n", subject_letter(i), subject.name,
                        subject.measured()           ? " (measured)"
                        : subject.origin == "result" ? " (stored result)"
                                                     : "");
    if (subject.plan.model.config.empty()) continue;
    const StepResult none;
    const StepResult& result = subject.result ? *subject.result : none;
    std::string what =
        fmt::format("{} on {}; {}", model_name(subject.plan), hardware(subject.plan, result.device),
                    subject.serving || model::is_deployment(subject.plan) ? sim::deployment_words(subject.plan)
                                                                          : parallelism(subject.plan));
    if (subject.serving) what += fmt::format(", {} requests in flight", grouped(subject.serving->concurrency));
    if (subject.measured()) what += "; " + measured_steps(subject);
    if (!result.profile.empty()) what += fmt::format("; {}, fidelity {}", constants_words(result), result.fidelity);
    for (const std::string& sentence : result.warnings) what += fmt::format("; warning: {}", sentence);
    text += wrapped(what, 3);
  }
  return text + '\n';
}

struct Quantity {
  std::string name;
  std::function<Text(const model::ComparisonSubject&, const StepResult&)> text;
};

std::string gb(double bytes) { return gigabytes(bytes) + " GB"; }

std::vector<Quantity> quantities() {
  const auto of_step = [](std::string name, auto field) {
    return Quantity{std::move(name), [field](auto&, auto& result) -> Text { return field(result); }};
  };
  const auto of_run = [](std::string name, auto field) {
    return Quantity{std::move(name), [field](auto&, auto& result) -> Text {
                      const auto run = model::middle_run(result);
                      return run ? field(*run) : Text();
                    }};
  };
  return {
      of_step("step time", [](auto& r) { return duration(model::middle_step(r).time_s); }),
      of_step("eight of ten cases",
              [](auto& r) { return r.interval ? Text(seconds_span(r.interval->time_s)) : Text(); }),
      of_step("from components", [](auto& r) { return r.interval ? Text(duration(r.step.time_s)) : Text(); }),
      of_step("lower bound", [](auto& r) { return r.bound_s ? Text(duration(*r.bound_s)) : Text(); }),
      of_step("tokens/s per GPU",
              [](auto& r) {
                const double rate = model::middle_step(r).tokens_per_s_per_gpu;
                return rate > 0 ? Text(grouped(rate)) : Text();
              }),
      of_step("MFU",
              [](auto& r) {
                const double mfu = model::middle_step(r).mfu;
                return mfu > 0 ? Text(percent(mfu)) : Text();
              }),
      of_run("days", [](auto& run) { return Text(days_text(run.days)); }),
      of_run("GPU-hours", [](auto& run) { return Text(grouped(run.gpu_hours)); }),
      of_run("cost per GPU-hour",
             [](auto& run) {
               return run.cost_usd && run.gpu_hours > 0 ? Text("$" + fixed(*run.cost_usd / run.gpu_hours, 3)) : Text();
             }),
      of_run("cost", [](auto& run) { return run.cost_usd ? Text(dollars(*run.cost_usd, 2)) : Text(); }),
      of_step("peak memory", [](auto& r) { return r.memory.peak_bytes > 0 ? Text(gb(r.memory.peak_bytes)) : Text(); }),
      of_step("of capacity", [](auto& r) {
        const double peak = r.memory.peak_bytes, capacity = r.memory.capacity_bytes;
        return capacity > 0 && peak > 0 ? Text(percent(peak / capacity)) : Text();
      })};
}

// Those of steps of reinforcement learning, of which the first decides.
std::vector<Quantity> rollout_quantities() {
  const auto of = [](std::string name, auto field) {
    return Quantity{std::move(name), [field](auto&, auto& result) -> Text {
                      if (!result.rollout) return std::nullopt;
                      const model::RolloutResult middle = model::middle_rollout(*result.rollout);
                      return field(*result.rollout, middle);
                    }};
  };
  return {of("step time", [](auto&, auto& middle) { return duration(middle.step_s); }),
          of("eight of ten cases",
             [](auto& r, auto&) { return r.interval_s ? Text(seconds_span(*r.interval_s)) : Text(); }),
          of("from components", [](auto& r, auto&) { return r.interval_s ? Text(duration(r.step_s)) : Text(); }),
          of("generation", [](auto& r, auto&) { return duration(r.seconds_of("engines")); }),
          of("training", [](auto& r, auto&) { return duration(r.seconds_of("training")); }),
          of("tokens/s per GPU", [](auto&, auto& middle) { return grouped(middle.tokens_per_s_per_gpu); }),
          of("cost of a step",
             [](auto&, auto& middle) { return middle.step_usd ? Text(dollars(*middle.step_usd, 2)) : Text(); }),
          of("days", [](auto&, auto& middle) { return middle.run ? Text(days_text(middle.run->days)) : Text(); }),
          of("cost",
             [](auto&, auto& middle) {
               return middle.run && middle.run->cost_usd ? Text(dollars(*middle.run->cost_usd, 2)) : Text();
             }),
          of("memory in training", [](auto& r, auto&) { return gb(r.memory.training_bytes); }),
          of("memory in generation", [](auto& r, auto&) { return gb(r.memory.generation_bytes); })};
}

// Returns the price of an hour at which tokens of the middle rate have their middle cost. The range of a price is not
// even on both sides of it, so that half of its draws do not lie below it.
std::optional<double> middle_price(const model::ComparisonSubject& subject) {
  if (!subject.usd_per_gpu_hour) return std::nullopt;
  const model::ServingFactors factors = model::middle_factors(*subject.serving);
  return *subject.usd_per_gpu_hour * factors.usd * factors.rate;
}

// Those of deployments, of which the first decides.
std::vector<Quantity> deployment_quantities() {
  const auto of = [](std::string name, auto field) {
    return Quantity{std::move(name), [field](auto& subject, auto&) -> Text {
                      if (!subject.serving) return std::nullopt;
                      const model::ServingResult middle = model::middle_serving(*subject.serving);
                      return field(middle);
                    }};
  };
  const auto usd = [](const std::optional<double>& value) { return value ? Text(dollars(*value, 3)) : Text(); };
  std::vector<Quantity> rows = {
      of("USD/M out, with prompts", [usd](auto& s) { return usd(s.usd_per_million_tokens_all_in); }),
      of("USD per M output tokens", [usd](auto& s) { return usd(s.usd_per_million_output_tokens); }),
      of("of the demand", [usd](auto& s) { return usd(s.usd_per_million_output_tokens_of_demand); }),
      {"USD of a GPU-hour",
       [usd](auto& subject, auto&) { return subject.serving ? usd(middle_price(subject)) : Text(); }},
      of("output tokens/s of a GPU", [](auto& s) { return number(s.output_tokens_per_s_per_gpu); }),
      of("TPOT", [](auto& s) { return duration(s.tpot_s); }),
      {"eight of ten cases",
       [](auto& subject, auto&) {
         const auto& interval = subject.serving->interval;
         return interval && interval->tpot_s ? Text(seconds_span(*interval->tpot_s)) : Text();
       }},
      of("TTFT at load", [](auto& s) { return duration(s.ttft_s); }),
      of("requests that decode/GPU", [](auto& s) { return number(s.batch_per_gpu); }),
      of("what binds", [](auto& s) { return std::string(model::to_string(s.bound_by)); })};
  for (const Quantity& quantity : quantities())
    if (quantity.name == "peak memory" || quantity.name == "of capacity") rows.push_back(quantity);
  return rows;
}

void add_quantity(const model::ResultComparison& comparison, const Quantity& quantity, Table& table) {
  std::vector<std::string> row = {quantity.name};
  bool known = false;
  for (const model::ComparisonSubject& subject : comparison.subjects) {
    const Text text = subject.result ? quantity.text(subject, *subject.result) : Text();
    known = known || text;
    row.push_back(text.value_or("-"));
  }
  if (known) table.add(std::move(row));
}

// Returns what a subject is compared by: the time of a step; of a deployment the cost of output tokens with their
// prompts, or where `priced` is false the time of a GPU.
double compared_value(const model::ComparisonSubject& subject, bool priced) {
  const StepResult& result = *subject.result;
  if (result.rollout) return model::middle_rollout(*result.rollout).step_s;
  if (!subject.serving) return model::middle_step(result).time_s;
  const model::ServingResult middle = model::middle_serving(*subject.serving);
  return priced ? *middle.usd_per_million_tokens_all_in : 1 / middle.output_tokens_per_s_per_gpu;
}

// Returns the change from one subject to another.
double relative_change(const model::ComparisonSubject& from, const model::ComparisonSubject& to) {
  const bool priced = from.serving && to.serving && from.serving->usd_per_million_tokens_all_in &&
                      to.serving->usd_per_million_tokens_all_in;
  return compared_value(to, priced) / compared_value(from, priced) - 1;
}

void add_changes(const model::ResultComparison& comparison, Table& table) {
  if (comparison.differences.empty()) return;
  const bool first = comparison.against == model::Against::first;
  std::vector<std::string> row(comparison.subjects.size() + 1);
  row[0] = first ? "against " + subject_letter(comparison.differences.front().from) : "against the one before";
  for (const model::ResultComparison::Difference& difference : comparison.differences)
    row[difference.to + 1] =
        signed_percent(relative_change(comparison.subjects[difference.from], comparison.subjects[difference.to]));
  table.add(std::move(row));
}

// Adds how far the peaks of memory are from the one that was measured.
void add_memory_errors(const model::ResultComparison& comparison, Table& table) {
  const auto measured = std::ranges::find_if(comparison.subjects, [](const model::ComparisonSubject& subject) {
    return subject.result && subject.result->memory.measured;
  });
  if (measured == comparison.subjects.end()) return;
  std::vector<std::string> row = {"memory over measured"};
  for (const model::ComparisonSubject& subject : comparison.subjects) {
    const double peak = subject.result ? subject.result->memory.peak_bytes : 0;
    row.push_back(peak > 0 ? signed_percent(peak / measured->result->memory.peak_bytes - 1) : "-");
  }
  table.add(std::move(row));
}

std::string feasible_text(const model::ComparisonSubject& subject) {
  if (!subject.result) return "no";
  const auto& rollout = subject.result->rollout;
  const model::Fit fit =
      rollout && !rollout->memory.fits ? model::Fit::does_not_fit : model::fit_of(subject.result->memory);
  return fit == model::Fit::fits ? "yes" : std::string(model::to_string(fit));
}

std::string side_by_side(const model::ResultComparison& comparison) {
  std::vector<Column> columns = {{""}};
  for (std::size_t i = 0; i < comparison.subjects.size(); ++i) columns.push_back({subject_letter(i), Align::right});
  Table table(columns);
  const std::vector<Quantity> rows = comparison.deployments() ? deployment_quantities()
                                     : comparison.rollouts()  ? rollout_quantities()
                                                              : quantities();
  add_quantity(comparison, rows.front(), table);
  add_changes(comparison, table);
  for (std::size_t i = 1; i < rows.size(); ++i) add_quantity(comparison, rows[i], table);
  add_memory_errors(comparison, table);
  std::vector<std::string> verdict = {"feasible"};
  for (const model::ComparisonSubject& subject : comparison.subjects) verdict.push_back(feasible_text(subject));
  table.add(std::move(verdict));
  return table.to_string();
}

std::string infeasible_text(const model::ResultComparison& comparison) {
  std::string text;
  for (std::size_t i = 0; i < comparison.subjects.size(); ++i) {
    const std::string reason = comparison.subjects[i].reason();
    if (!reason.empty()) text += paragraph(fmt::format("{}: {}", subject_letter(i), reason));
  }
  return text;
}

// Returns why an output token of one deployment is cheaper: the GPU time that it takes, and the price of that.
std::string cost_sentence(const model::ComparisonSubject& a, const model::ComparisonSubject& b, const std::string& from,
                          const std::string& to) {
  const auto words = [](double change, const char* less, const char* more, const char* same) {
    const std::string share = percent(std::abs(change));
    return share == percent(0) ? std::string(same) : fmt::format("{} {}", share, change < 0 ? less : more);
  };
  const double time = model::middle_serving(*a.serving).output_tokens_per_s_per_gpu /
                          model::middle_serving(*b.serving).output_tokens_per_s_per_gpu -
                      1;
  const std::string gpu_time = words(time, "less", "more", "as much");
  const auto price_a = middle_price(a), price_b = middle_price(b);
  if (!price_a || !price_b)
    return fmt::format("An output token of {} takes {} GPU time {} one of {}.", to, gpu_time,
                       gpu_time == "as much" ? "as" : "than", from);
  return fmt::format(
      "An output token of {}, with its prompt, is {} one of {}: it takes {} GPU time, and a GPU-hour costs {}.", to,
      words(relative_change(a, b), "cheaper than", "dearer than", "as dear as"), from, gpu_time,
      words(*price_b / *price_a - 1, "less", "more", "as much"));
}

// Returns which half of reinforcement learning makes the difference between two steps.
std::string halves_sentence(const model::RolloutResult& a, const model::RolloutResult& b, const std::string& from,
                            const std::string& to) {
  const auto change = [&](const char* pool) { return b.seconds_of(pool) - a.seconds_of(pool); };
  const double generation = change("engines"), training = change("training");
  if (generation == 0 && training == 0) return "";
  return fmt::format("From {} to {} {} changes most: generation by {}, training by {}.", from, to,
                     std::abs(generation) >= std::abs(training) ? "generation" : "training",
                     signed_seconds(generation, 2), signed_seconds(training, 2));
}

std::optional<model::Quantiles> seconds_of_cases(const StepResult& result) {
  if (result.rollout) return result.rollout->interval_s;
  return result.interval ? std::optional(result.interval->time_s) : std::nullopt;
}

// Returns whether intervals overlap, and whether what was measured lies inside.
std::string interval_sentence(const model::ResultComparison& comparison,
                              const model::ResultComparison::Difference& difference) {
  const std::string from = subject_letter(difference.from), to = subject_letter(difference.to);
  if (const auto* pair = model::measured_pair(comparison, difference)) {
    const auto& interval = comparison.subjects[pair->predicted].result->interval;
    if (!interval) return "";
    const double measured = pair->error.step.measured_s.value_or(0);
    return paragraph(fmt::format("{} lies {} the interval of {}: {} of its cases are shorter.",
                                 subject_letter(pair->measured),
                                 interval->time_s.contains(measured) ? "inside" : "outside",
                                 subject_letter(pair->predicted), percent(interval->time_s.share_below(measured))));
  }
  const model::ComparisonSubject &a = comparison.subjects[difference.from], &b = comparison.subjects[difference.to];
  if (a.serving && b.serving) return paragraph(cost_sentence(a, b, from, to));
  const auto first = seconds_of_cases(*a.result), second = seconds_of_cases(*b.result);
  const std::string halves =
      a.result->rollout && b.result->rollout ? halves_sentence(*a.result->rollout, *b.result->rollout, from, to) : "";
  const std::string cause = halves.empty() ? "" : paragraph(halves);
  if (!first || !second) return cause;
  const model::Quantiles both{std::max(first->p10, second->p10), 0, std::min(first->p90, second->p90)};
  return cause + paragraph(both.p10 <= both.p90
                               ? fmt::format("The intervals of {} and {} overlap: {}.", from, to, seconds_span(both))
                               : fmt::format("The intervals of {} and {} do not overlap.", from, to));
}

double largest_change(const model::ResultComparison& comparison) {
  double largest = 0;
  for (const model::ResultComparison::Difference& difference : comparison.differences)
    if (model::measured_pair(comparison, difference) == nullptr)
      for (const WaterfallRow& row : difference.waterfall.rows) largest = std::max(largest, std::abs(row.change_s()));
  return largest;
}

// Returns "     ----|" or "         |++": faster extends to the left, slower to the right.
std::string bar(double change, double largest) {
  const double share = largest > 0 ? std::abs(change) / largest : 0;
  const auto length = static_cast<std::size_t>(std::lround(share * static_cast<double>(half_difference_bar)));
  const std::string blank(half_difference_bar - (change < 0 ? length : 0), ' ');
  return change < 0 ? blank + std::string(length, '-') + "|" : blank + "|" + std::string(length, '+');
}

std::string waterfall_text(const model::ResultComparison& comparison,
                           const model::ResultComparison::Difference& difference, double largest) {
  const bool deployments = comparison.deployments();
  const model::Waterfall& waterfall = difference.waterfall;
  const auto seconds = [](double value) { return fixed(value, 3) + " s"; };
  std::string text = fmt::format("\n  {} -> {}\n", subject_letter(difference.from), subject_letter(difference.to));
  using enum Align;
  // A first column of fixed width aligns the bars of all tables.
  Table table({{fmt::format("{:<26}", deployments             ? "GPU-seconds of 1,000 tokens"
                                      : comparison.rollouts() ? "parts of a step"
                                                              : "seconds of rank 0")},
               {subject_letter(difference.from), right},
               {subject_letter(difference.to), right},
               {"change", right},
               {std::string(half_difference_bar, ' ') + "|"}});
  for (const WaterfallRow& row : waterfall.rows)
    table.add({row.name, seconds(row.from_s), seconds(row.to_s), signed_seconds(row.change_s(), 3),
               bar(row.change_s(), largest)});
  table.add_rule();
  table.add({deployments ? "all" : "step", seconds(waterfall.from_s), seconds(waterfall.to_s),
             signed_seconds(waterfall.change_s(), 3)});
  text += table.to_string();
  const std::string reasons = model::main_reasons(waterfall);
  return reasons.empty() ? text : text + paragraph(reasons + ".");
}

// Whether all use one profile; otherwise different evidence of constants would itself be a difference.
bool same_profile(const model::ResultComparison& comparison) {
  const std::string* first = nullptr;
  for (const model::ComparisonSubject& subject : comparison.subjects) {
    if (!subject.result || subject.result->profile.empty()) continue;
    if (first != nullptr && *first != subject.result->profile) return false;
    first = &subject.result->profile;
  }
  return true;
}

// Returns tables of slots, parts, classes and overlapped pairs with predicted, measured and error, at most 80 columns
// wide.
std::string measured_pair_text(const model::ResultComparison::MeasuredPair& pair) {
  std::string text =
      fmt::format("\n  {} predicted, {} measured\n", subject_letter(pair.predicted), subject_letter(pair.measured));
  text += differences(pair);
  if (pair.error.slots.empty())
    text += paragraph("The slots of rank 0 do not correspond: no table of them.");
  else
    text += slot_tables(pair.error);
  text += "\n" + class_table(pair.error);
  return pair.overlapped ? text + "\n" + overlapped_pairs_text(*pair.overlapped) : text;
}

}  // namespace

std::string subject_letter(std::size_t index) {
  constexpr std::size_t letters = 26;
  return index < letters ? std::string(1, static_cast<char>('A' + index)) : fmt::format("{}", index + 1);
}

std::string result_comparison_text(const model::ResultComparison& comparison, bool color) {
  std::string text = legend(comparison) + side_by_side(comparison) + infeasible_text(comparison);
  for (const model::ResultComparison::Difference& difference : comparison.differences)
    text += interval_sentence(comparison, difference);
  if (!comparison.same_tokens)
    text += paragraph(
        "The steps train on different numbers of tokens: compare tokens/s, and read the differences per step.");
  if (!same_profile(comparison))
    text += paragraph(
        "The predictions rest on different profiles: part of a difference may come from what is known of the "
        "hardware.");
  const bool deployments = comparison.deployments();
  const bool waterfalls = comparison.differences.size() > comparison.measured.size();
  if (waterfalls)
    text += heading(deployments ? "Where the GPU time of output tokens differs, by components"
                                : "Where the step times differ, by components",
                    {.color = color});
  const double largest = largest_change(comparison);
  for (const model::ResultComparison::Difference& difference : comparison.differences)
    if (model::measured_pair(comparison, difference) == nullptr)
      text += waterfall_text(comparison, difference, largest);
  if (!comparison.measured.empty()) text += heading("Predicted and measured", {.color = color});
  for (const model::ResultComparison::MeasuredPair& pair : comparison.measured) text += measured_pair_text(pair);
  return text;
}

}  // namespace plumbline::reports
