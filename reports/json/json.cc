#include "reports/json/json.h"

#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "model/base/text.h"
#include "model/result/middle.h"
#include "reports/json/detail/rows_csv.h"
#include "reports/json/document.h"
#include "reports/quantities.h"
#include "reports/text/step/measured_report.h"
#include "reports/text/step/run_report.h"

namespace plumbline::reports {
namespace {

using Json = nlohmann::ordered_json;
using model::OpType;

template <class T>
Json value_of(const T& value) {
  if constexpr (std::is_same_v<T, model::Precision>) {
    return Json(model::to_string(value));
  } else if constexpr (std::is_same_v<T, model::ConfigValue>) {
    return std::visit([](const auto& alternative) { return Json(alternative); }, value);
  } else if constexpr (std::is_same_v<T, model::StageLayers>) {
    return value.counts.empty() ? Json(value.even ? "even" : "balanced") : Json(value.counts);
  } else {
    return Json(value);
  }
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
    for (const std::string_view name : model::split(table, '.')) section = &(*section)[std::string(name)];
    (*section)[std::string(key.substr(table.size() + 1))] = value_of(field);
  });
  Json& campaign = json["campaign"]["phase"] = Json::array();
  for (const model::CampaignPhaseKeys& phase : plan.campaign.phases) {
    Json& keys = campaign.emplace_back(Json::object());
    model::visit_phase(phase, [&](const char* key, const auto& field) { keys[key] = value_of(field); });
  }
  Json& phases = json["run"]["phase"] = Json::array();
  for (const model::RunPhase& phase : plan.run.phases) {
    phases.push_back({{"name", phase.name}, {"gpu_hours", phase.gpu_hours}, {"source", phase.source}});
  }
  return json;
}

// Returns one value for each kind of op.
template <class T, std::size_t size>
Json value_of(const std::array<T, size>& values) {
  Json json = Json::object();
  for (std::size_t i = 0; i < size; ++i)
    json[std::string(model::to_string(static_cast<OpType>(i)))] = value_of(values[i]);
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

Json quantiles_of(const std::optional<model::Quantiles>& quantiles) {
  if (!quantiles) return {{"p10", nullptr}, {"p50", nullptr}, {"p90", nullptr}};
  return {{"p10", quantiles->p10}, {"p50", quantiles->p50}, {"p90", quantiles->p90}};
}

Json cluster_of(const std::optional<model::ClusterSpread>& cluster) {
  if (!cluster) return nullptr;
  Json json = Json::object();
  visit_cluster(*cluster, [&json](const char* key, const auto& value, const char*) {
    if constexpr (std::is_same_v<decltype(value), const model::Quantiles&>)
      json[key] = quantiles_of(value);
    else
      json[key] = value;
  });
  Json& bubble = json["bubble"] = Json::array();
  for (const model::BubblePart& part : cluster->bubble)
    bubble.push_back({{"cause", part.cause}, {"seconds", part.seconds}, {"step_s", part.step_s}});
  return json;
}

Json interval_of(const std::optional<model::PredictionInterval>& known) {
  const model::PredictionInterval interval = known.value_or(model::PredictionInterval());
  Json json = Json::object();
  visit_quantiles(interval, [&](const char* key, const std::optional<model::Quantiles>& quantiles, const char*) {
    json[key] = quantiles_of(known ? quantiles : std::nullopt);
  });
  json.update(Json{{"fits_probability", known ? Json(interval.fits_probability) : Json(nullptr)},
                   {"left_factor", known ? Json(interval.left_factor) : Json(nullptr)},
                   {"left_rows", text_or_null<Json>(interval.left_rows)},
                   {"draws", interval.draws},
                   {"parts", Json::array()}});
  for (const model::IntervalPart& part : interval.parts)
    json["parts"].push_back({{"source", part.source},
                             {"share", part.share},
                             {"measurement", text_or_null<Json>(part.measurement)},
                             {"half_width_after", value_of(part.half_width_after)}});
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
  return {{"format", log.format},
          {"steps", log.steps},
          {"warm_up", log.warm_up},
          {"pauses", log.pauses},
          {"damaged", log.damaged},
          {"p10_s", measured.time_s * log.low},
          {"p90_s", measured.time_s * log.high},
          {"tflops_per_gpu", value_of(log.tflops)},
          {"convention", log.count ? Json(log.count->name) : Json(nullptr)},
          {"convention_step_s", log.count ? Json(log.count->time_s) : Json(nullptr)}};
}

Json measured_of(const model::StepResult& result) {
  if (!result.measured) return nullptr;
  constexpr double hundred = 100;
  const model::MeasuredStep& measured = *result.measured;
  Json conventions = Json::array(), causes = Json::array();
  for (const model::RateConvention& one : measured.conventions)
    conventions.push_back({{"convention", one.name}, {"step_s", one.time_s}});
  for (const model::MeasuredCause& one : measured.causes)
    causes.push_back({{"cause", one.name},
                      {"step_s", one.time_s},
                      {"reaches", one.reaches},
                      {"try", text_or_null<Json>(one.remedy)}});
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
          {"causes", causes},
          {"memory", memory},
          {"log", log_of(measured)}};
}

