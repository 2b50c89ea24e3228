#include "reports/text/serving/serving_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>
#include <utility>

#include "model/base/text.h"
#include "model/memory/memory.h"
#include "model/plan/instance.h"
#include "model/result/result.h"
#include "reports/quantities.h"
#include "reports/text/step/describe.h"
#include "reports/text/step/sections.h"

namespace plumbline::reports {
namespace {

using model::Quantiles;
using model::ServingPool;
using model::ServingResult;
using Row = std::vector<std::string>;

constexpr std::size_t most_points = 9;  // of the frontier

std::string usd(double value) { return dollars(value, 3); }
std::string whole(double value) { return grouped(std::floor(value)); }

// The rows of the answer; those of quantities with an interval have its ends.
class Answer {
 public:
  explicit Answer(bool with_interval) : with_interval_(with_interval) {}

  void add(const std::string& name, double value, std::string (*text)(double),
           const std::optional<Quantiles>& interval = {}) {
    Row& row = rows_.emplace_back(Row{name, text(value)});
    if (with_interval_ && interval) row.insert(row.end(), {text(interval->p10), text(interval->p90)});
  }
  void add(const std::string& name, const std::optional<double>& dollars,
           const std::optional<Quantiles>& interval = {}) {
    if (dollars) add(name, *dollars, usd, interval);
  }
  TitledTable table() {
    return {"",
            with_interval_ ? "The deployment in its steady state | > | >p10 | >p90"
                           : "The deployment in its steady state | >",
            std::move(rows_),
            with_interval_ ? "GPUs that only decode or prefill, and the steps below: by components alone." : ""};
  }

