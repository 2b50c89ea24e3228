#include <nlohmann/json.hpp>

#include "cli/plan_answer.h"
#include "model/base/version.h"
#include "reports/json/json.h"

namespace plumbline::cli {
namespace {

using Json = nlohmann::ordered_json;

Json value_of(const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); }

Json text_or_null(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

Json interval_of(const Offer& offer, Objective objective) {
  const auto range = interval(offer, objective);
  return range ? Json{{"low", range->low}, {"high", range->high}} : Json(nullptr);
}

Json row_of(const PlanAnswer& answer, const PlanRow& row, const std::string& reason) {
  const Offer& offer = row.offer;
  return {
      {"step", Json::parse(reports::step_json(row.result.step))},
      {"days", value_of(offer.days)},
      {"gpu_hours", value_of(offer.gpu_hours)},
      {"cost_usd", value_of(offer.usd)},
      {"cost_usd_low", value_of(offer.usd_low)},
      {"cost_usd_high", value_of(offer.usd_high)},
      {"memory", {{"peak_bytes", row.result.memory.peak_bytes}, {"capacity_bytes", row.result.memory.capacity_bytes}}},
      {"within_limits", within(offer, answer.limits)},
      {"reason", text_or_null(reason)},
      {"plan", Json::parse(reports::plan_json(row.plan))}};
}

Json removed_of(const sim::SearchResult& search) {
  Json rules = Json::array();
  for (const sim::Removed& removed : search.removed)
    rules.push_back({{"rule", removed.rule}, {"plans", removed.plans}, {"example", text_or_null(removed.example)}});
  return rules;
}

Json uncertainty_of(const Site& site) {
  if (!site.uncertainty) return nullptr;
  return {{"value", site.uncertainty->value},
          {"kind", model::to_string(site.uncertainty->kind)},
          {"source", site.uncertainty->source}};
}

Json price_json(const Site& site) {
  const auto price = price_of(site);
  Json json = {{"ownership", site.inputs.plan.run.ownership},
               {"usd_per_gpu_hour", nullptr},
               {"low", nullptr},
               {"high", nullptr},
               {"kind", nullptr},
               {"source", nullptr},
               {"missing", text_or_null(price.missing)}};
  if (!price.value) return json;
  json["usd_per_gpu_hour"] = price.value->value;
  json["low"] = price.value->low;
  json["high"] = price.value->high;
  json["kind"] = model::to_string(price.value->kind);
  json["source"] = price.value->source;
  return json;
}

// `place`: in the ranking; nothing for a site without a plan.
Json site_of(const PlanAnswer& answer, const Site& site, const std::optional<std::size_t>& place) {
  Json plans = Json::array();
  for (std::size_t i = 0; i < site.rows.size(); ++i)
    plans.push_back(
        row_of(answer, site.rows[i], i == 0 ? std::string() : reason_on_site(site.rows[i - 1], site.rows[i])));
  Json json = {{"cluster", site.cluster},
               {"gpus", site.gpus},
               {"profile", text_or_null(site.inputs.profile.name())},
               {"rank", nullptr},
               {"dominated", nullptr},
               {"reason", nullptr},
               {"no_plan_because", nullptr},
               {"step_uncertainty", uncertainty_of(site)},
               {"measured_share", nullptr},
               {"interval", nullptr},
               {"price", price_json(site)},
               {"notes", site.notes},
               {"search",
                {{"space", site.search.space},
                 {"evaluated", site.search.evaluated},
                 {"complete", site.search.complete},
                 {"removed", removed_of(site.search)}}},
               {"plans", std::move(plans)}};
  if (!place) {
    json["no_plan_because"] = why_empty(site);
    return json;
  }
  json["rank"] = *place + 1;
  if (answer.dominated[*place]) json["dominated"] = *answer.dominated[*place];
  if (*place > 0) json["reason"] = reason_between(answer.sites[answer.order[*place - 1]], site, answer.objective);
  json["measured_share"] = measured_share(site.rows.front().result);
  json["interval"] = interval_of(site.rows.front().offer, answer.objective);
  return json;
}

Json sites_of(const PlanAnswer& answer) {
  Json sites = Json::array();
  for (std::size_t i = 0; i < answer.order.size(); ++i)
    sites.push_back(site_of(answer, answer.sites[answer.order[i]], i));
  for (const std::size_t i : answer.empty) sites.push_back(site_of(answer, answer.sites[i], std::nullopt));
  return sites;
}

Json ranks_of(const std::vector<std::size_t>& places) {
  Json ranks = Json::array();
  for (const std::size_t place : places) ranks.push_back(place + 1);
  return ranks;
}

Json verdict_of(const PlanAnswer& answer) {
  const bool met = !answer.order.empty() && within(answer.best(0).offer, answer.limits);
  return {{"winner", answer.verdict.winner ? Json(*answer.verdict.winner + 1) : Json(nullptr)},
          {"indistinguishable", ranks_of(answer.verdict.indistinguishable)},
          {"ties", ranks_of(answer.verdict.ties)},
          {"limits_met", met},
          {"shortfall", met || answer.order.empty() ? Json(nullptr) : Json(shortfall(answer))}};
}

Json flips_of(const PlanAnswer& answer) {
  Json flips = Json::array();
  for (const FlipSection& section : answer.flips) {
    for (const sim::Flip& flip : section.flips) {
      flips.push_back({{"against", section.hardware ? "sites" : "plans"},
                       {"quantity", sim::describe(flip.quantity)},
                       {"factor", value_of(flip.factor)},
                       {"then_better", flip.factor ? Json(section.names[flip.by]) : Json(nullptr)}});
    }
  }
  return flips;
}

}  // namespace

std::string plan_json(const PlanAnswer& answer) {
  const Json json = {
      {"plumbline", {{"version", model::version}, {"schema", model::schema}}},
      {"question",
       {{"subject", answer.name},
        {"objective", to_string(answer.objective)},
        {"deadline_days", value_of(answer.limits.days)},
        {"budget_usd", value_of(answer.limits.usd)},
        {"assumptions", answer.assumptions},
        {"overrides", answer.overrides}}},
      {"complete", answer.complete},
      {"every_value", answer.every_value},
      {"verdict", verdict_of(answer)},
      {"sites", sites_of(answer)},
      {"flips", flips_of(answer)},
      {"plan", answer.order.empty() ? Json(nullptr) : Json::parse(reports::plan_json(answer.best(0).plan))}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

}  // namespace plumbline::cli
