#include "sim/campaign/campaign.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <iterator>
#include <map>
#include <utility>
#include <vector>

#include "model/base/bytes.h"
#include "model/base/random.h"
#include "model/base/statistics.h"
#include "sim/campaign/closed_form.h"
#include "sim/campaign/detail/seed_run.h"

namespace plumbline::sim {
namespace {

// Returns the total seconds of all seeds of a campaign whose interval is set; infinite where one never finishes.
using CampaignSeconds = std::function<model::Result<double>(const CampaignInput&)>;

constexpr std::int64_t most_seeds = 256;   // of a campaign with one interval
constexpr double longest_repair_s = 1e12;  // a clock that is so far on still counts milliseconds
constexpr int most_doublings = 20;         // of the interval while its best is sought

struct Tried {
  double interval_s = 0, seconds = 0;
};

// Solves three linear equations by Cramer's rule, for two of the unknowns.
std::pair<double, double> first_two(const std::array<std::array<double, 4>, 3>& rows) {
  const auto determinant = [&](int i, int j, int k) {
    const auto at = [&](int row, int column) {
      return rows[static_cast<std::size_t>(row)][static_cast<std::size_t>(column)];
    };
    return at(0, i) * (at(1, j) * at(2, k) - at(1, k) * at(2, j)) -
           at(0, j) * (at(1, i) * at(2, k) - at(1, k) * at(2, i)) +
           at(0, k) * (at(1, i) * at(2, j) - at(1, j) * at(2, i));
  };
  const double all = determinant(0, 1, 2);
  return {determinant(3, 1, 2) / all, determinant(0, 3, 2) / all};
}

// Returns where the form a / x + b x + c fitted to the tried intervals, x being an interval over the middle one, is
// smallest; the interval of the least seconds where that is not between them.
double fitted_minimum(const std::vector<Tried>& tried, double middle) {
  std::array<std::array<double, 4>, 3> rows{};
  for (const Tried& point : tried) {
    const double x = point.interval_s / middle;
    const std::array<double, 4> terms = {1 / x, x, 1, point.seconds / tried.front().seconds - 1};
    for (std::size_t row = 0; row < 3; ++row)
      for (std::size_t column = 0; column < 4; ++column) rows[row][column] += terms[row] * terms[column];
  }
  const auto [a, b] = first_two(rows);
  const double x = std::sqrt(a / b);
  const auto [low, high] = std::ranges::minmax(tried, {}, &Tried::interval_s);
  if (a > 0 && b > 0 && x * middle >= low.interval_s && x * middle <= high.interval_s) return x * middle;
  return std::ranges::min(tried, {}, &Tried::seconds).interval_s;
}

// Searches around the input's interval with the same failures for every interval tried. Failures meet checkpoints at
// random, so times scatter around their mean: the best of them lies where the form a / interval + b interval + c is
// smallest that fits them best.
model::Result<double> best_interval(const CampaignInput& input, const CampaignSeconds& seconds) {
  CampaignInput candidate = input;
  candidate.seeds = std::min(input.seeds, most_seeds);
  const double longest = ideal_seconds(input.phases), shortest = std::min(longest, shortest_interval(input));
  std::map<double, double> known;
  const auto time = [&](double interval) -> model::Result<Tried> {
    candidate.checkpoint.interval_s = std::clamp(interval, shortest, longest);
    const auto [place, added] = known.try_emplace(candidate.checkpoint.interval_s);
    if (added) place->second = TRY(seconds(candidate));
    return Tried{place->first, place->second};
  };
  Tried best = TRY(time(input.checkpoint.interval_s));
  for (const double factor : {2.0, 0.5})
    for (int doubling = 0; doubling < most_doublings; ++doubling) {
      const Tried next = TRY(time(best.interval_s * factor));
      if (next.seconds >= best.seconds) break;
      best = next;
    }
  if (!std::isfinite(best.seconds)) return input.checkpoint.interval_s;
  std::vector<Tried> tried;
  for (int point = -4; point <= 4; ++point) {
    const Tried next = TRY(time(best.interval_s * std::exp2(point / 4.0)));
    if (std::isfinite(next.seconds) && (tried.empty() || next.interval_s > tried.back().interval_s))
      tried.push_back(next);
  }
  return tried.size() < 4 ? best.interval_s : fitted_minimum(tried, best.interval_s);
}

constexpr std::size_t seeds_of_task = 16;
constexpr double hopeless = 1e-3;    // goodput below which a campaign counts as one that never finishes
constexpr double most_events = 1e6;  // of a seed; a year of 131,072 GPUs as those of Llama 3 has a tenth of that

// Calls visit(name, value) with all amounts of an input but times of repair.
template <class Visit>
void visit_amounts(const CampaignInput& input, const Visit& visit) {
  const CheckpointPolicy& checkpoint = input.checkpoint;
  visit("gpus", static_cast<double>(input.gpus));
  visit("gpus_per_node", static_cast<double>(input.gpus_per_node));
  for (const CampaignPhase& phase : input.phases) {
    visit("tokens of phase " + phase.name, phase.tokens);
    visit("tokens per step of phase " + phase.name, phase.tokens_per_step);
    visit("step time of phase " + phase.name, phase.step_s);
  }
  for (const FailureMode& mode : input.failures) {
    visit("rate of " + mode.name, mode.per_gpu_hour);
    visit("detection of " + mode.name, mode.detect_s);
    visit("nodes of " + mode.name, static_cast<double>(mode.nodes));
    visit("slowdown by " + mode.name, mode.slows);
    visit("duration of " + mode.name, mode.lasts_s);
  }
  visit("checkpoint interval", checkpoint.interval_s);
  visit("checkpoint stall", checkpoint.stall_s);
  visit("checkpoint write", checkpoint.write_s);
  visit("checkpoint load", checkpoint.load_s);
  visit("checkpoint copies", static_cast<double>(checkpoint.copies));
  visit("checkpoints to storage", static_cast<double>(checkpoint.storage_every));
  visit("stall for storage", checkpoint.storage_stall_s);
  visit("write to storage", checkpoint.storage_write_s);
  visit("load from storage", checkpoint.storage_load_s);
  visit("spare nodes", static_cast<double>(input.spare_nodes));
  visit("restart", input.restart_s);
  visit("swap", input.swap_s);
  visit("elastic", input.elastic ? 1.0 : 0.0);
  visit("nodes of a replica", static_cast<double>(input.replica_nodes));
  visit("planned stops", input.planned_stops_per_day);
  visit("planned stop", input.planned_stop_s);
  visit("interval of health checks", input.health_check_every_s);
  visit("health check", input.health_check_s);
}

model::Result<void> check(const CampaignInput& input) {
  std::string wrong;
  double amount = 0;
  const auto note = [&](const std::string& name, double value, bool holds) {
    if (holds || !wrong.empty()) return;
    wrong = name;
    amount = value;
  };
  visit_amounts(input,
                [&](const std::string& name, double value) { note(name, value, std::isfinite(value) && value >= 0); });
  for (const FailureMode& mode : input.failures) note("repair of " + mode.name, mode.repair_s, mode.repair_s >= 0);
  if (!wrong.empty())
    return model::wrong_input("campaign", fmt::format("{} is {}", wrong, amount), "state an amount of at least 0");
  for (const FailureMode& mode : input.failures)
    note("repair of " + mode.name, mode.repair_s, mode.repair_s <= longest_repair_s || std::isinf(mode.repair_s));
  if (!wrong.empty())
    return model::wrong_input("campaign", fmt::format("{} is {}", wrong, amount),
                              fmt::format("at most {} s, or inf for nodes that never return", longest_repair_s));
  for (const CampaignPhase& phase : input.phases) {
    note("tokens of phase " + phase.name, phase.tokens, phase.tokens > 0);
    note("tokens per step of phase " + phase.name, phase.tokens_per_step, phase.tokens_per_step > 0);
    note("step time of phase " + phase.name, phase.step_s, phase.step_s > 0);
  }
  note("number of phases", 0, !input.phases.empty());
  note("gpus", static_cast<double>(input.gpus), input.gpus > 0);
  note("gpus_per_node", static_cast<double>(input.gpus_per_node), input.gpus_per_node > 0);
  note("nodes of a replica", static_cast<double>(input.replica_nodes),
       input.replica_nodes > 0 && input.replica_nodes * input.gpus_per_node < input.gpus + input.gpus_per_node);
  note("seeds", static_cast<double>(input.seeds), input.seeds > 0);
  if (!wrong.empty())
    return model::wrong_input("campaign", fmt::format("{} is {}", wrong, amount),
                              "a campaign has phases with tokens, whole replicas on its GPUs, and at least one seed");
  return {};
}

std::uint64_t seed_of(const CampaignInput& input, std::size_t number) {
  return model::Random(input.seed, number).next();
}

// Runs the first seeds of a campaign whose interval is known; fewer where it is stopped.
model::Result<std::vector<SeedOutcome>> run_seeds(const CampaignInput& input, Tasks& tasks, const Watch& watch) {
  const auto seeds = static_cast<std::size_t>(input.seeds);
  const auto run = [&](std::size_t task) -> model::Result<std::string> {
    std::vector<SeedOutcome> outcomes;
    const std::size_t end = std::min(seeds, (task + 1) * seeds_of_task);
    for (std::size_t seed = task * seeds_of_task; seed < end; ++seed) {
      if (watch.stops()) return model::interrupted("", "stopped before its campaigns were run");
      outcomes.push_back(run_seed(input, seed_of(input, seed)));
    }
    return model::to_bytes(outcomes);
  };
  const std::size_t count = (seeds + seeds_of_task - 1) / seeds_of_task;
  std::vector<std::string> results(count);
  std::size_t done = 0;
  const auto keep = [&](std::size_t task, const std::string& bytes) {
    results[task] = bytes;
    if (watch.on_progress) watch.on_progress(++done, count);
  };
  const auto all = tasks.run({.key = fmt::format("campaign {:016x}", model::hash_of(model::to_bytes(input))),
                              .count = count,
                              .run = run,
                              .done = keep});
  if (!all && !watch.stops()) return tl::unexpected(all.error());
  std::vector<SeedOutcome> outcomes;
  for (const std::string& bytes : all ? *all : results) {
    if (bytes.empty()) continue;  // it was not run
    auto some = model::from_bytes<std::vector<SeedOutcome>>(bytes);
    if (!some) return model::infeasible("", "the result of seeds is damaged", "run the campaign without --resume");
    std::ranges::move(*some, std::back_inserter(outcomes));
  }
  return outcomes;
}

model::Quantiles quantiles(const std::vector<double>& values) {
  return {model::quantile(values, 0.1), model::quantile(values, 0.5), model::quantile(values, 0.9)};
}

// Returns why a campaign never finishes as its mean times show; empty: they do not.
std::string hopeless_reason(const CampaignInput& input) {
  const CheckpointPolicy& policy = input.checkpoint;
  const double planned_every_s = 86400 / input.planned_stops_per_day, restart_s = input.restart_s + policy.load_s;
  if (restart_s >= planned_every_s)
    return fmt::format("a planned stop comes every {:.3g} h and the restart after it takes {:.3g} h",
                       planned_every_s / 3600, restart_s / 3600);
  const double between = seconds_between_failures(input), down = down_seconds(input);
  const double saved_after = policy.pause_s() + policy.stall_s, ideal = ideal_seconds(input.phases);
  // What is kept is a checkpoint, or the end of a run that has none.
  const double kept_after = std::min(saved_after, ideal), kept_s = std::min(policy.interval_s, ideal);
  const double survival = between * std::exp(down / between) * std::expm1(kept_after / between);
  if (!std::isfinite(between) || kept_s / survival > hopeless) return "";
  const std::string failures = fmt::format("a failure comes every {:.3g} h", between / 3600);
  if (down >= saved_after)
    return fmt::format("{} and detection with restart takes {:.3g} h: hardly a restart survives", failures,
                       down / 3600);
  if (std::max(policy.stall_s, policy.write_s) >= policy.interval_s)
    return fmt::format("{} and a checkpoint takes {:.3g} h: hardly one is finished", failures,
                       std::max(policy.stall_s, policy.write_s) / 3600);
  return fmt::format("{} and a checkpoint every {:.3g} h: hardly one is reached", failures, policy.interval_s / 3600);
}

// Returns how many failures, stops, checks and copies to storage a run has, about.
double expected_events(const CampaignInput& input) {
  double by_second = input.planned_stops_per_day / 86400;
  for (const FailureMode& mode : input.failures)
    by_second += mode.per_gpu_hour / 3600 * static_cast<double>(input.gpus);
  if (input.health_check_every_s > 0) by_second += 1 / input.health_check_every_s;
  if (input.checkpoint.copies > 0 && input.checkpoint.storage_every > 0)
    by_second += 1 / (input.checkpoint.pause_s() * static_cast<double>(input.checkpoint.storage_every));
  return by_second * ideal_seconds(input.phases) / std::max(expected_goodput(input), hopeless);
}

std::string stuck_reason(const CampaignInput& input, const std::vector<SeedOutcome>& outcomes) {
  const auto stuck = [&](Stuck why) { return std::ranges::count(outcomes, why, &SeedOutcome::stuck); };
  const auto unfinished = std::ssize(outcomes) - stuck(Stuck::no);
  if (unfinished == 0) return "";
  const std::string share =
      unfinished == std::ssize(outcomes) ? "" : fmt::format("{} of {} runs: ", unfinished, outcomes.size());
  if (stuck(Stuck::nodes) >= stuck(Stuck::progress))
    return share + fmt::format("nodes that fail are not repaired, and {} run out",
                               input.spare_nodes > 0 ? fmt::format("{} spare nodes", input.spare_nodes) : "those left");
  return share + fmt::format("no checkpoint is reached between failures that come every {:.3g} h",
                             seconds_between_failures(input) / 3600);
}

void add_mean(CampaignResult& result, const SeedOutcome& outcome, double weight) {
  const auto add = [weight](double& mean, double value) { mean += value * weight; };
  for (const auto part :
       {&CampaignTime::useful_s, &CampaignTime::lost_s, &CampaignTime::checkpoint_s, &CampaignTime::detect_s,
        &CampaignTime::restart_s, &CampaignTime::wait_s, &CampaignTime::slow_s, &CampaignTime::planned_s})
    add(result.mean.*part, outcome.time.*part);
  add(result.mean_interruptions, outcome.interruptions);
  add(result.mean_goodput, outcome.time.useful_s / outcome.time.total());
  for (std::size_t mode = 0; mode < outcome.of_mode.size(); ++mode)
    add(result.interruptions_of_mode[mode], outcome.of_mode[mode]);
}

void summarize(const std::vector<SeedOutcome>& outcomes, CampaignResult& result) {
  const auto finished = std::ranges::count(outcomes, Stuck::no, &SeedOutcome::stuck);
  result.finished = static_cast<double>(finished) / static_cast<double>(outcomes.size());
  std::vector<double> goodput, interruptions;
  for (const SeedOutcome& outcome : outcomes) {
    const bool ends = outcome.stuck == Stuck::no;
    result.days_of_seed.push_back(ends ? outcome.time.total() / 86400 : never);
    goodput.push_back(ends ? outcome.time.useful_s / outcome.time.total() : 0);
    interruptions.push_back(outcome.interruptions);
    if (ends) add_mean(result, outcome, 1 / static_cast<double>(finished));
  }
  result.days = quantiles(result.days_of_seed);
  result.goodput = quantiles(goodput);
  result.interruptions = quantiles(interruptions);
}

// Returns the best interval; the one of the closed form where nothing fails or the campaign never finishes.
model::Result<double> interval_of(const CampaignInput& input, Tasks& tasks, const Watch& watch) {
  if (!std::isfinite(seconds_between_failures(input)) || !hopeless_reason(input).empty())
    return input.checkpoint.interval_s;
  return best_interval(input, [&](const CampaignInput& tried) -> model::Result<double> {
    const std::vector<SeedOutcome> outcomes = TRY(run_seeds(tried, tasks, {.stopped = watch.stopped}));
    if (watch.stops()) return model::interrupted("", "stopped while the best interval between checkpoints was sought");
    double seconds = 0;
    for (const SeedOutcome& outcome : outcomes) seconds += outcome.stuck == Stuck::no ? outcome.time.total() : never;
    return seconds;
  });
}

}  // namespace

model::Result<CampaignResult> run_campaign(const CampaignInput& asked, Tasks& tasks, const Watch& watch) {
  TRY(check(asked));
  CampaignInput input = asked;
  CampaignResult result;
  const double between = seconds_between_failures(input);
  result.hours_between_failures = between / 3600;
  result.young_s = young_interval(input.checkpoint.stall_s, between);
  result.daly_s = daly_interval(input.checkpoint.stall_s, between);
  result.interruptions_of_mode.resize(input.failures.size());
  const bool searched = input.checkpoint.interval_s == 0;
  if (searched) input.checkpoint.interval_s = closed_form_interval(input);
  if (const double events = expected_events(input); hopeless_reason(input).empty() && !(events <= most_events))
    return model::wrong_input("campaign",
                              fmt::format("a run has about {:.3g} failures, planned stops, health checks and copies "
                                          "to storage, at most {:.0e} are simulated",
                                          events, most_events),
                              "state fewer tokens, or stops and checks that are rarer");
  if (searched) input.checkpoint.interval_s = TRY(interval_of(input, tasks, watch));
  result.checkpoint_interval_s = input.checkpoint.pause_s();
  result.never = hopeless_reason(input);
  if (!result.never.empty()) {
    result.days_of_seed.assign(static_cast<std::size_t>(input.seeds), never);
    result.days = {never, never, never};
    return result;
  }
  const std::vector<SeedOutcome> outcomes = TRY(run_seeds(input, tasks, watch));
  if (outcomes.empty()) return model::interrupted("", "stopped before a campaign was run");
  result.complete = std::ssize(outcomes) == input.seeds;
  result.never = stuck_reason(input, outcomes);
  summarize(outcomes, result);
  run_seed(input, seed_of(input, 0), &result.events);
  return result;
}

}  // namespace plumbline::sim