 private:
  bool with_interval_;
  std::vector<Row> rows_;
};

std::optional<Quantiles> inverse(const std::optional<Quantiles>& quantiles) {
  if (!quantiles) return std::nullopt;
  return Quantiles{1 / quantiles->p90, 1 / quantiles->p50, 1 / quantiles->p10};
}

// Whether a request has tokens after its first, which alone have a time per output token.
bool has_later_tokens(const ServingReport& report) {
  const model::Plan::Inference& keys = report.inputs.plan.inference;
  return keys.lengths || keys.output_tokens > 1;
}

// `result` is that of the middle.
TitledTable answer_table(const ServingResult& result, bool later_tokens) {
  const model::ServingInterval interval = result.interval.value_or(model::ServingInterval());
  Answer answer(result.interval.has_value());
  if (later_tokens) {
    answer.add("TPOT, time per output token", result.tpot_s, duration, interval.tpot_s);
    answer.add("tokens/s of a user", 1 / result.tpot_s, number, inverse(interval.tpot_s));
  }
  answer.add("TTFT, to the first token, at this load", result.ttft_s, duration, interval.ttft_s);
  answer.add("TTFT of a request alone (at least)", result.ttft_unloaded_s, duration, interval.ttft_unloaded_s);
  if (later_tokens) answer.add("ITL, between tokens, at most", result.itl_worst_s, duration);
  answer.add("output tokens/s of a GPU", result.output_tokens_per_s_per_gpu, number,
             interval.output_tokens_per_s_per_gpu);
  answer.add("output tokens/s of a node", result.output_tokens_per_s_per_node, grouped);
  answer.add("output tokens/s of all GPUs", result.output_tokens_per_s, grouped);
  answer.add("input tokens/s of a GPU", result.input_tokens_per_s_per_gpu, number);
  answer.add("tokens/s of a GPU that only decodes", *serving_quantity(result, "decode_tokens_per_s_per_gpu"), number);
  answer.add("tokens/s of a GPU that only prefills", result.prefill_tokens_per_s_per_gpu, number);
  answer.add("USD per million output tokens", result.usd_per_million_output_tokens,
             interval.usd_per_million_output_tokens);
  answer.add("USD per million output tokens, with prompts", result.usd_per_million_tokens_all_in);
  answer.add("USD per million output tokens, of the demand", result.usd_per_million_output_tokens_of_demand);
  answer.add("USD per million input tokens", result.usd_per_million_input_tokens);
  answer.add("requests in flight (concurrency)", result.concurrency, number);
  answer.add("requests that decode, per GPU", result.batch_per_gpu, number);
  answer.add("requests for which there is a place", result.most_concurrency, whole);
  answer.add("tokens in the KV cache, at most", result.kv_capacity_tokens, whole);
  TitledTable table = answer.table();
  table.rows.push_back({"what binds", std::string(model::to_string(result.bound_by))});
  return table;
}

TitledTable parts_table(const ServingPool& pool) {
  TitledTable table{fmt::format("A step of {}: {} for {} tokens of {} {}", pool.name == "both" ? "decode" : pool.name,
                                duration(pool.step_s), number(pool.tokens_per_step), pool.gpus_per_instance,
                                pool.gpus_per_instance == 1 ? "GPU" : "GPUs"),
                    "part | >time | >share | >hidden | bound by",
                    {},
                    ""};
  for (const model::ServingPart& part : pool.parts)
    table.rows.push_back({part.name, duration(part.seconds), pool.step_s > 0 ? percent(part.seconds / pool.step_s) : "",
                          part.hidden_s > 0 ? duration(part.hidden_s) : "", std::string(model::to_string(part.bound))});
  return table;
}

std::string fit_sentence(const ServingResult& result) {
  if (!result.fits_probability) return "";
  const std::string_view fit = model::to_string(model::fit_of(*result.fits_probability));
  return fmt::format("An instance that serves at least a request {}, with {}. ",
                     fit == "at the edge" ? "is at the edge" : fit, model::chance(*result.fits_probability, 1));
}

std::string states_sentence(const ServingResult& result) {
  if (result.state_bytes_per_request == 0) return "";
  return fmt::format("The states of a request take {} bytes of the KV cache, whatever its context. ",
                     grouped(result.state_bytes_per_request));
}

TitledTable memory_table(const ServingResult& result) {
  TitledTable table{
      "Memory of the fullest GPU (GB = 1e9 bytes)",
      "pool | >weights | >activations | >reserve | >KV cache | >capacity | >KV tokens",
      {},
      fmt::format("{}A token takes {} bytes of keys and values on the GPUs of an instance. {}KV tokens are "
                  "those for which an instance has space.",
                  fit_sentence(result), grouped(result.kv_bytes_per_token), states_sentence(result))};
  for (const ServingPool& pool : result.pools)
    table.rows.push_back({pool.name, gigabytes(pool.weights_bytes), gigabytes(pool.activations_bytes),
                          gigabytes(pool.reserve_bytes), gigabytes(pool.kv_bytes), gigabytes(pool.capacity_bytes),
                          whole(pool.kv_capacity_tokens)});
  return table;
}

std::string degrees(const ServingPool& pool) {
  std::string text;
  const auto add = [&](const char* name, std::int64_t value) {
    if (value > 1) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, value);
  };
  add("pipeline", pool.pipeline);
  add("tensor", pool.tensor);
  add("attention data", pool.attention_data);
  add("expert", pool.expert);
  if (pool.redundant_experts > 0) text += fmt::format(" (+{})", pool.redundant_experts);
  return text.empty() ? "one GPU" : text;
}

std::string demand_sentence(const ServingReport& report, const ServingResult& result) {
  if (!result.demand_gpus) return "";
  std::string text = fmt::format("{} output tokens a day take {} GPUs",
                                 scaled(report.inputs.plan.inference.demand_output_tokens_per_day.value_or(0)),
                                 grouped(std::ceil(*result.demand_gpus)));
  if (result.demand_prefill_gpus && result.demand_decode_gpus) {
    const auto node = static_cast<double>(std::max<std::int64_t>(1, report.inputs.cluster.gpus_per_node));
    const double prefill = *result.demand_prefill_gpus / node, decode = *result.demand_decode_gpus / node;
    text += fmt::format(": {} nodes for prefill and {} for decode, {} to 1", fixed(prefill, 1), fixed(decode, 1),
                        fixed(prefill / decode, 3));
  }
  return text + ".";
}

TitledTable pools_table(const ServingReport& report, const ServingResult& middle) {
  TitledTable table{"Pools",
                    "pool | >GPUs | >instances | degrees of an instance | >batch/GPU | bound by",
                    {},
                    demand_sentence(report, middle)};
  for (const ServingPool& pool : report.result.pools)
    table.rows.push_back({pool.name, grouped(pool.gpus), grouped(pool.instances), degrees(pool),
                          number(pool.batch_per_gpu), std::string(model::to_string(pool.bound_by))});
  return table;
}

TitledTable frontier_table(const ServingResult& result, bool later_tokens) {
  TitledTable table{"Interactivity and throughput",
                    ">requests | >per GPU | >TPOT | >tokens/s/user | >tokens/s/GPU | >$/M out | limits",
                    {},
                    ""};
  const std::vector<model::ServingPoint>& points = result.frontier;
  const std::size_t shown = std::min(points.size(), most_points);
  for (std::size_t i = 0; i < shown; ++i) {
    const model::ServingPoint& point = points[shown > 1 ? i * (points.size() - 1) / (shown - 1) : 0];
    table.rows.push_back({grouped(point.concurrency), number(point.batch_per_gpu),
                          later_tokens ? duration(point.tpot_s) : "", later_tokens ? number(1 / point.tpot_s) : "",
                          number(point.output_tokens_per_s_per_gpu),
                          point.usd_per_million_output_tokens ? usd(*point.usd_per_million_output_tokens) : "",
                          point.within_limits ? "" : "over"});
  }
  if (shown < points.size()) table.note = fmt::format("{} of {} points; --csv has all.", shown, points.size());
  return table;
}

// `result` is that of the middle.
TitledTable published_table(const ServingReport& report, const ServingResult& result) {
  TitledTable table{"Against published figures", "quantity | >predicted | >published | unit | >ratio | source", {}, ""};
  for (const calibrate::ExampleFigure& figure : report.published) {
    const std::optional<double> value = serving_quantity(result, figure.quantity);
    if (!value) continue;
    const double predicted = *value * figure.scale;
    table.rows.push_back({figure.name, number(predicted), number(figure.value), figure.unit,
                          fixed(predicted / figure.value, 2), figure.source});
    if (!figure.reason.empty())
      table.note += fmt::format("{}{}: {}.", table.note.empty() ? "" : " ", figure.name, figure.reason);
  }
  return table;
}

TitledTable sources_table(const ServingResult& result) {
  TitledTable table{"What is uncertain about the time per output token", "source | >share of the variance", {}, ""};
  if (!result.interval) return table;
  for (const model::IntervalPart& part : result.interval->parts)
    table.rows.push_back({part.source, percent(part.share)});
  return table;
}

std::string lengths(const model::Plan::Inference& keys) {
  std::string text = keys.lengths ? fmt::format("requests of {}", *keys.lengths)
                                  : fmt::format("{} input and {} output tokens", grouped(keys.input_tokens),
                                                grouped(keys.output_tokens));
  if (keys.prefix_hit_rate > 0) text += fmt::format(", {} of the input cached", percent(keys.prefix_hit_rate));
  return text;
}

// A latent has no heads that tensor parallelism could divide.
std::string latent_sentence(const ServingReport& report) {
  std::int64_t copies = 1;
  for (const model::ServingPool& pool : report.result.pools) copies = std::max(copies, pool.tensor);
  if (copies == 1 || report.inputs.architecture.attention != model::AttentionKind::multi_head_latent) return "";
  return fmt::format(
      "Tensor parallelism does not divide a latent cache: each of {} ranks holds that of all of its requests. "
      "Attention data parallelism (inference.attention_data) stores it once.",
      copies);
}

// Returns what speculates and how much of it is accepted.
std::string speculation_sentence(const ServingReport& report) {
  const model::Plan& plan = report.inputs.plan;
  const model::Plan::Inference& keys = plan.inference;
  const model::DraftKind draft = model::draft_of(plan, report.inputs.architecture);
  if (draft == model::DraftKind::none) return "";
  std::vector<std::string> shares;
  for (const double share : model::acceptance_of(plan, report.inputs.architecture)) shares.push_back(percent(share));
  shares.resize(std::min(shares.size(), static_cast<std::size_t>(keys.speculative_tokens)));
  return fmt::format("A step checks {} {} of a request, drafted by {}, and yields {} tokens at an acceptance of {}{}.",
                     keys.speculative_tokens, keys.speculative_tokens == 1 ? "token" : "tokens",
                     draft == model::DraftKind::model ? keys.draft : to_string(draft),
                     fixed(report.result.tokens_per_step, 2), fmt::join(shares, ", "),
                     keys.acceptance ? "" : ", as published");
}

// Returns what the prediction rests on and leaves out, as sentences.
std::vector<std::string> serving_sentences(const ServingReport& report) {
  const model::ServingResult& result = report.result;
  const model::Plan::Inference& keys = report.inputs.plan.inference;
  std::vector<std::string> sentences = {keys.arrivals == "waves" ? "Waves of requests that start together."
                                                                 : "A steady state: no bursts, no tail latency."};
  if (!has_later_tokens(report))
    sentences.emplace_back("A request ends with its first token, so that there is no time per output token.");
  if (std::string speculation = speculation_sentence(report); !speculation.empty())
    sentences.push_back(std::move(speculation));
  if (const std::string latent = latent_sentence(report); !latent.empty()) sentences.push_back(latent);
  sentences.insert(sentences.end(), result.notes.begin(), result.notes.end());
  if (!result.constants.empty())
    sentences.push_back(fmt::format("Constants of the answer: {}.", evidence_counts(result.constants)));
  if (result.interval && result.interval->limits_probability)
    sentences.push_back(
        fmt::format("The limits hold in {} of the cases.", percent(*result.interval->limits_probability)));
  if (result.interval)
    sentences.push_back(fmt::format(
        "Eight of ten cases lie between p10 and p90, and half of them are faster than the answer and its frontier. "
        "Steps are what their components add up to{}.",
        has_later_tokens(report) ? fmt::format(", by which the time per output token is {}", duration(result.tpot_s))
                                 : ""));
  return sentences;
}

// Returns the tables, the answer first.
std::vector<TitledTable> serving_tables(const ServingReport& report) {
  const ServingResult middle = model::middle_serving(report.result);
  std::vector<TitledTable> tables = {answer_table(middle, has_later_tokens(report)), pools_table(report, middle)};
  for (const ServingPool& pool : report.result.pools) tables.push_back(parts_table(pool));
  tables.insert(tables.end(), {memory_table(report.result), frontier_table(middle, has_later_tokens(report)),
                               published_table(report, middle), sources_table(report.result)});
  return tables;
}

}  // namespace

