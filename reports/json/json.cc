#include "reports/json/json.h"

#include <array>
#include <nlohmann/json.hpp>
#include <string_view>
#include <type_traits>
#include <variant>

#include "model/base/text.h"
#include "model/result/middle.h"
#include "reports/json/document.h"
#include "reports/quantities.h"
#include "reports/text/step/sections.h"

namespace plumbline::reports {
namespace {

using Json = nlohmann::ordered_json;

template <class T>
Json value_of(const T& value) {
  if constexpr (std::is_same_v<T, model::ConfigValue>)
    return std::visit([](const auto& alternative) { return Json(alternative); }, value);
  else if constexpr (std::is_same_v<T, model::StageLayers>)
    return value.counts.empty() ? Json(value.even ? "even" : "balanced") : Json(value.counts);
  else if constexpr (std::is_same_v<T, model::AcceptanceShares>)
    return value.shares.size() == 1 ? Json(value.shares.front()) : Json(value.shares);
  else
    return json_of<Json>(value);
}

template <class T>
Json value_of(const std::optional<T>& value) {
  return value ? value_of(*value) : Json(nullptr);
}

Json plan_of(const model::Plan& plan) {
  Json json = Json::object();
  model::visit_fields(plan, [&](std::string_view key, const auto& field) {
    if (model::lacks_section(plan, key)) return;
    Json* section = &json;
    const std::string_view table = model::plan_section(key);
    for (const std::string_view name : model::split_at(table, '.')) section = &(*section)[std::string(name)];
    (*section)[std::string(key.substr(table.size() + 1))] = value_of(field);
  });
  Json& campaign = json["campaign"]["phase"] = Json::array();
  for (const model::CampaignPhaseKeys& phase : plan.campaign.phases) {
    Json& keys = campaign.emplace_back(Json::object());
    model::visit_phase(phase, [&](const char* key, const auto& field) { keys[key] = value_of(field); });
  }
  json["run"]["phase"] = LISTED(plan.run.phases, name, gpu_hours, source);
  return json;
}

// Returns one value for each kind of op.
template <class T, std::size_t size>
Json value_of(const std::array<T, size>& values) {
  Json json = Json::object();
  for (std::size_t i = 0; i < size; ++i)
    json[std::string(model::to_string(static_cast<model::OpType>(i)))] = value_of(values[i]);
  return json;
}

Json step_of(const model::StepTimes& step) {
  Json json = Json::object();
  visit_step(step, [&json](const char* key, const auto& value, const char*) { json[key] = value_of(value); });
  Json& breakdown = json["breakdown_s"] = Json::object();
  visit_breakdown(step,
                  [&](const std::string& key, std::optional<double> seconds) { breakdown[key] = value_of(seconds); });
  return json;
}

Json cluster_of(const std::optional<model::ClusterSpread>& cluster) {
  if (!cluster) return nullptr;
  Json json = Json::object();
  visit_cluster(*cluster, [&json](const char* key, const auto& value, const char*) {
    if constexpr (std::is_same_v<decltype(value), const model::Quantiles&>)
      json[key] = quantiles_or_nulls<Json>(value);
    else
      json[key] = value;
  });
  json["bubble"] = LISTED(cluster->bubble, cause, seconds, step_s);
  return json;
}

Json interval_of(const std::optional<model::PredictionInterval>& known) {
  const model::PredictionInterval interval = known.value_or(model::PredictionInterval());
  Json json = Json::object();
  visit_quantiles(interval, [&](const char* key, const std::optional<model::Quantiles>& quantiles, const char*) {
    json[key] = quantiles_or_nulls<Json>(known ? quantiles : std::nullopt);
  });
  json.update(Json{{"fits_probability", known ? Json(interval.fits_probability) : Json(nullptr)},
                   {"left_factor", known ? Json(interval.left_factor) : Json(nullptr)},
                   {"left_rows", text_or_null<Json>(interval.left_rows)},
                   {"draws", interval.draws},
                   {"parts", list_of<Json>(interval.parts, [](const model::IntervalPart& part) {
                      return Json{{"source", part.source},
                                  {"share", part.share},
                                  {"measurement", text_or_null<Json>(part.measurement)},
                                  {"half_width_after", json_of<Json>(part.half_width_after)}};
                    })}});
  return json;
}

std::string_view word_of(model::MeasuredVerdict verdict) {
  static constexpr std::array<std::string_view, 4> words = {"as-predicted", "slower", "faster", "impossible"};
  return words[static_cast<std::size_t>(verdict)];
}

std::string_view word_of(model::MemoryCount counted) {
  static constexpr std::array<std::string_view, 3> words = {"device", "reserved", "allocated"};
  return words[static_cast<std::size_t>(counted)];
}

Json log_of(const model::MeasuredStep& measured) {
  if (!measured.log) return nullptr;
  const model::MeasuredLog& log = *measured.log;
  return joined<Json>({FIELDS(log, format, steps, warm_up, pauses, damaged),
                       {{"p10_s", measured.time_s * log.low},
                        {"p90_s", measured.time_s * log.high},
                        {"tflops_per_gpu", json_of<Json>(log.tflops)},
                        {"convention", log.count ? Json(log.count->name) : Json(nullptr)},
                        {"convention_step_s", log.count ? Json(log.count->time_s) : Json(nullptr)}}});
}

Json causes_of(const model::MeasuredStep& measured, const char* time) {
  return list_of<Json>(measured.causes, [&](const model::MeasuredCause& one) {
    return Json{
        {"cause", one.name}, {time, one.time_s}, {"reaches", one.reaches}, {"try", text_or_null<Json>(one.remedy)}};
  });
}

Json measured_of(const model::StepResult& result) {
  if (!result.measured) return nullptr;
  constexpr double hundred = 100;
  const model::MeasuredStep& measured = *result.measured;
  Json conventions = Json::array();
  for (const model::RateConvention& one : measured.conventions)
    conventions.push_back({{"convention", one.name}, {"step_s", one.time_s}});
  Json memory;
  if (measured.memory)
    memory = {{"peak_bytes", measured.memory->peak_bytes},
              {"percentile", measured.memory->share_below * hundred},
              {"sentence", memory_verdict(*measured.memory)},
              {"counted", word_of(measured.memory->counted)},
              {"added_bytes", measured.memory->added_bytes}};
  return {{"given", measured.given},
          {"step_s", measured.time_s},
          {"percentile", measured.share_below * hundred},
          {"verdict", word_of(measured.verdict)},
          {"sentence", verdict_sentence(measured, result.bound_s.value_or(0))},
          {"convention", conventions.empty() ? Json(nullptr) : conventions[0]["convention"]},
          {"conventions", conventions},
          {"causes", causes_of(measured, "step_s")},
          {"memory", memory},
          {"log", log_of(measured)}};
}

Json assumed_of(const std::vector<model::AssumedKey>& assumed) {
  return list_of<Json>(assumed, [&](const model::AssumedKey& one) {
    return Json{{"key", one.key},
                {"name", one.name},
                {"value", text_or_null<Json>(one.value)},
                {"given_by", text_or_null<Json>(one.given_by)},
                {"other", one.other},
                {"set", one.setting},
                {"time_ratio", one.ratio}};
  });
}

Json price_of(const model::Known<model::HourlyPrice>& known) {
  if (!known.value) return {{"usd_per_gpu_hour", nullptr}, {"missing", known.missing}};
  const model::HourlyPrice& price = *known.value;
  return joined<Json>({{{"usd_per_gpu_hour", price.value}},
                       FIELDS(price, low, high, kind, source),
                       {{"capital_usd_per_gpu_hour", json_of<Json>(price.capital)},
                        {"electricity_usd_per_gpu_hour", json_of<Json>(price.electricity)}}});
}

Json bound_of(const model::StepResult& result) {
  const bool known = result.bound_s.has_value();
  return {{"time_s", json_of<Json>(result.bound_s)},
          {"binds", known ? Json(result.bound_by) : Json(nullptr)},
          {"rank", known ? Json(result.bound_rank) : Json(nullptr)},
          {"lost", known ? LISTED(result.lost, cause, seconds, remedy) : Json(nullptr)},
          {"flops_at_peak_s", json_of<Json>(result.flops_at_peak_s)}};
}

Json run_of(const std::optional<model::RunCost>& run) {
  if (!run) return nullptr;
  Json json = Json::object();
  visit_run(
      *run, [&json](const char* key, const auto& value, const char*) { json[key] = value_of(value); },
      [&] { json["phases"] = LISTED(run->phases, name, gpu_hours, kind, source); });
  const auto& price = run->price().value;
  const double hours = run->gpu_hours, all_hours = run->total_gpu_hours;
  json["goodput_source"] = run->goodput_source;
  json["ownership"] = run->ownership;
  json["price_usd_per_gpu_hour"] = price ? Json(price->value) : Json(nullptr);
  json["cost_usd_low"] = json_of<Json>(run->cost_low_usd(hours));
  json["cost_usd_high"] = json_of<Json>(run->cost_high_usd(hours));
  json["total_cost_usd_low"] = json_of<Json>(run->cost_low_usd(all_hours));
  json["total_cost_usd_high"] = json_of<Json>(run->cost_high_usd(all_hours));
  json["rent"] = price_of(run->rent);
  json["purchase"] = price_of(run->purchase);
  json["energy_mwh"] = json_of<Json>(run->energy_mwh(hours));
  json["total_energy_mwh"] = json_of<Json>(run->energy_mwh(all_hours));
  json["energy_source"] = energy_source(*run);
  json["fabric"] =
      joined<Json>({FIELDS(run->fabric, nics, switches, links), {{"usd", json_of<Json>(run->fabric_usd)}}});
  return json;
}

Json memory_of(const model::Memory& memory) {
  const Json stages = list_of<Json>(memory.ranks, [&](const model::RankMemory& rank) {
    return joined<Json>({{{"stage", rank.rank}},
                         FIELDS(rank, stages, parameters_bytes, gradients_bytes, optimizer_bytes, activations_bytes),
                         {{"buffers_bytes", rank.buffers_bytes()}},
                         FIELDS(rank, peak_bytes, temporary_bytes, communication_bytes, reserve_bytes),
                         {{"free_bytes", memory.capacity_bytes - rank.peak_bytes}},
                         FIELDS(rank, activations_peak_bytes, low_bytes, high_bytes, allocated_bytes, segments_bytes,
                                largest, peak_operator, host_bytes)});
  });
  const model::RankMemory* fullest = model::fullest_rank(memory);
  const bool predicted = !memory.ranks.empty() && !memory.measured;
  return joined<Json>(
      {FIELDS(memory, peak_bytes, capacity_bytes, fits),
       {{"stages", stages},
        {"fullest_rank", fullest != nullptr ? Json(fullest->rank) : Json(nullptr)},
        {"measured", memory.measured},
        {"fits_probability", json_of<Json>(memory.fits_probability)},
        {"verdict", predicted ? Json(model::to_string(model::fit_of(memory))) : Json(nullptr)},
        {"host_bytes", predicted ? Json(memory.host_bytes) : Json(nullptr)},
        {"host_capacity_bytes", memory.host_capacity_bytes > 0 ? Json(memory.host_capacity_bytes) : Json(nullptr)}}});
}

// Of a step that was measured there is no verdict.
Json fit_of_memory(const model::Memory& memory) {
  const model::RankMemory* fullest = model::fullest_rank(memory);
  if (fullest == nullptr || memory.measured) return nullptr;
  return fit_object<Json>(memory.fits_probability, model::fit_of(memory),
                          memory.capacity_bytes - fullest->least_bytes());
}

Json level_of(const model::MemoryLevel& level) {
  return FIELDS(level, op, what, activations_bytes, temporary_bytes, communication_bytes, total_bytes);
}

Json levels_of(const model::RankLevels& levels) {
  return {{"rank", levels.rank.rank},
          {"fullest_op", levels.fullest},
          {"ops", list_of<Json>(levels.ops, level_of)},
          {"within_fullest_op", list_of<Json>(levels.peak, level_of)}};
}

Json change_of(const model::MemoryChange& change) {
  return joined<Json>({{{"set", change.settings}},
                       FIELDS(change, peak_bytes, peak_operator, step_ratio, allocated_bytes, unused_low_bytes,
                              unused_high_bytes, fits_probability, margin_bytes)});
}

Json advice_of(const model::MemoryAdvice& advice) {
  return {{"tried", advice.tried},
          {"fitting", list_of<Json>(advice.fitting, change_of)},
          {"closest", advice.closest ? change_of(*advice.closest) : Json(nullptr)}};
}

Json provenance_of(const std::vector<model::ProvenanceEntry>& entries) {
  return list_of<Json>(entries, [](const model::ProvenanceEntry& entry) {
    return constant_json<Json>(entry.parameter, entry.share_of_step);
  });
}

Json spans_of(const model::Timeline& timeline) {
  return joined<Json>(
      {{{"columns", {"name", "rank", "stream", "layer", "micro_batch", "start_ps", "duration_ps", "depth"}}},
       FIELDS(timeline, names, ranks, end_ps),
       {{"spans", list_of<Json>(timeline.spans, [&](const model::Span& s) {
           return Json{s.name,     s.rank,        static_cast<int>(s.stream), s.layer, s.micro_batch,
                       s.start_ps, s.duration_ps, static_cast<int>(s.depth)};
         })}}});
}

Json training_of(const TrainingReport& training) {
  return joined<Json>({FIELDS(training, clock, date, emulated_rank, notes, first_step),
                       {{"loss", training.losses}, {"gradient_norm", training.gradient_norms}},
                       FIELDS(training, seconds, measured_seconds, skipped),
                       {{"expert_load", LISTED(training.loads, layer, max_violation, variation, rows)},
                        {"host_issue_s", json_of<Json>(training.issue_s)},
                        {"device_memory_bytes", json_of<Json>(training.device_memory_bytes)}}});
}

// The contract of simulate has the components under `step` and `run`.
Json middle_of(const model::StepResult& result) {
  if (!result.interval) return nullptr;
  const model::StepTimes step = model::middle_step(result);
  const model::RunCost run = model::middle_run(result).value_or(model::RunCost());
  const bool known = result.run.has_value();
  return joined<Json>({FIELDS(step, time_s, tokens_per_s, tokens_per_s_per_gpu, model_tflops_per_gpu, mfu),
                       {{"days", known ? Json(run.days) : Json(nullptr)},
                        {"gpu_hours", known ? Json(run.gpu_hours) : Json(nullptr)},
                        {"cost_usd", json_of<Json>(run.cost_usd)},
                        {"peak_bytes", result.interval->peak_bytes.p50}}});
}

Json result_of(const model::StepResult& result, const model::Plan& plan) {
  Json json;
  json["step"] = step_of(result.step);
  json["interval"] = interval_of(result.interval);
  json["middle"] = middle_of(result);
  json["power_span_s"] = result.power_span_s ? Json(*result.power_span_s) : Json(nullptr);
  json["bound"] = bound_of(result);
  json["cluster"] = cluster_of(result.cluster);
  json["run"] = run_of(result.run);
  json["memory"] = memory_of(result.memory);
  json["provenance"] = provenance_of(result.provenance);
  json["basis"] = {{"fidelity", result.fidelity},
                   {"profile", result.profile},
                   {"stack", text_or_null<Json>(result.stack)},
                   {"device", result.device},
                   {"warnings", result.warnings}};
  json["plan"] = plan_of(plan);
  return json;
}

}  // namespace

std::string to_json(const model::StepResult& result, const model::Plan& plan) {
  Json json = result_of(result, plan);
  json["measured"] = measured_of(result);
  json["assumed"] = assumed_of(result.assumed);
  json["fit"] = fit_of_memory(result.memory);
  return document("simulate", json);
}

std::string to_json(const model::StepResult& result, const model::Plan& plan, const TrainingReport& training,
                    const model::Timeline& timeline) {
  Json json = result_of(result, plan);
  json["training"] = training_of(training);
  json["timeline"] = spans_of(timeline);
  return document("run", json, -1);
}

std::string plan_json(const model::Plan& plan) { return text_of_json(plan_of(plan)); }

std::string step_json(const model::StepTimes& step) { return text_of_json(step_of(step)); }

std::string middle_json(const model::StepResult& result) { return text_of_json(middle_of(result)); }

std::string serving_middle_json(const model::ServingResult& result) {
  if (!result.interval) return text_of_json(Json(nullptr));
  const model::ServingResult middle = model::middle_serving(result);
  return text_of_json(FIELDS(middle, tpot_s, ttft_unloaded_s, itl_worst_s, output_tokens_per_s,
                             output_tokens_per_s_per_gpu, output_tokens_per_s_per_node, input_tokens_per_s_per_gpu,
                             usd_per_million_output_tokens, usd_per_million_input_tokens, usd_per_million_tokens_all_in,
                             demand_gpus, ttft_s, usd_per_million_output_tokens_of_demand, demand_prefill_gpus,
                             demand_decode_gpus));
}

std::string measured_json(const sim::MeasuredDeployment& found) {
  constexpr double hundred = 100;
  const model::MeasuredStep& measured = found.measured;
  return text_of_json(Json{{"given", measured.given},
                           {"tpot_s", measured.time_s},
                           {"percentile", measured.share_below * hundred},
                           {"verdict", word_of(measured.verdict)},
                           {"sentence", verdict_sentence(measured, 0)},
                           {"causes", causes_of(measured, "tpot_s")},
                           {"predicted_tpot_s", FIELDS(found.predicted, p10, p50, p90)}});
}

std::string serving_quantities_json(const model::ServingResult& result) {
  Json serving = Json::object(), interval = nullptr;
  visit_serving(result, [&](const char* key, const auto& value, const char*) { serving[key] = json_of<Json>(value); });
  serving["bound_by"] = model::to_string(result.bound_by);
  if (result.interval)
    visit_serving_quantiles(*result.interval, [&](const char* key, const auto& found, const char*) {
      interval[key] = found ? FIELDS(*found, p10, p50, p90) : Json(nullptr);
    });
  serving["interval"] = interval;
  serving["middle"] = Json::parse(serving_middle_json(result));
  return text_of_json(serving);
}

std::string assumed_json(const std::vector<model::AssumedKey>& assumed) { return text_of_json(assumed_of(assumed)); }

std::string fit_json(const model::Memory& memory) { return text_of_json(fit_of_memory(memory)); }

std::string interval_json(const std::optional<model::PredictionInterval>& interval) {
  return text_of_json(interval_of(interval));
}

std::string memory_to_json(const model::Memory& memory, const model::Plan& plan, const MemoryDetails& details) {
  Json json;
  json["memory"] = memory_of(memory);
  json["memory"]["timeline"] = details.levels != nullptr ? levels_of(*details.levels) : Json(nullptr);
  json["memory"]["advice"] = details.advice != nullptr ? advice_of(*details.advice) : Json(nullptr);
  json["memory"]["constants"] =
      list_of<Json>(details.constants, [](const model::Parameter& constant) { return constant_json<Json>(constant); });
  json["plan"] = plan_of(plan);
  json["fit"] = fit_of_memory(memory);
  return document("memory", json);
}

std::string memory_csv(const model::Memory& memory) { return csv_of_rows(memory_of(memory)["stages"]); }

}  // namespace plumbline::reports