Json assumed_of(const std::vector<model::AssumedKey>& assumed) {
  Json keys = Json::array();
  for (const model::AssumedKey& one : assumed)
    keys.push_back({{"key", one.key},
                    {"name", one.name},
                    {"value", text_or_null<Json>(one.value)},
                    {"given_by", text_or_null<Json>(one.given_by)},
                    {"other", one.other},
                    {"set", one.setting},
                    {"time_ratio", one.ratio}});
  return keys;
}

Json price_of(const model::Known<model::HourlyPrice>& known) {
  if (!known.value) return {{"usd_per_gpu_hour", nullptr}, {"missing", known.missing}};
  const model::HourlyPrice& price = *known.value;
  return {{"usd_per_gpu_hour", price.value},
          {"low", price.low},
          {"high", price.high},
          {"kind", price.kind},
          {"source", price.source},
          {"capital_usd_per_gpu_hour", value_of(price.capital)},
          {"electricity_usd_per_gpu_hour", value_of(price.electricity)}};
}

Json bound_of(const model::StepResult& result) {
  Json lost = Json::array();
  for (const model::LostTime& part : result.lost)
    lost.push_back({{"cause", part.cause}, {"seconds", part.seconds}, {"remedy", part.remedy}});
  const bool known = result.bound_s.has_value();
  return {{"time_s", value_of(result.bound_s)},
          {"binds", known ? Json(result.bound_by) : Json(nullptr)},
          {"rank", known ? Json(result.bound_rank) : Json(nullptr)},
          {"lost", known ? lost : Json(nullptr)},
          {"flops_at_peak_s", value_of(result.flops_at_peak_s)}};
}

Json run_of(const std::optional<model::RunCost>& run) {
  if (!run) return nullptr;
  Json json = Json::object();
  visit_run(
      *run, [&json](const char* key, const auto& value, const char*) { json[key] = value_of(value); },
      [&] {
        Json& phases = json["phases"] = Json::array();
        for (const model::RunPhaseCost& phase : run->phases)
          phases.push_back(
              {{"name", phase.name}, {"gpu_hours", phase.gpu_hours}, {"kind", phase.kind}, {"source", phase.source}});
      });
  const auto& price = run->price().value;
  const double hours = run->gpu_hours, all_hours = run->total_gpu_hours;
  json["goodput_source"] = run->goodput_source;
  json["ownership"] = run->ownership;
  json["price_usd_per_gpu_hour"] = price ? Json(price->value) : Json(nullptr);
  json["cost_usd_low"] = value_of(run->cost_low_usd(hours));
  json["cost_usd_high"] = value_of(run->cost_high_usd(hours));
  json["total_cost_usd_low"] = value_of(run->cost_low_usd(all_hours));
  json["total_cost_usd_high"] = value_of(run->cost_high_usd(all_hours));
  json["rent"] = price_of(run->rent);
  json["purchase"] = price_of(run->purchase);
  json["energy_mwh"] = value_of(run->energy_mwh(hours));
  json["total_energy_mwh"] = value_of(run->energy_mwh(all_hours));
  json["energy_source"] = energy_source(*run);
  json["fabric"] = {{"nics", run->fabric.nics},
                    {"switches", run->fabric.switches},
                    {"links", run->fabric.links},
                    {"usd", value_of(run->fabric_usd)}};
  return json;
}

