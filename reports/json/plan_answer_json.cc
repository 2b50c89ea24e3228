#include <nlohmann/json.hpp>
#include <string_view>

#include "reports/json/detail/campaign_parts.h"
#include "reports/json/document.h"
#include "reports/json/json.h"
#include "reports/quantities.h"
#include "reports/text/plan/plan_report.h"
#include "sim/search/break_even.h"

namespace plumbline::reports {
namespace {

using Json = nlohmann::ordered_json;

Json ends_of(const std::optional<model::Quantiles>& range) {
  return range ? Json{{"low", range->p10}, {"high", range->p90}} : Json(nullptr);
}

// `training`: the cost of a plan, or its campaign.
Json probability_of(const auto& training, const sim::Limits& limits) {
  return limits.any() ? json_of<Json>(sim::probability_within(training, limits)) : Json(nullptr);
}

// Adds the probabilities of a candidate, null where there are no draws or no limit.
void add_probabilities(Json& json, const sim::PlanCost& cost, const sim::Limits& limits,
                       const std::vector<double>& best_with, std::size_t place) {
  json["probability_best"] = best_with.empty() ? Json(nullptr) : Json(best_with[place]);
  json["probability_deadline"] = probability_of(cost, {.days = limits.days});
  json["probability_budget"] = probability_of(cost, {.usd = limits.usd});
}

Json row_of(const sim::PlanAnswer& answer, const sim::RankedPlan& row, const std::string& reason) {
  const auto of_run = [&](auto value) {
    return row.result.run ? json_of<Json>(std::optional<double>(value(*row.result.run))) : Json(nullptr);
  };
  return {{"step", Json::parse(step_json(row.result.step))},
          {"days", of_run([](const model::RunCost& run) { return run.days; })},
          {"gpu_hours", of_run([](const model::RunCost& run) { return run.gpu_hours; })},
          {"cost_usd", of_run([](const model::RunCost& run) { return run.cost_usd; })},
          {"cost_usd_low", of_run([](const model::RunCost& run) { return run.cost_low_usd(run.gpu_hours); })},
          {"cost_usd_high", of_run([](const model::RunCost& run) { return run.cost_high_usd(run.gpu_hours); })},
          {"memory", FIELDS(row.result.memory, peak_bytes, capacity_bytes)},
          {"within_limits", sim::within(row.cost, answer.limits)},
          {"twins", row.twins},
          {"middle", Json::parse(middle_json(row.result))},
          {"interval", Json::parse(interval_json(row.result.interval))},
          {"reason", text_or_null<Json>(reason)},
          {"plan", Json::parse(plan_json(row.plan))},
          {"fit", Json::parse(fit_json(row.result.memory))}};
}

Json removed_of(const sim::SearchResult& search) {
  return list_of<Json>(search.removed, [&](const sim::Removed& removed) {
    return Json{{"rule", removed.rule}, {"plans", removed.plans}, {"example", text_or_null<Json>(removed.example)}};
  });
}

Json families_of(const model::StepResult& result) {
  Json families = Json::object();
  for (const FamilyShare& family : family_shares(result))
    families[key_of_name(family.name)] = {{"share_of_step", family.share}, {"measured_share_of_step", family.measured}};
  return families;
}

Json price_json(const sim::ClusterOption& option) {
  const auto price = sim::price_of(option);
  const auto& value = price.value;
  return {{"ownership", option.inputs.plan.run.ownership},
          {"usd_per_gpu_hour", value ? Json(value->value) : Json(nullptr)},
          {"low", value ? Json(value->low) : Json(nullptr)},
          {"high", value ? Json(value->high) : Json(nullptr)},
          {"kind", value ? Json(value->kind) : Json(nullptr)},
          {"source", value ? Json(value->source) : Json(nullptr)},
          {"missing", text_or_null<Json>(price.missing)}};
}

Json training_of(const sim::ClusterOption& option, const sim::Limits& limits) {
  if (!option.campaign) return nullptr;
  const sim::CampaignAnswer& training = *option.campaign;
  const sim::CampaignResult& campaign = training.result;
  const auto usd = training.usd();
  return {{"days", training.run ? quantile_object<Json>(training.days) : Json(nullptr)},
          {"cost_usd", usd ? quantile_object<Json>(*usd) : Json(nullptr)},
          {"probability_deadline", probability_of(training, {.days = limits.days})},
          {"probability_budget", probability_of(training, {.usd = limits.usd})},
          {"goodput", quantile_object<Json>(campaign.goodput)},
          {"mean_goodput", campaign.mean_goodput},
          {"interruptions", quantile_object<Json>(campaign.interruptions)},
          {"finished", campaign.finished},
          {"never", text_or_null<Json>(campaign.never)},
          {"hours_between_failures", finite_or_null<Json>(campaign.hours_between_failures)},
          {"mean_time_s", time_of_campaign<Json>(campaign.mean)},
          {"checkpoint_interval_s", finite_or_null<Json>(campaign.checkpoint_interval_s)},
          {"spare_nodes", training.input.spare_nodes},
          {"reliability", option.rates},
          {"seeds", training.input.seeds}};
}

// Returns the object of an option; `place` is its rank in the order, nullopt for an option without a plan.
Json cluster_option_of(const sim::PlanAnswer& answer, const sim::ClusterOption& option,
                       const std::optional<std::size_t>& place) {
  Json plans = Json::array();
  for (std::size_t i = 0; i < option.plans.size(); ++i) {
    plans.push_back(row_of(answer, option.plans[i],
                           i == 0 ? std::string() : reason_on_option(option.plans[i - 1], option.plans[i])));
    add_probabilities(plans.back(), option.plans[i].cost, answer.limits, option.best_with, i);
  }
  Json edge = Json::array();
  for (const sim::RankedPlan& row : option.edge) {
    edge.push_back(row_of(answer, row, ""));
    add_probabilities(edge.back(), row.cost, answer.limits, {}, 0);
  }
  Json json = {{"cluster", option.cluster},
               {"gpus", option.gpus},
               {"profile", text_or_null<Json>(option.inputs.profile.name())},
               {"stack", text_or_null<Json>(option.inputs.profile.stack())},
               {"rank", nullptr},
               {"dominated", nullptr},
               {"reason", nullptr},
               {"no_plan_because", nullptr},
               {"measured_share", nullptr},
               {"measured_by_family", nullptr},
               {"interval", nullptr},
               {"price", price_json(option)},
               {"campaign", nullptr},
               {"notes", option.notes},
               {"search", joined<Json>({FIELDS(option.search, space, evaluated, complete),
                                        {{"removed", removed_of(option.search)}}})},
               {"plans", std::move(plans)},
               {"edge", std::move(edge)},
               {"finish_by", option.campaign ? finish_object<Json>(option.campaign->finish) : Json(nullptr)},
               {"assumed", nullptr}};
  if (place == answer.recommended) json["assumed"] = Json::parse(assumed_json(option.plans.front().result.assumed));
  if (!place) {
    json["no_plan_because"] = why_empty(option);
    return json;
  }
  json["rank"] = *place + 1;
  if (answer.dominated[*place]) json["dominated"] = *answer.dominated[*place];
  if (*place > 0) json["reason"] = reason_between(answer.options[answer.order[*place - 1]], option, answer.objective);
  json["measured_share"] = measured_share(option.plans.front().result);
  json["measured_by_family"] = families_of(option.plans.front().result);
  json["campaign"] = training_of(option, answer.limits);
  json["interval"] = ends_of(objective_interval(option.plans.front(), answer.objective));
  add_probabilities(json, option.plans.front().cost, answer.limits, answer.best_with, *place);
  return json;
}

Json cluster_options_of(const sim::PlanAnswer& answer) {
  Json cluster_options = Json::array();
  for (std::size_t i = 0; i < answer.order.size(); ++i)
    cluster_options.push_back(cluster_option_of(answer, answer.options[answer.order[i]], i));
  for (const std::size_t i : answer.empty)
    cluster_options.push_back(cluster_option_of(answer, answer.options[i], std::nullopt));
  return cluster_options;
}

// Returns the option to take, null where none has a plan.
Json recommendation_of(const sim::PlanAnswer& answer) {
  if (answer.order.empty()) return nullptr;
  return {{"rank", answer.recommended + 1},
          {"within_limits", sim::within(answer.taken(answer.recommended), answer.limits)},
          {"words", recommendation(answer)}};
}

// Returns the ranks of the contenders other than the most probable: on its cluster with its profile, or on others.
Json ranks_of_contenders(const sim::PlanAnswer& answer, bool same_hardware) {
  Json ranks = Json::array();
  const auto hardware = [&](std::size_t place) {
    const sim::ClusterOption& option = answer.options[answer.order[place]];
    return std::pair(option.cluster, option.inputs.profile.name());
  };
  const auto& contenders = answer.verdict.contenders;
  for (std::size_t i = 1; i < contenders.size(); ++i)
    if ((hardware(contenders[i]) == hardware(contenders[0])) == same_hardware) ranks.push_back(contenders[i] + 1);
  return ranks;
}

Json verdict_of(const sim::PlanAnswer& answer) {
  const bool met = !answer.order.empty() && sim::within(answer.best(0).cost, answer.limits);
  return {{"winner", answer.verdict.winner ? Json(*answer.verdict.winner + 1) : Json(nullptr)},
          {"indistinguishable", ranks_of_contenders(answer, false)},
          {"ties", ranks_of_contenders(answer, true)},
          {"probability_needed", sim::sure_enough},
          {"limits_met", met},
          {"shortfall", met || answer.order.empty() ? Json(nullptr) : Json(unmet_limits(answer))}};
}

Json break_evens_of(const sim::PlanAnswer& answer) {
  Json found = Json::array();
  for (const sim::BreakEvenSection& section : answer.break_evens) {
    const std::vector<std::string> names = alternative_names(answer, section);
    for (const sim::BreakEven& break_even : section.break_evens)
      found.push_back({{"against", section.hardware ? "sites" : "plans"},
                       {"quantity", sim::describe(break_even.quantity)},
                       {"factor", json_of<Json>(break_even.factor)},
                       {"then_better", break_even.factor ? Json(names[break_even.by]) : Json(nullptr)}});
  }
  return found;
}

}  // namespace

std::string plan_json(const sim::PlanAnswer& answer) {
  return document<Json>(
      "plan",
      {{"question",
        {{"subject", answer.name},
         {"objective", to_string(answer.objective)},
         {"deadline_days", json_of<Json>(answer.limits.days)},
         {"budget_usd", json_of<Json>(answer.limits.usd)},
         {"assumptions", answer.assumptions},
         {"overrides", answer.overrides}}},
       {"complete", answer.complete},
       {"every_value", answer.every_value},
       {"verdict", verdict_of(answer)},
       {"sites", cluster_options_of(answer)},
       {"flips", break_evens_of(answer)},
       {"plan", answer.order.empty() ? Json(nullptr) : Json::parse(plan_json(answer.best(answer.recommended).plan))},
       {"recommendation", recommendation_of(answer)}});
}

std::string plan_csv(const sim::PlanAnswer& answer) {
  Json rows = Json::array();
  for (const Json& site : cluster_options_of(answer)) {
    Json head = Json::object();
    for (const char* key : {"cluster", "gpus", "profile", "stack", "no_plan_because"}) head[key] = site[key];
    if (site["plans"].empty() && site["edge"].empty()) rows.push_back(head);
    for (const char* list : {"plans", "edge"}) {
      for (std::size_t place = 0; place < site[list].size(); ++place) {
        Json& row = rows.emplace_back(head);
        row["cluster_rank"] = site["rank"];
        row["plan_rank"] = list == std::string_view("edge") ? Json(nullptr) : Json(place + 1);
        row.update(site[list][place]);
        row["plan"] = searched_keys(row["plan"]);
        row["finish_by"] = {{"gpus", site["finish_by"].is_null() ? Json(nullptr) : site["finish_by"]["gpus"]}};
      }
    }
  }
  return csv_of_rows(rows);
}

}  // namespace plumbline::reports
