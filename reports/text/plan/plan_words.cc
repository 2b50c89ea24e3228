#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <string_view>

#include "model/base/text.h"
#include "model/result/comparison.h"
#include "reports/text/plan/plan_report.h"
#include "reports/text/step/describe.h"
#include "reports/text/table.h"

namespace plumbline::reports {
namespace {

// Adds "NIC 25 instead of 50 GB/s" when two rates differ by more than rounding.
void add_difference(std::vector<std::string>& parts, const char* what, double value, double other, const char* unit) {
  constexpr double rounding = 1e-6;
  if (std::abs(value - other) <= rounding * std::max(std::abs(value), std::abs(other))) return;
  parts.push_back(fmt::format("{} {} instead of {} {}", what, number(value), number(other), unit));
}

std::vector<std::string> hardware_differences(const sim::ClusterOption& above, const sim::ClusterOption& option) {
  constexpr double tera_unit = 1e12, giga_unit = 1e9;
  const model::ClusterShape &now = option.inputs.cluster, &then = above.inputs.cluster;
  std::vector<std::string> parts;
  if (option.gpus != above.gpus)
    parts.push_back(fmt::format("{} instead of {} GPUs", grouped(option.gpus), grouped(above.gpus)));
  const auto add = [&](const char* what, auto rate, double unit, const char* name) {
    add_difference(parts, what, rate(now).value() / unit, rate(then).value() / unit, name);
  };
  add(
      "BF16 peak", [](const auto& c) { return c.device.bf16_peak; }, tera_unit, "TFLOP/s");
  add(
      "memory", [](const auto& c) { return c.device.memory; }, giga_unit, "GB");
  add(
      "memory bandwidth", [](const auto& c) { return c.device.memory_bandwidth; }, tera_unit, "TB/s");
  add(
      "node links", [](const auto& c) { return c.intra_node_bandwidth; }, giga_unit, "GB/s");
  add(
      "NICs", [](const auto& c) { return c.inter_node_bandwidth(); }, giga_unit, "GB/s a GPU");
  const std::string profile = option.inputs.profile.name(), other = above.inputs.profile.name();
  if (profile != other) parts.push_back(fmt::format("profile {} instead of {}", profile, other));
  return parts;
}

struct FamilyOfConstants {
  std::string_view prefix, name;
};
constexpr std::array families = {FamilyOfConstants{"gemm.", "GEMMs"},
                                 FamilyOfConstants{"attention.", "attention"},
                                 FamilyOfConstants{"memory.", "memory-bound kernels"},
                                 FamilyOfConstants{"permute.", "memory-bound kernels"},
                                 FamilyOfConstants{"kernel.", "launches and short kernels"},
                                 FamilyOfConstants{"router.", "routers"},
                                 FamilyOfConstants{"exchange.", "expert all-to-all"},
                                 FamilyOfConstants{"collective.", "collectives and messages"},
                                 FamilyOfConstants{"network.", "collectives and messages"},
                                 FamilyOfConstants{"measured.", "operators measured as such"}};
constexpr const char* other_constants = "other constants";

std::string family_of_constant(std::string_view constant) {
  const auto found =
      std::ranges::find_if(families, [&](const FamilyOfConstants& f) { return constant.starts_with(f.prefix); });
  return found == families.end() ? other_constants : std::string(found->name);
}

// Returns why a step takes longer in the middle: by changes of its components, and of what the middle has beyond them,
// so that the reasons add up to the difference by which plans are ordered.
std::string step_reasons(const sim::RankedPlan& above, const sim::RankedPlan& row) {
  model::Waterfall parts = model::waterfall(above.result.step, row.result.step);
  parts.rows.push_back({"beyond the components", above.cost.step_s - parts.from_s, row.cost.step_s - parts.to_s});
  parts.from_s = above.cost.step_s;
  parts.to_s = row.cost.step_s;
  return model::main_reasons(parts);
}

bool rests_on_measurement(model::Evidence kind) {
  return kind != model::Evidence::datasheet && kind != model::Evidence::assumed;
}

// Returns "28.67 days (19.25-42.49)"; the range is eight of ten cases.
std::string with_range(const model::Quantiles& amount, const char* unit, std::string (*text)(double)) {
  return fmt::format("{} {} ({})", text(amount.p50), unit, span(text(amount.p10), text(amount.p90)));
}

// Returns days and USD, of which either may be unknown.
std::string days_and_usd(const std::optional<model::Quantiles>& days, const std::optional<model::Quantiles>& usd) {
  std::vector<std::string> words;
  if (days) words.push_back(with_range(*days, "days", days_text));
  if (usd) words.push_back(with_range(*usd, "USD", usd_text));
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

// Returns what the best plan of an option takes with failures, else by its steps alone, and how probably it keeps the
// limits.
std::string takes_words(const sim::ClusterOption& option, const sim::Limits& limits) {
  const sim::RankedPlan& row = option.plans.front();
  const auto& interval = row.result.interval;
  const sim::CampaignAnswer* training = sim::known_training(option);
  const bool endless = training != nullptr && training->never_ends();
  std::vector<std::string> words;
  if (endless)
    words.emplace_back("without an end, with failures");
  else if (training != nullptr)
    words.push_back(days_and_usd(training->days, training->usd()) + " with failures");
  else if (interval && interval->days)
    words.push_back(days_and_usd(interval->days, interval->cost_usd) + " by its steps alone");
  else
    words.push_back("a step of " + duration(row.cost.step_s));
  if (limits.any() && !endless)
    words.push_back(training != nullptr ? limits_words(*training, limits) : limits_words(row.cost, limits));
  if (interval) words.push_back("fits in memory with " + chance(interval->fits_probability));
  return fmt::format("{}", fmt::join(words, ", "));
}

// Returns by what the middle of a plan exceeds the limits: "3.4 % longer than the deadline, 4.1 % above the budget".
std::string excess_words(const sim::PlanCost& cost, const sim::Limits& limits) {
  if (cost.days && std::isinf(*cost.days)) return "without an end";
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
  const sim::CampaignAnswer* training = sim::known_training(option);
  const bool said = met || (training != nullptr && training->never_ends());  // takes_words() has that it never ends
  const std::string missing = said ? "" : fmt::format(" It is {}.", excess_words(taken, answer.limits));
  const bool alone = answer.order.size() == 1 || answer.best_with.empty();
  const std::string sure = alone ? "" : ", the best with " + chance(answer.best_with[answer.recommended]);
  return fmt::format("{} {} with {}: {}{}.{}", lead, option_name(answer, option), plan_words(row),
                     takes_words(option, answer.limits), sure, missing);
}

// Returns "28.1 % longer", and from twice on "3.170 times as long"; nothing where either is not known or never ends.
std::optional<std::string> difference(const std::optional<double>& value, const std::optional<double>& best,
                                      const char* more, const char* less, const char* as_much) {
  if (!value || !best || !std::isfinite(*value) || !std::isfinite(*best)) return std::nullopt;
  if (*value >= 2 * *best) return fmt::format("{} times {}", number(*value / *best), as_much);
  const double over = *value / *best - 1;
  return fmt::format("{} {}", percent(std::abs(over)), over < 0 ? less : more);
}

std::string next_sentence(const sim::PlanAnswer& answer) {
  if (answer.order.size() < 2) return "";
  const std::size_t next = answer.recommended == 0 ? 1 : 0;
  const sim::PlanCost best = answer.taken(answer.recommended), cost = answer.taken(next);
  std::vector<std::string> words;
  const auto add = [&](std::optional<std::string> text) {
    if (text) words.push_back(std::move(*text));
  };
  if (answer.has_tokens)
    add(difference(cost.days, best.days, "longer", "shorter", "as long"));
  else
    add(difference(cost.step_s, best.step_s, "longer", "shorter", "as long"));
  if (cost.days && std::isinf(*cost.days)) words.emplace_back("never ends");
  add(difference(cost.usd, best.usd, "dearer", "cheaper", "as dear"));
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
  const std::string by = fmt::format("within {} days in nine of ten cases", days_text(finish.days));
  if (finish.gpus == option.gpus) return fmt::format("No fewer GPUs with these degrees fit and end {}", by);
  if (finish.gpus)
    return fmt::format("Fewest GPUs with these degrees that fit and end {}: {}", by, grouped(*finish.gpus));
  const sim::CampaignOnGpus* nearest = nullptr;
  for (const sim::CampaignOnGpus& tried : finish.tried)
    if (tried.reason.empty() && (nearest == nullptr || tried.in_time > nearest->in_time)) nearest = &tried;
  const std::string best =
      nearest == nullptr ? "" : fmt::format(": {} do with {}", grouped(nearest->gpus), model::chance(nearest->in_time));
  return fmt::format("No number of GPUs that was tried with these degrees fits and ends {}{}", by, best);
}

std::string failures_words(const sim::ClusterOption& option, const sim::Limits& limits) {
  const sim::CampaignAnswer* training = sim::known_training(option);
  if (training == nullptr) return "";
  const sim::CampaignResult& campaign = training->result;
  if (training->never_ends()) return fmt::format("With failures it never ends, because {}", campaign.never);
  std::string words = days_and_usd(training->days, training->usd());
  if (limits.any()) words += ", " + limits_words(*training, limits);
  const std::int64_t spares = training->input.spare_nodes;
  if (spares > 0 && training->usd())
    words += fmt::format("; {} more with its {}", percent(training->share_of_spares()),
                         spares > 1 ? fmt::format("{} spare nodes", spares) : "spare node");
  return fmt::format("With failures, one every {} h: {}", number(campaign.hours_between_failures), words);
}

}  // namespace

std::string option_name(const sim::ClusterOption& option) {
  return fmt::format("{}, {} {}", option.cluster, grouped(option.gpus), option.gpus == 1 ? "GPU" : "GPUs");
}

std::string option_name(const sim::PlanAnswer& answer, const sim::ClusterOption& option) {
  const auto alike = [&](const sim::ClusterOption& other) {
    return other.cluster == option.cluster && other.gpus == option.gpus;
  };
  const auto differs = [&](auto field) {
    return std::ranges::any_of(
        answer.options, [&](const sim::ClusterOption& other) { return alike(other) && field(other) != field(option); });
  };
  std::string name = option_name(option);
  if (differs([](const sim::ClusterOption& other) { return other.inputs.profile.name(); }))
    name += " by " + option.inputs.profile.name();
  if (option.offered_usd && differs([](const sim::ClusterOption& other) { return other.offered_usd; }))
    name += fmt::format(" at {} USD", fixed(*option.offered_usd, 2));
  return name;
}

std::optional<model::Quantiles> objective_interval(const sim::RankedPlan& row, sim::Objective objective) {
  if (!row.result.interval) return std::nullopt;
  const model::PredictionInterval& interval = *row.result.interval;
  switch (objective) {
    case sim::Objective::time:
      return interval.days.value_or(interval.time_s);
    case sim::Objective::gpu_hours:
      return interval.gpu_hours.value_or(interval.time_s.scaled(row.cost.gpus));
    case sim::Objective::cost:
      return interval.cost_usd;
    default:
      return std::nullopt;
  }
}

std::string chance(std::optional<double> probability) { return probability ? model::chance(*probability) : "-"; }

std::string usd_text(double usd) {
  constexpr double cents_count = 100;
  if (!std::isfinite(usd)) return "never";  // of trainings that do not end
  return usd < cents_count ? fixed(usd, 2) : scaled(usd);
}

std::string span(const std::string& low, const std::string& high) {
  const std::size_t unit = low.find(' '), other = high.find(' ');
  const bool same = low.substr(std::min(unit, low.size())) == high.substr(std::min(other, high.size()));
  return fmt::format("{}-{}", same ? low.substr(0, unit) : low, high);
}

double measured_share(const model::StepResult& result) {
  double measured = 0, all = 0;
  for (const EvidenceShare& part : evidence_shares(result.provenance)) {
    all += part.share;
    if (rests_on_measurement(part.kind)) measured += part.share;
  }
  return all > 0 ? measured / all : 0;
}

bool only_datasheet(const model::StepResult& result) {
  constexpr double nearly_nothing = 0.1;
  return measured_share(result) < nearly_nothing;
}

std::vector<FamilyShare> family_shares(const model::StepResult& result) {
  std::vector<FamilyShare> shares;
  const auto share_of = [&shares](std::string_view name) {
    const auto found = std::ranges::find(shares, name, &FamilyShare::name);
    return found != shares.end() ? found : shares.insert(shares.end(), {.name = std::string(name)});
  };
  for (const model::ProvenanceEntry& entry : result.provenance) {
    if (entry.share_of_step <= 0) continue;
    const auto found = share_of(family_of_constant(entry.parameter.name));
    found->share += entry.share_of_step;
    if (rests_on_measurement(entry.parameter.kind)) found->measured += entry.share_of_step;
  }
  for (const FamilyOfConstants& family : families) share_of(family.name);
  share_of(other_constants);
  std::ranges::stable_sort(shares, std::ranges::greater(), &FamilyShare::share);
  return shares;
}

std::string family_words(const model::StepResult& result) {
  constexpr double shown = 0.01, nearly_all = 0.9, nearly_none = 0.1;
  std::vector<std::string> measured, partly, not_measured;
  for (const FamilyShare& family : family_shares(result)) {
    if (family.share < shown) continue;
    const double part = family.measured / family.share;
    (part >= nearly_all   ? measured
     : part > nearly_none ? partly
                          : not_measured)
        .push_back(fmt::format("{} ({})", family.name, percent(family.share)));
  }
  std::vector<std::string> words;
  if (!measured.empty()) words.push_back(fmt::format("measured: {}", fmt::join(measured, ", ")));
  if (!partly.empty()) words.push_back(fmt::format("partly measured: {}", fmt::join(partly, ", ")));
  if (!not_measured.empty()) words.push_back(fmt::format("assumed or by datasheet: {}", fmt::join(not_measured, ", ")));
  return fmt::format("{}", fmt::join(words, "; "));
}

std::string reason_on_option(const sim::RankedPlan& above, const sim::RankedPlan& row) {
  const std::string why = step_reasons(above, row);
  const std::string slower = signed_percent(row.cost.step_s / above.cost.step_s - 1);
  const auto surely = sim::probability_better(above.cost, row.cost, sim::Objective::time);
  return fmt::format("{}{}: {}", slower, surely ? fmt::format(", worse with {}", chance(surely)) : "",
                     why.empty() ? "no class of work explains it" : why);
}

std::string reason_between(const sim::ClusterOption& above, const sim::ClusterOption& option,
                           sim::Objective objective) {
  const sim::RankedPlan &first = above.plans.front(), &row = option.plans.front();
  std::vector<std::string> parts = hardware_differences(above, option);
  const std::string why = step_reasons(first, row);
  const auto now = sim::price_of(option).value, then = sim::price_of(above).value;
  // Of the same GPUs with the same step it is the price that decides, whatever ranks them.
  const bool by_price = objective == sim::Objective::cost || (parts.empty() && why.empty());
  if (by_price && now && then) add_difference(parts, "price", now->value, then->value, "USD a GPU-hour");
  if (!why.empty()) parts.push_back("step: " + why);
  if (parts.empty()) parts.emplace_back("the same GPUs, step and price");
  return fmt::format("{}", fmt::join(parts, "; "));
}

std::string price_words(const sim::ClusterOption& option) {
  const auto price = sim::price_of(option);
  if (!price.value) return fmt::format("{}: no price known: {}.", option.cluster, price.missing);
  const model::HourlyPrice& usd = *price.value;
  const std::string range = usd.low < usd.high ? fmt::format(" ({} to {})", fixed(usd.low, 2), fixed(usd.high, 2)) : "";
  const std::string from = option.offered_usd ? usd.source : fmt::format("{}: {}", usd.kind, usd.source);
  return fmt::format("{}: {} USD{}, {}, {}.", option.cluster, fixed(usd.value, 2), range,
                     option.inputs.plan.run.ownership, from);
}

std::string last_rule(const sim::SearchResult& search) {
  const auto last = std::ranges::find_if(search.removed.rbegin(), search.removed.rend(),
                                         [](const sim::Removed& removed) { return removed.plans > 0; });
  if (last == search.removed.rend()) return "";
  const std::string closest = last->example.empty() ? "" : fmt::format("; closest: {}", last->example);
  return fmt::format("{} ({} plans{})", last->rule, grouped(last->plans), closest);
}

std::string why_empty(const sim::ClusterOption& option) {
  if (option.error) return model::to_string(*option.error);
  if (!option.search.complete) return "stopped before any was found";
  if (!option.edge.empty()) {
    const auto likeliest = std::ranges::max_element(
        option.edge, {}, [](const sim::RankedPlan& row) { return row.result.interval->fits_probability; });
    return fmt::format(
        "none that was found fits in memory with {:.0f} % or more; one fits with {} (--set "
        "search.min_fit={:.2f} ranks it)",
        option.inputs.plan.search.min_fit * 100, chance(likeliest->result.interval->fits_probability),
        std::floor(likeliest->result.interval->fits_probability * 100) / 100);
  }
  if (option.search.evaluated == 0) {
    const std::string rule = last_rule(option.search);
    return rule.starts_with("memory") ? rule + "; more GPUs share what is sharded (--gpus, --offer)" : rule;
  }
  return fmt::format("none of the {} that were evaluated fits in memory", grouped(option.search.evaluated));
}

std::string excess(double value, double limit, const char* more) {
  return value < 2 * limit ? fmt::format("{} {}", percent(value / limit - 1), more) : number(value / limit) + " times";
}

std::string unmet_limits(const sim::PlanAnswer& answer) {
  std::vector<std::string> parts;
  const auto closest = [&](auto field, double limit, const char* what, auto text) {
    std::optional<std::size_t> best;
    for (std::size_t i = 0; i < answer.order.size(); ++i) {
      if (field(i) && (!best || *field(i) < *field(*best))) best = i;
    }
    if (!best) {
      parts.push_back(fmt::format("{} is known of no cluster", what));
      return;
    }
    if (std::isinf(*field(*best))) {
      if (std::ranges::find(parts, "no training ends") == parts.end()) parts.emplace_back("no training ends");
      return;
    }
    if (*field(*best) <= limit) return;
    parts.push_back(fmt::format("{}: {} on {} is the least, {} the limit of {}", what, text(*field(*best)),
                                option_name(answer, answer.options[answer.order[*best]]),
                                excess(*field(*best), limit, "over"), text(limit)));
  };
  if (answer.limits.days)
    closest([&](std::size_t i) { return answer.taken(i).days; }, *answer.limits.days, "time",
            [](double days) { return days_text(days) + " days"; });
  if (answer.limits.usd)
    closest([&](std::size_t i) { return answer.taken(i).usd; }, *answer.limits.usd, "cost",
            [](double usd) { return usd_text(usd) + " USD"; });
  if (parts.empty()) parts.push_back("each limit alone is met by a cluster, both together by none");
  return fmt::format("{}", fmt::join(parts, "; "));
}

std::vector<std::string> assumptions(const sim::Recipe& recipe, const std::vector<std::string>& overrides) {
  std::vector<std::string> sentences = recipe.stated;
  if (!recipe.defaults) return sentences;
  const sim::DefaultRecipe& sizes = *recipe.defaults;
  const auto assume = [&](std::string_view key, std::string sentence) {
    const auto sets = [&](const std::string& change) { return change.starts_with(std::string(key) + "="); };
    if (std::ranges::none_of(overrides, sets)) sentences.push_back("assumed: " + std::move(sentence));
  };
  assume("batch.sequence_length",
         fmt::format("sequences of {} tokens, the smaller of 4,096 and what the model was made for",
                     grouped(sizes.sequence_length)));
  assume("batch.global_batch_size",
         fmt::format("{} sequences a step ({} tokens): 4 Mi tokens up to 100 B parameters, 16 Mi above; of the tokens "
                     "asked for at most a thousandth, but 32 sequences",
                     grouped(sizes.global_batch_size),
                     scaled(static_cast<double>(sizes.global_batch_size * sizes.sequence_length))));
  assume("run.tokens", fmt::format("{} tokens in all, 20 per parameter that a token uses ({}; arXiv 2203.15556)",
                                   scaled(sizes.tokens), scaled(sizes.active_parameters)));
  assume("precision.gemm", "BF16, gradients and optimizer in FP32");
  if (sizes.active_parameters < sizes.parameters / 2)
    assume("routing.imbalance", "tokens choose their experts evenly (routing.imbalance 0)");
  return sentences;
}

std::vector<std::string> alternative_names(const sim::PlanAnswer& answer, const sim::BreakEvenSection& section) {
  std::vector<std::string> names;
  for (const std::size_t place : section.alternatives)
    names.push_back(section.hardware ? option_name(answer, answer.options[answer.order[place]])
                                     : fmt::format("plan {}", place + 1));
  return names;
}

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
  std::vector<std::string> words = {plan_words(row), "profile " + option.inputs.profile.name()};
  words.push_back(interval ? with_range(interval->time_s, "a step", duration)
                           : "a step of " + duration(row.cost.step_s));
  const bool failing = sim::known_training(option) != nullptr;
  if (interval && interval->days)
    words.push_back(days_and_usd(interval->days, interval->cost_usd) + (failing ? " by its steps alone" : ""));
  if (!failing && answer.limits.usd) words.push_back(limits_words(row.cost, {.days = {}, .usd = answer.limits.usd}));
  if (answer.order.size() > 1 && !answer.best_with.empty())
    words.push_back("best with " + chance(answer.best_with[place]));
  words.push_back(percent(measured_share(row.result)) + " measured");
  std::string text = fmt::format("{}.", fmt::join(words, "; "));
  for (const std::string& sentence : {failures_words(option, answer.limits), fewest_words(option)})
    if (!sentence.empty()) text += " " + sentence + ".";
  return text;
}

}  // namespace plumbline::reports
