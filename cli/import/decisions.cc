#include "cli/import/decisions.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "cli/inputs.h"
#include "reports/text/table.h"
#include "sim/predict/predictor.h"

namespace plumbline::cli {
namespace {

constexpr double least_share = 0.0005;  // of the step, that is listed: it rounds to 0.1 %

struct Estimate {
  double step_s = 0, token_s = 0;
  bool fits = false;
};

// Returns the step in closed form, or why the plan cannot be laid out.
model::Result<Estimate> estimate(InputsReader& reader, model::Plan plan, const std::string& config) {
  if (!config.empty()) plan.model.config = config;
  const auto inputs = TRY(reader.of_plan(plan));
  const auto predicted = TRY(sim::Predictor(inputs).closed_form(inputs.plan));
  const auto& batch = inputs.plan.batch;
  const double tokens = static_cast<double>(batch.global_batch_size) * static_cast<double>(batch.sequence_length);
  return Estimate{predicted.step.time_s, predicted.step.time_s / tokens, predicted.fits};
}

// Returns "KEY = VALUE, ..." of what the alternative has otherwise.
std::string changes(const model::Plan& plan, const model::Plan& other) {
  constexpr std::size_t most_named = 3;
  const auto before = plan_values(plan), after = plan_values(other);
  std::vector<std::string> named;
  for (const auto& [key, value] : after)
    if (const auto found = before.find(key); found == before.end() || found->second != value)
      named.push_back(fmt::format("{} = {}", key, value));
  for (const auto& [key, value] : before)
    if (!after.contains(key)) named.push_back(fmt::format("{} is not set", key));
  const std::size_t more = named.size() - std::min(named.size(), most_named);
  named.resize(std::min(named.size(), most_named));
  return fmt::format("{}{}", fmt::join(named, ", "), more > 0 ? fmt::format(", and {} more", more) : "");
}

struct Row {
  double effect = 0;
  std::string text;
};

void print_row(const Row& row) {
  constexpr std::size_t columns = 80, indent = 13;
  const std::vector<std::string> lines = reports::wrap(row.text, columns - indent);
  for (std::size_t i = 0; i < lines.size(); ++i)
    fmt::print(stderr, "{:>{}}  {}\n", i == 0 ? fmt::format("{:+.1f} %", 100 * row.effect) : "", indent - 2, lines[i]);
}

}  // namespace

void print_decisions(const Decisions& decisions) {
  if (decisions.alternatives.empty()) return;
  InputsReader reader;
  const auto now = estimate(reader, decisions.plan, decisions.config);
  if (!now) {
    model::Error error = now.error();
    if (error.file == decisions.plan.file) error.file.clear();  // its lines are those of the plan, not of that file
    return fmt::print(stderr, "the plan is not predicted: {}\n", to_string(error));
  }
  std::vector<Row> rows;
  std::vector<std::string> small, alone;
  for (const model::PlanAlternative& alternative : decisions.alternatives) {
    const auto other = estimate(reader, alternative.plan, decisions.config);
    const std::string what =
        alternative.text + (alternative.line > 0 ? fmt::format(" ({})", decisions.place(alternative.line)) : "");
    if (!other) {
      alone.push_back(what);
      continue;
    }
    const double effect = other->token_s / now->token_s - 1;
    if (!decisions.all && std::abs(effect) < least_share && other->fits == now->fits)
      small.push_back(what);
    else
      rows.push_back({effect, fmt::format("{}: {}{}", what, changes(decisions.plan, alternative.plan),
                                          other->fits == now->fits ? ""
                                          : other->fits            ? "; fits in memory"
                                                                   : "; does not fit in memory")});
  }
  std::ranges::stable_sort(rows, std::greater(), [](const Row& row) { return std::abs(row.effect); });
  fmt::print(stderr, "decides the step, {} in closed form (time per token, each change alone):\n",
             reports::duration(now->step_s));
  for (const Row& row : rows) print_row(row);
  if (!small.empty())
    fmt::print(stderr, "{}", reports::wrapped(fmt::format("by less than 0.1 %: {}", fmt::join(small, ", ")), 2));
  if (!alone.empty())
    fmt::print(stderr, "{}", reports::wrapped(fmt::format("not possible alone: {}", fmt::join(alone, ", ")), 2));
}

}  // namespace plumbline::cli
