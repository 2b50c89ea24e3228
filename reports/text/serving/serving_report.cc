#include "reports/text/serving/serving_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "reports/text/step/describe.h"

namespace plumbline::reports {
namespace {

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

// Returns what the prediction rests on and leaves out, as sentences.
std::vector<std::string> serving_sentences(const ServingReport& report) {
  const model::ServingResult& result = report.result;
  const model::Plan::Inference& keys = report.inputs.plan.inference;
  std::vector<std::string> sentences = {"A steady state: no arrivals, no queues, no tail latency."};
  if (keys.speculative_tokens > 0)
    sentences.push_back(
        fmt::format("A step computes {} speculated {} of a request and yields {} tokens, at an "
                    "acceptance of {}.",
                    keys.speculative_tokens, keys.speculative_tokens == 1 ? "token" : "tokens",
                    fixed(result.tokens_per_step, 2), percent(keys.acceptance)));
  if (const std::string latent = latent_sentence(report); !latent.empty()) sentences.push_back(latent);
  sentences.insert(sentences.end(), result.notes.begin(), result.notes.end());
  if (!result.constants.empty())
    sentences.push_back(fmt::format("Constants of the answer: {}.", evidence_counts(result.constants)));
  if (result.interval) sentences.emplace_back("Eight of ten cases lie between p10 and p90.");
  return sentences;
}

}  // namespace

std::vector<std::string> serving_head(const ServingReport& report) {
  const model::Plan& plan = report.inputs.plan;
  const model::Plan::Inference& keys = plan.inference;
  std::vector<std::string> head = {
      fmt::format("Serving {} on {}", model_name(plan), hardware(plan, report.inputs.cluster.device.name)),
      fmt::format("engine {}, weights {}, KV cache {}; {}", keys.engine, model::to_string(keys.weights), keys.kv_cache,
                  lengths(keys)),
      fmt::format("profile {}", report.inputs.profile.name())};
  if (!report.result.assumed.empty()) head.push_back(fmt::format("{} of TPOT", assumed_words(report.result.assumed)));
  return head;
}

std::string serving_text(const ServingReport& report, Style style) {
  std::string out;
  for (const std::string& line : serving_head(report)) out += out.empty() ? bold(line, style) + "\n" : wrapped(line);
  for (const TitledTable& table : serving_tables(report)) out += section(table, style);
  out += heading("What it rests on", style);
  for (const std::string& sentence : serving_sentences(report)) out += paragraph(sentence);
  return out;
}

std::string serving_csv(const ServingReport& report) {
  std::string out =
      "concurrency,batch_per_gpu,tpot_s,tokens_per_s_per_user,ttft_unloaded_s,output_tokens_per_s_per_gpu,"
      "usd_per_million_output_tokens,within_limits\n";
  for (const model::ServingPoint& point : report.result.frontier)
    out +=
        fmt::format("{},{},{},{},{},{},{},{}\n", point.concurrency, point.batch_per_gpu, point.tpot_s, 1 / point.tpot_s,
                    point.ttft_unloaded_s, point.output_tokens_per_s_per_gpu,
                    point.usd_per_million_output_tokens ? fmt::format("{}", *point.usd_per_million_output_tokens) : "",
                    point.within_limits);
  return out;
}

}  // namespace plumbline::reports
