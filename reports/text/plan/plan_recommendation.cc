#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

#include "reports/text/plan/plan_report.h"
#include "reports/text/step/describe.h"
#include "reports/text/table.h"

namespace plumbline::reports {
namespace {

// Returns "28.67 days (19.25-42.49)"; the range is eight of ten cases.
std::string with_range(const model::Quantiles& amount, const char* unit, std::string (*text)(double)) {
  return fmt::format("{} {} ({})", text(amount.p50), unit, span(text(amount.p10), text(amount.p90)));
}

// Returns days and USD, of which either may be unknown.
std::string days_and_usd(const std::optional<model::Quantiles>& days, const std::optional<model::Quantiles>& usd) {
  std::vector<std::string> words;
  if (days) words.push_back(with_range(*days, "days", number));
  if (usd) words.push_back(with_range(*usd, "USD", scaled));
  return fmt::format("{}", fmt::join(words, ", "));
}

// Returns "in time with 97 %, in budget with 44 %", of the limits that there are. `training`: the cost of a plan, or
// its campaign.
std::string limits_words(const auto& training, const sim::Limits& limits) {
  std::vector<std::string> words;
  if (limits.days) words.push_back("in time with " + chance(sim::probability_within(training, {.days = limits.days})));
  if (limits.usd) words.push_back("in budget with " + chance(sim::probability_within(training, {.usd = limits.usd})));
  return fmt::format("{}", fmt::join(words, ", "));
}

bool ends_with_failures(const sim::ClusterOption& option) { return option.campaign && option.campaign->run; }

// Returns what the best plan of an option takes with failures, else by its steps alone, and how probably it keeps the
// limits.
std::string takes_words(const sim::ClusterOption& option, const sim::Limits& limits) {
  const sim::RankedPlan& row = option.plans.front();
  const auto& interval = row.result.interval;
  const bool failing = ends_with_failures(option);
  std::vector<std::string> words;
  if (failing)
    words.push_back(days_and_usd(option.campaign->days, option.campaign->usd()) + " with failures");
  else if (interval && interval->days)
    words.push_back(days_and_usd(interval->days, interval->cost_usd) + " by its steps alone");
  else
    words.push_back("a step of " + duration(row.cost.step_s));
  if (limits.any()) words.push_back(failing ? limits_words(*option.campaign, limits) : limits_words(row.cost, limits));
  if (interval) words.push_back("fits in memory with " + chance(interval->fits_probability));
  return fmt::format("{}", fmt::join(words, ", "));
}

// Returns by what the middle of a plan exceeds the limits: "3.4 % longer than the deadline, 4.1 % above the budget".
std::string excess_words(const sim::PlanCost& cost, const sim::Limits& limits) {
  std::vector<std::string> words;
  const auto add = [&](const std::optional<double>& value, const std::optional<double>& limit, const char* unknown,
                       const char* more, const char* name) {
    if (limit && !value) words.emplace_back(unknown);
    if (limit && value && *value > *limit) words.push_back(fmt::format("{} {}", excess(*value, *limit, more), name));
  };
  add(cost.days, limits.days, "of unknown length", "longer than", "the deadline");
  add(cost.usd, limits.usd, "of unknown cost", "above", "the budget");
  return fmt::format("{}", fmt::join(words, ", "));
}

std::string choice_sentence(const sim::PlanAnswer& answer) {
  const sim::ClusterOption& option = answer.options[answer.order[answer.recommended]];
  const sim::RankedPlan& row = option.plans.front();
  const sim::PlanCost taken = answer.taken(answer.recommended);
  const bool met = answer.limits_met();
  const char* lead = met ? "Recommended is" : "Nothing meets the limits; nearest is";
  const std::string missing = met ? "" : fmt::format(" It is {}.", excess_words(taken, answer.limits));
  const bool alone = answer.order.size() == 1 || answer.best_with.empty();
  const std::string sure = alone ? "" : ", the best with " + chance(answer.best_with[answer.recommended]);
  return fmt::format("{} {} with {}: {}{}.{}", lead, option_name(answer, option), plan_words(row),
                     takes_words(option, answer.limits), sure, missing);
}

// Returns "28.1 % longer"; nothing where either is not known.
std::optional<std::string> difference(const std::optional<double>& value, const std::optional<double>& best,
                                      const char* more, const char* less) {
  if (!value || !best) return std::nullopt;
  const double over = *value / *best - 1;
  return fmt::format("{} {}", percent(std::abs(over)), over < 0 ? less : more);
}

std::string next_sentence(const sim::PlanAnswer& answer) {
  if (answer.order.size() < 2) return "";
  const std::size_t next = answer.recommended == 0 ? 1 : 0;
  const sim::PlanCost &best = answer.best(answer.recommended).cost, &cost = answer.best(next).cost;
  std::vector<std::string> words;
  const auto add = [&](std::optional<std::string> text) {
    if (text) words.push_back(std::move(*text));
  };
  if (answer.has_tokens)
    add(difference(cost.days, best.days, "longer", "shorter"));
  else
    add(difference(cost.step_s, best.step_s, "longer", "shorter"));
  add(difference(cost.usd, best.usd, "dearer", "cheaper"));
  if (!answer.within_limits(next)) words.emplace_back("over the limits");
  if (!answer.best_with.empty()) words.push_back("the best with " + chance(answer.best_with[next]));
  return fmt::format("Next is {}: {}.", option_name(answer, answer.options[answer.order[next]]),
                     fmt::join(words, ", "));
}

// Returns the smallest change that makes another offer, or with one offer another plan, the better choice.
std::string overturn_sentence(const sim::PlanAnswer& answer) {
  if (answer.break_evens.empty()) return "";
  const sim::BreakEvenSection& section = answer.break_evens.back();
  const sim::BreakEven* nearest = nullptr;
  for (const sim::BreakEven& found : section.break_evens) {
    const auto distance = [](const sim::BreakEven& one) { return std::abs(std::log(*one.factor)); };
    if (found.factor && (nearest == nullptr || distance(found) < distance(*nearest))) nearest = &found;
  }
  if (nearest == nullptr) return "No single change that was tried overturns this.";
  return fmt::format("The smallest change that overturns this: {} x{}, then {}.", sim::describe(nearest->quantity),
                     fixed(*nearest->factor, 2), alternative_names(answer, section)[nearest->by]);
}

// Returns the fewest GPUs that end by the deadline; "" where it was not asked for.
std::string fewest_words(const sim::ClusterOption& option) {
  if (!option.campaign || !option.campaign->finish) return "";
  const sim::FinishBy& finish = *option.campaign->finish;
  const std::string by = fmt::format("within {} days in nine of ten cases", number(finish.days));
  return finish.gpus ? fmt::format("Fewest GPUs with these degrees that fit and end {}: {}", by, grouped(*finish.gpus))
                     : "No number of GPUs that was tried fits and ends " + by;
}

std::string failures_words(const sim::ClusterOption& option, const sim::Limits& limits) {
  if (!option.campaign) return "";
  const sim::CampaignResult& campaign = option.campaign->result;
  if (!ends_with_failures(option))
    return campaign.never.empty() ? "" : fmt::format("With failures it never ends, because {}", campaign.never);
  std::string words = days_and_usd(option.campaign->days, option.campaign->usd());
  if (limits.any()) words += ", " + limits_words(*option.campaign, limits);
  return fmt::format("With failures, one every {} h: {}", number(campaign.hours_between_failures), words);
}

}  // namespace

std::vector<std::string> recommendation(const sim::PlanAnswer& answer) {
  std::vector<std::string> sentences = {choice_sentence(answer), next_sentence(answer), overturn_sentence(answer)};
  if (const std::string fewest = fewest_words(answer.options[answer.order[answer.recommended]]); !fewest.empty())
    sentences.push_back(fewest + ".");
  if (const auto& assumed = answer.choice().plans.front().result.assumed; !assumed.empty())
    sentences.push_back(fmt::format("Of the software is {}.", assumed_words(assumed)));
  std::erase(sentences, "");
  return sentences;
}

std::string option_words(const sim::PlanAnswer& answer, std::size_t place) {
  const sim::ClusterOption& option = answer.options[answer.order[place]];
  const sim::RankedPlan& row = answer.best(place);
  const auto& interval = row.result.interval;
  const sim::Limits in_line = {.days = {}, .usd = answer.limits.usd};
  std::vector<std::string> words = {plan_words(row), "profile " + option.inputs.profile.name()};
  words.push_back(interval ? with_range(interval->time_s, "a step", duration)
                           : "a step of " + duration(row.cost.step_s));
  if (interval && interval->days) words.push_back(days_and_usd(interval->days, interval->cost_usd));
  if (in_line.any()) words.push_back(limits_words(row.cost, in_line));
  if (answer.order.size() > 1 && !answer.best_with.empty())
    words.push_back("best with " + chance(answer.best_with[place]));
  words.push_back(percent(measured_share(row.result)) + " measured");
  std::string text = fmt::format("{}.", fmt::join(words, "; "));
  for (const std::string& sentence : {failures_words(option, answer.limits), fewest_words(option)})
    if (!sentence.empty()) text += " " + sentence + ".";
  return text;
}

}  // namespace plumbline::reports