std::vector<std::string> serving_head(const ServingReport& report) {
  const model::Plan& plan = report.inputs.plan;
  const model::Plan::Inference& keys = plan.inference;
  const std::string& stack = report.inputs.profile.stack();
  const bool stands_in = stack.starts_with(keys.engine + "-");  // on this device
  std::vector<std::string> head = {
      fmt::format("Serving {} on {}", model_name(plan), hardware(plan, report.inputs.cluster.device.name)),
      fmt::format("engine {}, weights {}, KV cache {}; {}",
                  stands_in ? fmt::format("{} as {}", keys.engine, stack) : keys.engine, model::to_string(keys.weights),
                  keys.kv_cache, lengths(keys)),
      fmt::format("profile {}", report.inputs.profile.name())};
  if (!report.result.assumed.empty()) head.push_back(fmt::format("{} of TPOT", assumed_words(report.result.assumed)));
  return head;
}

std::string serving_text(const ServingReport& report, Style style) {
  std::string out;
  for (const std::string& line : serving_head(report)) out += out.empty() ? bold(line, style) + "\n" : wrapped(line);
  if (report.measured) out += heading("Measured", style) + measured_section(*report.measured);
  out += sections(serving_tables(report), style) + heading("What it rests on", style);
  for (const std::string& sentence : serving_sentences(report)) out += paragraph(sentence);
  return out;
}

std::string serving_csv(const ServingReport& report) {
  std::string out =
      "concurrency,batch_per_gpu,tpot_s,tokens_per_s_per_user,ttft_unloaded_s,output_tokens_per_s_per_gpu,"
      "usd_per_million_output_tokens,within_limits,ttft_s\n";
  for (const model::ServingPoint& point : report.result.frontier)
    out +=
        fmt::format("{},{},{},{},{},{},{},{}\n", point.concurrency, point.batch_per_gpu,
                    has_later_tokens(report) ? fmt::format("{},{}", point.tpot_s, 1 / point.tpot_s) : ",",
                    point.ttft_unloaded_s, point.output_tokens_per_s_per_gpu,
                    point.usd_per_million_output_tokens ? fmt::format("{}", *point.usd_per_million_output_tokens) : "",
                    point.within_limits, point.ttft_s);
  return out;
}

}  // namespace plumbline::reports
