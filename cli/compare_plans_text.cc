#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <utility>

#include "cli/compare_plans.h"
#include "reports/text/describe.h"
#include "reports/text/format.h"
#include "reports/text/paragraph.h"
#include "reports/text/table.h"

namespace plumbline::cli {
namespace {

using model::StepResult;
using model::Waterfall;
using model::WaterfallRow;
using Text = std::optional<std::string>;

constexpr std::size_t table_width = 160;
constexpr std::size_t half_bar = 9;  // characters for the largest change on either side

std::string wrapped(const std::string& text, std::size_t indent) {
  std::string out;
  for (const std::string& line : reports::wrap(text, reports::terminal_width - indent))
    out += std::string(indent, ' ') + line + '\n';
  return out;
}

// "cpu clock, median of 11 steps, 93.1 to 96.0 ms"
std::string measured_steps(const ComparisonSubject& subject) {
  const std::string clock = subject.clock.empty() ? "unknown clock" : subject.clock + " clock";
  if (subject.measured_seconds.size() < 2) return clock;
  const auto [low, high] = std::ranges::minmax(subject.measured_seconds);
  return fmt::format("{}, median of {} steps, {} to {}", clock, subject.measured_seconds.size(), reports::duration(low),
                     reports::duration(high));
}

// What each subject is: its letter, its name, and below it in words.
std::string legend(const PlanComparison& comparison) {
  std::string text;
  for (std::size_t i = 0; i < comparison.subjects.size(); ++i) {
    const ComparisonSubject& subject = comparison.subjects[i];
    text += fmt::format("{:<3}{}{}\n", subject_letter(i), subject.name,
                        subject.measured()           ? " (measured)"
                        : subject.origin == "result" ? " (stored result)"
                                                     : "");
    if (subject.plan.model.config.empty()) continue;
    const StepResult none;
    const StepResult& result = subject.result ? *subject.result : none;
    std::string what = fmt::format("{} on {}; {}", reports::model_name(subject.plan),
                                   reports::hardware(subject.plan, result), reports::parallelism(subject.plan));
    if (subject.measured()) what += "; " + measured_steps(subject);
    if (!result.profile.empty()) what += fmt::format("; profile {}, fidelity {}", result.profile, result.fidelity);
    text += wrapped(what, 3);
  }
  return text + '\n';
}

struct Quantity {
  std::string name;
  std::function<Text(const ComparisonSubject&, const StepResult&)> text;
};

template <class Field>
Quantity of_run(std::string name, Field field) {
  return {std::move(name), [field](const ComparisonSubject&, const StepResult& result) {
            return result.run ? field(*result.run) : Text();
          }};
}

std::vector<Quantity> quantities() {
  using Subject = ComparisonSubject;
  const auto positive = [](double value, std::string text) { return value > 0 ? Text(std::move(text)) : Text(); };
  return {
      {"step time", [](const Subject&, const StepResult& r) { return Text(reports::duration(r.step.time_s)); }},
      {"lower bound",
       [](const Subject&, const StepResult& r) { return r.bound_s ? Text(reports::duration(*r.bound_s)) : Text(); }},
      {"tokens/s per GPU",
       [=](const Subject&, const StepResult& r) {
         return positive(r.step.tokens_per_s_per_gpu, reports::grouped(r.step.tokens_per_s_per_gpu));
       }},
      {"MFU", [=](const Subject&, const StepResult& r) { return positive(r.step.mfu, reports::percent(r.step.mfu)); }},
      of_run("days", [](const model::RunCost& run) { return Text(reports::fixed(run.days, 1)); }),
      of_run("GPU-hours", [](const model::RunCost& run) { return Text(reports::grouped(run.gpu_hours)); }),
      of_run("cost",
             [](const model::RunCost& run) {
               return run.cost_usd ? Text("$" + reports::grouped(*run.cost_usd)) : Text();
             }),
      {"peak memory",
       [=](const Subject&, const StepResult& r) {
         return positive(r.memory.peak_bytes, reports::gigabytes(r.memory.peak_bytes) + " GB");
       }},
      {"of capacity", [=](const Subject&, const StepResult& r) {
         const double capacity = r.memory.capacity_bytes;
         return capacity > 0 ? positive(r.memory.peak_bytes, reports::percent(r.memory.peak_bytes / capacity)) : Text();
       }}};
}

void add_quantity(const PlanComparison& comparison, const Quantity& quantity, reports::Table& table) {
  std::vector<std::string> row = {quantity.name};
  bool known = false;
  for (const ComparisonSubject& subject : comparison.subjects) {
    const Text text = subject.result ? quantity.text(subject, *subject.result) : Text();
    known = known || text;
    row.push_back(text.value_or("-"));
  }
  if (known) table.add(std::move(row));
}

void add_changes(const PlanComparison& comparison, reports::Table& table) {
  if (comparison.differences.empty()) return;
  const bool first = comparison.against == Against::first;
  std::vector<std::string> row(comparison.subjects.size() + 1);
  row[0] = first ? "against " + subject_letter(comparison.differences.front().from) : "against the one before";
  for (const PlanComparison::Difference& difference : comparison.differences)
    row[difference.to + 1] = reports::signed_percent(difference.waterfall.change_s() / difference.waterfall.from_s);
  table.add(std::move(row));
}

std::string side_by_side(const PlanComparison& comparison) {
  std::vector<reports::Column> columns = {{""}};
  for (std::size_t i = 0; i < comparison.subjects.size(); ++i)
    columns.push_back({subject_letter(i), reports::Align::right});
  reports::Table table(columns, 2, table_width);
  const std::vector<Quantity> rows = quantities();
  add_quantity(comparison, rows.front(), table);
  add_changes(comparison, table);
  for (std::size_t i = 1; i < rows.size(); ++i) add_quantity(comparison, rows[i], table);
  std::vector<std::string> verdict = {"feasible"};
  for (const ComparisonSubject& subject : comparison.subjects)
    verdict.push_back(!subject.result ? "no" : subject.obstacle().empty() ? "yes" : "does not fit");
  table.add(std::move(verdict));
  return table.to_string();
}

std::string obstacles(const PlanComparison& comparison) {
  std::string text;
  for (std::size_t i = 0; i < comparison.subjects.size(); ++i) {
    const std::string obstacle = comparison.subjects[i].obstacle();
    if (!obstacle.empty()) text += reports::paragraph(fmt::format("{}: {}", subject_letter(i), obstacle));
  }
  return text;
}

double largest_change(const PlanComparison& comparison) {
  double largest = 0;
  for (const PlanComparison::Difference& difference : comparison.differences)
    if (measured_pair(comparison, difference) == nullptr)
      for (const WaterfallRow& row : difference.waterfall.rows) largest = std::max(largest, std::abs(row.change_s()));
  return largest;
}

// "     ----|" or "         |++": what is faster to the left, what is slower to the right.
std::string bar(double change, double largest) {
  const double share = largest > 0 ? std::abs(change) / largest : 0;
  const auto length = static_cast<std::size_t>(std::lround(share * static_cast<double>(half_bar)));
  const std::string blank(half_bar - (change < 0 ? length : 0), ' ');
  return change < 0 ? blank + std::string(length, '-') + "|" : blank + "|" + std::string(length, '+');
}

std::string waterfall_text(const PlanComparison::Difference& difference, double largest) {
  const Waterfall& waterfall = difference.waterfall;
  const auto seconds = [](double value) { return reports::fixed(value, 3) + " s"; };
  const auto change = [](double value) { return fmt::format("{:+.3f} s", std::abs(value) < 0.5e-3 ? 0.0 : value); };
  std::string text = fmt::format("\n  {} -> {}\n", subject_letter(difference.from), subject_letter(difference.to));
  using enum reports::Align;
  // A rule of the same width everywhere lines the bars of all tables up.
  reports::Table table({{fmt::format("{:<26}", "seconds of rank 0")},
                        {subject_letter(difference.from), right},
                        {subject_letter(difference.to), right},
                        {"change", right},
                        {std::string(half_bar, ' ') + "|"}},
                       2, table_width);
  for (const WaterfallRow& row : waterfall.rows)
    table.add({row.name, seconds(row.from_s), seconds(row.to_s), change(row.change_s()), bar(row.change_s(), largest)});
  table.add_rule();
  table.add({"step", seconds(waterfall.from_s), seconds(waterfall.to_s), change(waterfall.change_s())});
  text += table.to_string();
  const std::string reasons = model::main_reasons(waterfall);
  return reasons.empty() ? text : text + reports::paragraph(reasons + ".");
}

// Constants of different evidence make a difference of their own.
bool same_profile(const PlanComparison& comparison) {
  const std::string* first = nullptr;
  for (const ComparisonSubject& subject : comparison.subjects) {
    if (!subject.result || subject.result->profile.empty()) continue;
    if (first != nullptr && *first != subject.result->profile) return false;
    first = &subject.result->profile;
  }
  return true;
}

}  // namespace

std::string plan_comparison_text(const PlanComparison& comparison, bool colour) {
  std::string text = legend(comparison) + side_by_side(comparison) + obstacles(comparison);
  if (!comparison.same_tokens)
    text += reports::paragraph(
        "The steps train on different numbers of tokens: compare tokens/s, and read the differences per step.");
  if (!same_profile(comparison))
    text += reports::paragraph(
        "The predictions rest on different profiles: part of a difference may come from what is known of the "
        "hardware.");
  const bool waterfalls = comparison.differences.size() > comparison.measured.size();
  if (waterfalls) text += reports::heading("Where the step times differ", {.colour = colour});
  const double largest = largest_change(comparison);
  for (const PlanComparison::Difference& difference : comparison.differences)
    if (measured_pair(comparison, difference) == nullptr) text += waterfall_text(difference, largest);
  if (!comparison.measured.empty()) text += reports::heading("Predicted beside measured", {.colour = colour});
  for (const PlanComparison::MeasuredPair& pair : comparison.measured) text += measured_pair_text(pair);
  return text;
}

}  // namespace plumbline::cli
