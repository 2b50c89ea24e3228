#include "cli/compare_plans.h"

#include <fmt/format.h>

#include <cmath>
#include <optional>
#include <utility>

namespace plumbline::cli {

PlanComparison compare_plans(std::vector<ComparisonSubject> subjects, Against against, model::WaterfallDetail detail) {
  PlanComparison comparison{std::move(subjects), {}, against, true};
  std::optional<std::size_t> from;
  std::optional<double> tokens;
  for (std::size_t i = 0; i < comparison.subjects.size(); ++i) {
    const auto& result = comparison.subjects[i].result;
    if (!result) continue;
    const double own = std::round(result->step.tokens_per_s * result->step.time_s);
    if (tokens.value_or(own) != own) comparison.same_tokens = false;
    tokens = own;
    if (from)
      comparison.differences.push_back(
          {*from, i, model::waterfall(comparison.subjects[*from].result->step, result->step, detail)});
    if (!from || against == Against::previous) from = i;
  }
  return comparison;
}

std::string subject_letter(std::size_t index) {
  constexpr std::size_t letters = 26;
  return index < letters ? std::string(1, static_cast<char>('A' + index)) : fmt::format("{}", index + 1);
}

}  // namespace plumbline::cli