Json memory_of(const model::Memory& memory) {
  Json stages = Json::array();
  for (const model::RankMemory& rank : memory.ranks) {
    stages.push_back({{"stage", rank.rank},
                      {"stages", rank.stages},
                      {"parameters_bytes", rank.parameters_bytes},
                      {"gradients_bytes", rank.gradients_bytes},
                      {"optimizer_bytes", rank.optimizer_bytes},
                      {"activations_bytes", rank.activations_bytes},
                      {"buffers_bytes", rank.buffers_bytes()},
                      {"peak_bytes", rank.peak_bytes},
                      {"temporary_bytes", rank.temporary_bytes},
                      {"communication_bytes", rank.communication_bytes},
                      {"reserve_bytes", rank.reserve_bytes},
                      {"free_bytes", memory.capacity_bytes - rank.peak_bytes},
                      {"activations_peak_bytes", rank.activations_peak_bytes},
                      {"low_bytes", rank.low_bytes},
                      {"high_bytes", rank.high_bytes},
                      {"allocated_bytes", rank.allocated_bytes},
                      {"segments_bytes", rank.segments_bytes},
                      {"largest", rank.largest},
                      {"peak_operator", rank.peak_operator}});
  }
  const model::RankMemory* fullest = model::fullest_rank(memory);
  const bool predicted = !memory.ranks.empty() && !memory.measured;
  return {{"peak_bytes", memory.peak_bytes},
          {"capacity_bytes", memory.capacity_bytes},
          {"fits", memory.fits},
          {"stages", stages},
          {"fullest_rank", fullest != nullptr ? Json(fullest->rank) : Json(nullptr)},
          {"measured", memory.measured},
          {"fits_probability", value_of(memory.fits_probability)},
          {"verdict", predicted ? Json(model::to_string(model::fit_of(memory))) : Json(nullptr)}};
}

Json level_of(const model::MemoryLevel& level) {
  return {{"op", level.op},
          {"what", level.what},
          {"activations_bytes", level.activations_bytes},
          {"temporary_bytes", level.temporary_bytes},
          {"communication_bytes", level.communication_bytes},
          {"total_bytes", level.total_bytes}};
}

Json levels_of(const model::RankLevels& levels) {
  Json ops = Json::array(), within = Json::array();
  for (const model::MemoryLevel& level : levels.ops) ops.push_back(level_of(level));
  for (const model::MemoryLevel& level : levels.peak) within.push_back(level_of(level));
  return {{"rank", levels.rank.rank}, {"fullest_op", levels.fullest}, {"ops", ops}, {"within_fullest_op", within}};
}

Json change_of(const model::MemoryChange& change) {
  return {{"set", change.settings},
          {"peak_bytes", change.peak_bytes},
          {"peak_operator", change.peak_operator},
          {"step_ratio", value_of(change.step_ratio)},
          {"allocated_bytes", change.allocated_bytes},
          {"unused_low_bytes", change.unused_low_bytes},
          {"unused_high_bytes", change.unused_high_bytes},
          {"fits_probability", change.fits_probability},
          {"margin_bytes", change.margin_bytes}};
}

Json advice_of(const model::MemoryAdvice& advice) {
  Json fitting = Json::array();
  for (const model::MemoryChange& change : advice.fitting) fitting.push_back(change_of(change));
  return {{"tried", advice.tried},
          {"fitting", fitting},
          {"closest", advice.closest ? change_of(*advice.closest) : Json(nullptr)}};
}

Json constant_of(const model::Parameter& parameter) {
  return {{"parameter", parameter.name},
          {"value", parameter.value},
          {"unit", parameter.unit},
          {"kind", model::to_string(parameter.kind)},
          {"source", parameter.source}};
}

