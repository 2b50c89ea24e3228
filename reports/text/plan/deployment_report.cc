#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "model/result/result.h"
#include "reports/charts/charts.h"
#include "reports/text/plan/plan_report.h"
#include "reports/text/table.h"

namespace plumbline::reports {
namespace {

constexpr const char* deployment_columns =
    "> | prefill | decode | >P:D GPUs | >chunk | >in flight | >batch/GPU | >TPOT | >TTFT | >tokens/s/GPU | >USD/M with "
    "prompts "
    "| "
    "binds | >+ | ";

std::string aim_words(sim::Objective objective) {
  if (objective == sim::Objective::latency) return "the shortest time per output token";
  return objective == sim::Objective::throughput ? "the most output tokens/s per GPU"
                                                 : "the most output tokens per USD";
}

// Returns what is asked: lengths, formats, engine, limits.
std::string question_words(const sim::DeploymentAnswer& answer) {
  const model::Plan& plan = answer.options.front().on.inputs.plan;
  const auto& keys = plan.inference;
  std::string words = keys.lengths ? fmt::format("Lengths of {}", *keys.lengths)
                                   : fmt::format("Prompts of {} tokens, outputs of {}", grouped(keys.input_tokens),
                                                 grouped(keys.output_tokens));
  if (keys.prefix_hit_rate > 0) words += fmt::format(", {} of the input cached", percent(keys.prefix_hit_rate));
  words += fmt::format("; weights {}, keys and values {}, engine {}", model::to_string(keys.weights), keys.kv_cache,
                       keys.engine);
  const bool given = answer.objective == sim::Objective::latency;
  words += given ? fmt::format("; {} requests in flight", grouped(keys.concurrency)) : "; as many requests as fit";
  if (keys.max_tpot_s) words += fmt::format("; TPOT at most {}", duration(*keys.max_tpot_s));
  if (keys.max_ttft_s) words += fmt::format("; TTFT at most {}", duration(*keys.max_ttft_s));
  if (keys.max_tpot_s || keys.max_ttft_s) words += fmt::format(" in {} of cases", percent(answer.confidence));
  if (keys.demand_output_tokens_per_day)
    words += fmt::format("; {} output tokens a day", scaled(*keys.demand_output_tokens_per_day));
  if (answer.most_usd_per_hour) words += fmt::format("; at most {} USD an hour", scaled(*answer.most_usd_per_hour));
  return words + ".";
}

// Returns the middle of the best deployment's interval over its components, which holds for all on that cluster.
model::ServingFactors factors_on(const sim::DeploymentOption& option) {
  return model::middle_factors(option.search.best.front().result);
}

std::vector<std::string> deployment_cells(const sim::RankedDeployment& row, const sim::RankedDeployment& best,
                                          const sim::DeploymentAnswer& answer, const model::ServingFactors& factors) {
  const auto& keys = row.plan.inference;
  const model::ServingResult result = model::middle_serving(row.result, factors);
  const bool apart = keys.disaggregated;
  const auto instance = [&](model::PoolKind kind) { return sim::degree_words(model::instance_of(row.plan, kind)); };
  const double over = answer.objective == sim::Objective::latency ? row.value / best.value : best.value / row.value;
  return {apart ? instance(model::PoolKind::prefill) : "with decode",
          apart ? instance(model::PoolKind::decode) : instance(model::PoolKind::both),
          apart ? fmt::format("{}:{}", grouped(result.prefill_gpus), grouped(result.decode_gpus)) : "-",
          apart ? "-" : grouped(keys.chunked_prefill_tokens),
          grouped(result.concurrency),
          number(result.batch_per_gpu),
          duration(result.tpot_s),
          duration(result.ttft_s),
          number(result.output_tokens_per_s_per_gpu),
          result.usd_per_million_tokens_all_in ? number(*result.usd_per_million_tokens_all_in) : "-",
          std::string(model::to_string(result.bound_by)),
          row.value > 0 && best.value > 0 && over > 1 ? percent(over - 1) : "",
          row.within ? "" : "over the limit"};
}

// Returns the interval of the first deployment.
std::string interval_words(const sim::DeploymentAnswer& answer) {
  const auto& interval = answer.best(0).result.interval;
  if (!interval || !interval->tpot_s || !interval->output_tokens_per_s_per_gpu) return "";
  const model::Quantiles &tpot = *interval->tpot_s, &rate = *interval->output_tokens_per_s_per_gpu;
  return paragraph(fmt::format("{}, deployment 1: in eight of ten cases a TPOT of {} and {} tokens/s per GPU.",
                               option_name(answer.first().on), span(duration(tpot.p10), duration(tpot.p90)),
                               span(number(rate.p10), number(rate.p90))));
}

std::string clusters_table(const sim::DeploymentAnswer& answer, Style style) {
  Table table(with(columns_of("> | cluster | profile | >GPUs"), columns_of(std::string(deployment_columns).substr(4))));
  for (std::size_t i = 0; i < answer.order.size(); ++i) {
    const sim::ClusterOption& on = answer.options[answer.order[i]].on;
    table.add(
        with({fmt::format("{}", i + 1), on.cluster, on.inputs.profile.name(), grouped(on.gpus)},
             deployment_cells(answer.best(i), answer.best(0), answer, factors_on(answer.options[answer.order[i]]))));
  }
  return heading("Clusters, each with its best deployment", style) + table.to_string();
}

std::string deployments_table(const sim::DeploymentAnswer& answer, Style style) {
  const sim::DeploymentOption& option = answer.first();
  Table table(columns_of(deployment_columns));
  for (std::size_t i = 0; i < option.search.best.size(); ++i)
    table.add(with({fmt::format("{}", i + 1)},
                   deployment_cells(option.search.best[i], option.search.best.front(), answer, factors_on(option))));
  return heading("Deployments on " + option_name(option.on), style) + table.to_string() + "\n" +
         paragraph(
             "TP tensor, PP pipeline, DP attention data, EP expert degree (+: redundant experts) of an instance, TBO: "
             "two overlapped micro-batches; chunk: tokens of a step with prompts; TTFT: at that load; USD/M with "
             "prompts: a million output tokens, of all GPUs.");
}

std::string frontier_table(const sim::DeploymentAnswer& answer, Style style) {
  constexpr std::size_t most = 12;
  const auto& frontier = answer.first().search.frontier;
  if (frontier.empty()) return "";
  Table table("  >tokens/s/user | >tokens/s/GPU | >TPOT | >TTFT | >in flight | deployment | ");
  const std::size_t shown = std::min(most, frontier.size());
  for (std::size_t i = 0; i < shown; ++i) {
    const sim::DeploymentPoint& one = frontier[shown == 1 ? 0 : i * (frontier.size() - 1) / (shown - 1)];
    const model::ServingPoint point = model::middle_point(one.point, factors_on(answer.first()));
    table.add({number(1 / point.tpot_s), number(point.output_tokens_per_s_per_gpu), duration(point.tpot_s),
               duration(point.ttft_s), grouped(point.concurrency), sim::deployment_words(one.plan),
               point.within_limits ? "" : "over the limit"});
  }
  return heading("Interactivity against throughput on " + option_name(answer.first().on), style) + table.to_string();
}

std::string removed_words(const sim::Removed& removed) {
  const std::string example = removed.example.empty() ? "" : fmt::format(", for example: {}", removed.example);
  return fmt::format("{} {}{}", grouped(removed.plans), removed.rule, example);
}

std::string searched_text(const sim::DeploymentAnswer& answer, Style style) {
  constexpr std::size_t most_rules = 6;
  std::string text = heading("Searched", style);
  for (const sim::DeploymentOption& option : answer.options) {
    const sim::DeploymentSearchResult& search = option.search;
    if (search.space == 0) continue;
    text += paragraph(fmt::format("{}: {} deployments{}, {} of them predicted.", option_name(option.on),
                                  grouped(search.space), search.complete ? "" : ", not all decided",
                                  grouped(search.evaluated)));
    for (std::size_t i = 0; i < std::min(most_rules, search.removed.size()); ++i)
      text += paragraph("- " + removed_words(search.removed[i]));
  }
  return text;
}

std::string rests_text(const sim::DeploymentAnswer& answer, Style style) {
  std::string notes;
  if (!answer.overrides.empty()) notes += paragraph(fmt::format("--set {}.", fmt::join(answer.overrides, " --set ")));
  std::vector<std::string> listed;
  for (const sim::DeploymentOption& option : answer.options) {
    for (const std::string& note : option.on.notes)
      notes += paragraph(fmt::format("{}: {}.", option_name(option.on), note));
    if (std::ranges::find(listed, option.on.cluster) != listed.end()) continue;
    listed.push_back(option.on.cluster);
    notes += paragraph("a GPU-hour on " + price_words(option.on));
  }
  if (!answer.order.empty())
    for (const std::string& note : answer.best(0).result.notes) notes += paragraph(note);
  return heading("What it rests on", style) + notes;
}

std::string days_and_usd(const sim::PlanCost& cost) {
  if (!cost.days) return "";
  return fmt::format("; {} days{}", days_text(*cost.days),
                     cost.usd ? fmt::format(", {} USD", grouped(*cost.usd)) : std::string());
}

// "32+96": those that train and those that generate.
std::string gpu_words(const sim::RolloutSplit& split) {
  const std::string training = grouped(split.training_gpus);
  return split.placement == "colocated" ? training : training + '+' + grouped(split.engine_gpus);
}

std::string split_name(const sim::RolloutAnswer& answer, const sim::RolloutSplit& split) {
  return fmt::format("{}, {}, {} GPUs", answer.option_of(split).cluster, split.placement, gpu_words(split));
}

// Returns which split to take with what it takes, and what the next one loses.
std::string split_choice(const sim::RolloutAnswer& answer) {
  const sim::RolloutSplit& first = answer.splits.front();
  const sim::PlanCost& cost = first.best->cost;
  const auto& interval = first.best->result.rollout->interval_s;
  const bool met = sim::within(cost, answer.limits);
  std::string words = fmt::format(
      "{} {}: a step of {}{}{}.", met ? "Recommended is" : "Nothing meets the limits; the first is",
      split_name(answer, first), duration(cost.step_s),
      interval ? fmt::format(" ({})", span(duration(interval->p10), duration(interval->p90))) : "", days_and_usd(cost));
  if (answer.splits.size() < 2 || !answer.splits[1].best) return words;
  const sim::RolloutSplit& next = answer.splits[1];
  const auto best = sim::measure(cost, answer.objective), other = sim::measure(next.best->cost, answer.objective);
  if (!best || !other) return words;
  const double over = *other / *best - 1;
  const bool less = over < 0;
  const char* more = answer.objective == sim::Objective::time   ? (less ? "shorter" : "longer")
                     : answer.objective == sim::Objective::cost ? (less ? "cheaper" : "dearer")
                     : less                                     ? "fewer GPU-hours"
                                                                : "more GPU-hours";
  return words + fmt::format(" Next is {}: {} {}{}.", split_name(answer, next), percent(std::abs(over)), more,
                             !met || sim::within(next.best->cost, answer.limits) ? "" : ", over the limits");
}

std::string splits_table(const sim::RolloutAnswer& answer, std::size_t count) {
  const bool several = answer.options.size() > 1;
  constexpr const char* columns =
      "placement | >GPUs | >step | >tokens /s/GPU | >idle train | >idle gen. | >USD /step | >+";
  Table table(std::string(several ? "> | cluster | " : "> | ") + columns);
  const double first = sim::measure(answer.splits.front().best->cost, answer.objective).value_or(0);
  for (std::size_t i = 0; i < count; ++i) {
    const sim::RolloutSplit& split = answer.splits[i];
    const model::RolloutResult& rollout = *split.best->result.rollout;
    const model::RolloutResult middle = model::middle_rollout(rollout);
    const double more = first > 0 ? sim::measure(split.best->cost, answer.objective).value_or(first) / first - 1 : 0;
    std::vector<std::string> cells = {std::to_string(i + 1),
                                      split.placement,
                                      gpu_words(split),
                                      duration(middle.step_s),
                                      grouped(middle.tokens_per_s_per_gpu),
                                      percent(rollout.training_idle),
                                      percent(rollout.engines_idle),
                                      middle.step_usd ? fmt::format("{:.2f}", *middle.step_usd) : "-",
                                      i == 0 ? "" : percent(more)};
    if (several) cells.insert(cells.begin() + 1, answer.option_of(split).cluster);
    table.add(std::move(cells));
  }
  return table.to_string();
}

// What a row of the table has no column for.
std::string split_words(const sim::RolloutAnswer& answer, std::size_t place) {
  const sim::RolloutSplit& split = answer.splits[place];
  const model::RolloutResult& rollout = *split.best->result.rollout;
  const double generation = rollout.seconds_of("engines"), training = rollout.seconds_of("training");
  return paragraph(fmt::format(
      "{}. Training: {}; {}. Generation: {} engines of {} GPUs, {} answers at once; {}, of which {} after nine of ten "
      "answers. The fullest GPU has {} GB in training and {} GB in generation, of {} GB{}{}.",
      place + 1, plan_words(*split.best), duration(training), grouped(rollout.instances),
      rollout.engine_gpus / rollout.instances, grouped(rollout.requests_at_once), duration(generation),
      duration(rollout.tail_s), gigabytes(rollout.memory.training_bytes), gigabytes(rollout.memory.generation_bytes),
      gigabytes(rollout.memory.capacity_bytes), days_and_usd(split.best->cost),
      sim::within(split.best->cost, answer.limits) ? "" : "; over the limit"));
}

}  // namespace

std::string why_none(const sim::DeploymentOption& option) {
  if (option.on.error) return model::to_string(*option.on.error);
  if (!option.search.complete) return "stopped before any was found";
  // A rule with an example is about a deployment that was predicted.
  const auto& removed = option.search.removed;
  const auto last = std::ranges::max_element(
      removed, {}, [](const sim::Removed& one) { return std::pair(!one.example.empty(), one.plans); });
  return last == removed.end() ? "not looked at" : removed_words(*last);
}

std::string deployment_text(const sim::DeploymentAnswer& answer, bool color) {
  const Style style{color};
  std::string text =
      fmt::format("{}: {} {}, for {}{}\n", answer.name, answer.options.size(),
                  answer.options.size() == 1 ? "cluster option" : "cluster options", aim_words(answer.objective),
                  answer.complete ? "" : "; INCOMPLETE: stopped before everything was searched");
  text += paragraph(question_words(answer));
  for (const std::string& sentence : sim::what_would_do(answer))
    text += paragraph(fmt::format("No deployment keeps the limits: {}.", sentence));
  for (const sim::DeploymentOption& option : answer.options)
    if (option.search.best.empty())
      text += paragraph(fmt::format("{}: no deployment: {}.", option_name(option.on), why_none(option)));
  if (!answer.order.empty()) {
    text += interval_words(answer);
    if (answer.options.size() > 1) text += clusters_table(answer, style);
    text += deployments_table(answer, style) + frontier_table(answer, style);
  }
  return text + searched_text(answer, style) + rests_text(answer, style);
}

std::string deployment_svg(const sim::DeploymentAnswer& answer) {
  LineChart chart;
  chart.title = fmt::format("{}: interactivity against throughput", answer.name);
  chart.subtitle =
      "the frontier of all deployments on each cluster; a ring: the best one for " + aim_words(answer.objective);
  chart.x_title = "output tokens/s of a user (1 / TPOT)";
  chart.logarithmic = chart.decimal_ticks = true;
  auto& panel = chart.panels.emplace_back(LineChart::Panel{"output tokens/s of a GPU", false, {}, true});
  if (const auto limit = answer.options.front().on.inputs.plan.inference.max_tpot_s)
    chart.limits.push_back({1 / *limit, fmt::format("limit: TPOT {}", duration(*limit))});
  for (const std::size_t place : answer.order) {
    const sim::DeploymentOption& option = answer.options[place];
    auto& series = panel.series.emplace_back(LineChart::Series{option_name(option.on), {}});
    const model::ServingFactors factors = factors_on(option);
    for (auto one = option.search.frontier.rbegin(); one != option.search.frontier.rend(); ++one) {
      const model::ServingPoint point = model::middle_point(one->point, factors);
      series.points.push_back({1 / point.tpot_s, point.output_tokens_per_s_per_gpu});
    }
    const sim::RankedDeployment& best = option.search.best.front();
    const model::ServingResult result = model::middle_serving(best.result, factors);
    chart.marks.push_back({1 / result.tpot_s, result.output_tokens_per_s_per_gpu, sim::deployment_words(best.plan)});
  }
  return line_chart_svg(chart);
}

std::string rollout_plans_text(const sim::RolloutAnswer& answer, std::size_t top, bool color) {
  const Style style{color};
  std::string out =
      bold(fmt::format("{}: how to divide the GPUs between training and generation", answer.name), style) + '\n';
  if (answer.found()) out += paragraph(split_choice(answer));
  for (const sim::ClusterOption& option : answer.options)
    for (const std::string& note : option.notes)
      out += paragraph(fmt::format("note: {}: {}", option_name(option), note));
  if (answer.found()) {
    const auto found = static_cast<std::size_t>(
        std::ranges::count_if(answer.splits, [](const sim::RolloutSplit& split) { return split.best.has_value(); }));
    const std::size_t count = std::min(top, found);
    out += heading("Splits", style) + splits_table(answer, count) + '\n';
    for (std::size_t place = 0; place < count; ++place) out += split_words(answer, place);
    out += '\n' + paragraph(
                      "GPUs: those that train, and those that generate where these are others. idle: share of the step "
                      "in which a GPU of that half has no work. +: more than the first. Steps are those in the middle "
                      "of their intervals, times of halves what components add up to.");
  }
  for (const sim::RolloutSplit& split : answer.splits)
    if (!split.best)
      out += paragraph(fmt::format("None: {}, {} GPUs: {}.", split.placement, gpu_words(split), split.refusal));
  return out;
}

}  // namespace plumbline::reports