Json provenance_of(const std::vector<model::ProvenanceEntry>& entries) {
  Json json = Json::array();
  for (const model::ProvenanceEntry& entry : entries) {
    json.push_back({{"parameter", entry.parameter.name},
                    {"value", entry.parameter.value},
                    {"unit", entry.parameter.unit},
                    {"kind", model::to_string(entry.parameter.kind)},
                    {"source", entry.parameter.source},
                    {"share_of_step", entry.share_of_step},
                    {"relative_uncertainty", value_of(entry.parameter.relative_uncertainty)},
                    {"stack", text_or_null<Json>(entry.parameter.stack)}});
  }
  return json;
}

Json spans_of(const model::Timeline& timeline) {
  Json spans = Json::array();
  for (const model::Span& s : timeline.spans)
    spans.push_back({s.name, s.rank, static_cast<int>(s.stream), s.layer, s.micro_batch, s.start_ps, s.duration_ps,
                     static_cast<int>(s.depth)});
  return {{"columns", {"name", "rank", "stream", "layer", "micro_batch", "start_ps", "duration_ps", "depth"}},
          {"names", timeline.names},
          {"ranks", timeline.ranks},
          {"end_ps", timeline.end_ps},
          {"spans", spans}};
}

Json training_of(const TrainingReport& training) {
  Json loads = Json::array();
  for (const TrainingReport::Load& load : training.loads)
    loads.push_back({{"layer", load.layer},
                     {"max_violation", load.max_violation},
                     {"variation", load.variation},
                     {"rows", load.rows}});
  return {{"clock", training.clock},
          {"date", training.date},
          {"emulated_rank", value_of(training.emulated_rank)},
          {"notes", training.notes},
          {"first_step", training.first_step},
          {"loss", training.losses},
          {"gradient_norm", training.gradient_norms},
          {"seconds", training.seconds},
          {"measured_seconds", training.measured_seconds},
          {"skipped", training.skipped},
          {"expert_load", loads},
          {"host_issue_s", value_of(training.issue_s)},
          {"device_memory_bytes", value_of(training.device_memory_bytes)}};
}

// The contract of simulate has the components under `step` and `run`.
Json middle_of(const model::StepResult& result) {
  if (!result.interval) return nullptr;
  const model::StepTimes step = model::middle_step(result);
  const model::RunCost run = model::middle_run(result).value_or(model::RunCost());
  const bool known = result.run.has_value();
  return {{"time_s", step.time_s},
          {"tokens_per_s", step.tokens_per_s},
          {"tokens_per_s_per_gpu", step.tokens_per_s_per_gpu},
          {"model_tflops_per_gpu", step.model_tflops_per_gpu},
          {"mfu", step.mfu},
          {"days", known ? Json(run.days) : Json(nullptr)},
          {"gpu_hours", known ? Json(run.gpu_hours) : Json(nullptr)},
          {"cost_usd", value_of(run.cost_usd)},
          {"peak_bytes", result.interval->peak_bytes.p50}};
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

std::string assumed_json(const std::vector<model::AssumedKey>& assumed) { return text_of_json(assumed_of(assumed)); }

std::string interval_json(const std::optional<model::PredictionInterval>& interval) {
  return text_of_json(interval_of(interval));
}

std::string memory_to_json(const model::Memory& memory, const model::Plan& plan, const MemoryDetails& details) {
  Json json;
  json["memory"] = memory_of(memory);
  json["memory"]["timeline"] = details.levels != nullptr ? levels_of(*details.levels) : Json(nullptr);
  json["memory"]["advice"] = details.advice != nullptr ? advice_of(*details.advice) : Json(nullptr);
  Json& constants = json["memory"]["constants"] = Json::array();
  for (const model::Parameter& parameter : details.constants) constants.push_back(constant_of(parameter));
  json["plan"] = plan_of(plan);
  return document("memory", json);
}

std::string memory_csv(const model::Memory& memory) { return csv_of_rows(memory_of(memory)["stages"]); }

}  // namespace plumbline::reports
