#include "model/plan/detail/plan_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "model/base/text.h"
#include "model/graph/attributes.h"
#include "model/schedule/schedule.h"

namespace plumbline::model {
namespace {

constexpr std::array<std::string_view, 12> keys_with_zero = {
    "routing.imbalance",       "routing.skew",
    "routing.correlation",     "run.price_usd_per_gpu_hour",
    "input.bytes_per_token",   "run.phase.gpu_hours",
    "offload.activations",     "run.electricity_usd_per_kwh",
    "cluster.speed_deviation", "cluster.jitter",
    "cluster.background",      "inference.prefix_hit_rate"};  // besides those of [campaign]
constexpr double most_imbalance = 1000;                       // that of a million ranks
constexpr double most_skew = 10;                              // beyond it every token chooses the same experts
constexpr double most_deviation = 1;                          // of speeds and times, over their mean

std::optional<Error> refuse(std::string message, std::string hint) {
  Error error;
  error.message = std::move(message);
  error.hint = std::move(hint);
  return error;
}

struct Range {
  std::int64_t least;
  std::int64_t most;
};

// The upper limits keep the product of three degrees, and of a batch and a sequence, within 64 bits.
Range range_of(std::string_view key) {
  if (key == "parallelism.zero_stage" || key == "search.zero_stage") return {0, 3};
  if (key == "parallelism.shard_group" || key == "overlap.prefetch" || key == "overlap.collective_sms")
    return {0, 1'000'000};
  if (key == "overlap.communication_sms" || key == "search.communication_sms") return {0, 1'000'000};
  if (key == "recompute.layers" || key == "schedule.layers_per_stage") return {0, 1'000'000};
  if (key == "routing.rows_per_rank" || key == "campaign.spare_nodes") return {0, 1'000'000'000};
  if (key == "inference.concurrency" || key == "inference.chunked_prefill_tokens" ||
      key == "inference.speculative_tokens" || key.ends_with("redundant_experts"))
    return {0, 1'000'000'000};
  if (key.starts_with("inference.") && !key.ends_with("_tokens")) return {1, 1'000'000};
  if (key.starts_with("parallelism.") || key.starts_with("schedule.") || key.starts_with("search."))
    return {1, 1'000'000};
  return {1, 1'000'000'000};
}

std::optional<Error> check_word(std::string_view value, const std::vector<std::string>& words) {
  if (std::ranges::find(words, value) != words.end()) return std::nullopt;
  return refuse(fmt::format("unknown word '{}'", value), choice_hint(value, words));
}

// Returns the allowed words of the keys that take lists of words.
std::vector<std::string> words_of(std::string_view key) {
  if (key == "search.recompute") return {"none", "selective", "mlp", "moe", "half", "full", "given"};
  if (key == "search.split") return {"even", "first-1", "last-1", "last-2", "ends-1", "balanced", "given"};
  return {"rmsnorm", "mla_up_projection", "swiglu", "core_attention", "mlp", "moe"};
}

}  // namespace

std::string choice_hint(std::string_view found, const std::vector<std::string>& choices) {
  const std::string nearest = nearest_name(found, choices);
  return fmt::format("{}one of {}", nearest.empty() ? "" : fmt::format("did you mean '{}'? ", nearest),
                     fmt::join(choices, ", "));
}

std::optional<Error> check_plan_value(std::string_view key, std::int64_t value) {
  const Range range = range_of(key);
  if (value < range.least) {
    return refuse(fmt::format("must be at least {}, found {}", range.least, value),
                  key == "parallelism.zero_stage" ? "0 replicates everything, 1 to 3 shard more and more"
                                                  : fmt::format("the smallest meaningful value is {}", range.least));
  }
  if (value > range.most) {
    return refuse(fmt::format("must be at most {}, found {}", range.most, value),
                  key == "parallelism.zero_stage" ? "3 shards parameters, gradients and optimizer states"
                                                  : "check the number of digits");
  }
  return std::nullopt;
}

std::optional<Error> check_plan_value(std::string_view key, double value) {
  const bool may_be_zero = (key.starts_with("campaign.") && !key.starts_with("campaign.phase.")) ||
                           std::ranges::find(keys_with_zero, key) != keys_with_zero.end();
  if (!std::isfinite(value)) return refuse("must be a finite number", "");
  if (value < 0 || (value == 0 && !may_be_zero)) {
    return refuse(fmt::format("must {}, found {}", may_be_zero ? "not be negative" : "be greater than 0", value),
                  may_be_zero ? "0 switches it off" : "leave the key out for its default");
  }
  if (key == "cluster.background" && value >= 1)
    return refuse(fmt::format("must be below 1, found {}", value), "others take a share and leave the rest");
  if (key == "offload.activations" && value > 1)
    return refuse(fmt::format("must be at most 1, found {}", value), "1 offloads all of them");
  if (key == "routing.imbalance" && value > most_imbalance)
    return refuse(fmt::format("must be at most {}, found {}", most_imbalance, value),
                  "rows of n ranks vary by at most the square root of n - 1 times their mean");
  if (key == "routing.correlation" && value > 1)
    return refuse(fmt::format("must be at most 1, found {}", value), "1: all micro-batches prefer the same experts");
  if (key == "routing.skew" && value > most_skew)
    return refuse(fmt::format("must be at most {}, found {}", most_skew, value),
                  "1: experts differ as much as the logits of one token");
  if ((key == "cluster.speed_deviation" || key == "cluster.jitter") && value > most_deviation)
    return refuse(fmt::format("must be at most {}, found {}", most_deviation, value),
                  "a deviation is a share: 0.005 is 0.5 %");
  if (key == "inference.prefix_hit_rate" && value >= 1)
    return refuse(fmt::format("must be below 1, found {}", value), "the last token of a prompt is always computed");
  if ((key == "inference.acceptance" || key == "inference.memory_share") && value > 1)
    return refuse(fmt::format("must be at most 1, found {}", value), "a share, such as 0.9");
  if (key == "inference.expert_imbalance" && value < 1)
    return refuse(fmt::format("must be at least 1, found {}", value), "1: every rank has the same rows");
  if (key == "run.goodput" && value > 1)
    return refuse(fmt::format("must be at most 1, found {}", value), "1: no second is lost");
  if (key == "campaign.phase.share" && value > 1)
    return refuse(fmt::format("must be at most 1, found {}", value), "shares are of run.tokens");
  if (key == "campaign.storage_gbps" && value == 0) return refuse("must be greater than 0, found 0", "in Gb/s");
  if (key == "run.utilisation" && value > 1)
    return refuse(fmt::format("must be at most 1, found {}", value), "1: the GPUs work around the clock");
  if (key == "run.pue" && value < 1)
    return refuse(fmt::format("must be at least 1, found {}", value),
                  "power of the building over that of the machines");
  return std::nullopt;
}

std::optional<Error> check_plan_value(std::string_view key, const std::string& value) {
  if (value.empty()) return refuse("must not be empty", "");
  if (key == "recompute.policy") return check_word(value, {"none", "selective", "full"});
  if (key == "parallelism.context_method") return check_word(value, {"ring", "all-gather"});
  if (key == "attention.kernel") return check_word(value, attention_kernels());
  if (key == "loss.kernel") return check_word(value, {"fused", "unfused"});
  if (key == "precision.scaling") return check_word(value, {"current", "delayed"});
  if (key == "precision.weight_cast") return check_word(value, {"micro_batch", "step"});
  if (key == "overlap.sm_policy") return check_word(value, {"static", "none", "dynamic"});
  if (key == "stack.dispatcher") return check_word(value, {"deepep", "hybridep", "alltoall", "allgather"});
  if (key == "schedule.layers_per_stage") return check_word(value, {"even", "balanced"});
  if (key == "routing.balancing") return check_word(value, {"none", "auxiliary", "bias"});
  if (key == "optimizer.ema") return check_word(value, {"none", "host"});
  if (key == "optimizer.gradient_copy") return check_word(value, {"none", "fp32"});
  if (key == "cluster.fleet") return check_word(value, {"healthy", "stragglers"});
  if (key == "campaign.checkpoint") return check_word(value, {"synchronous", "asynchronous", "neighbour"});
  if (key == "campaign.checkpoint_storage") return check_word(value, {"parallel", "ssd"});
  if ((key == "campaign.start" || key == "campaign.deadline") && !parse_date(value))
    return refuse(fmt::format("'{}' is not a date", value), "for example \"2026-12-01\"");
  if (key == "inference.kv_cache") return check_word(value, {"fp32", "bf16", "fp16", "fp8", "int6", "nvfp4"});
  if (key == "run.ownership") return check_word(value, {"rent", "purchase"});
  if (key == "schedule.kind") {
    const auto kind = find_schedule(value);
    if (!kind) return refuse(kind.error().message, kind.error().hint);
  }
  return std::nullopt;
}

std::optional<Error> check_plan_value(std::string_view key, const ConfigValue& value) {
  if (key != "run.goodput") return std::nullopt;
  if (const auto* word = std::get_if<std::string>(&value)) return check_word(*word, {"campaign"});
  if (std::holds_alternative<bool>(value)) return refuse("expected a number or \"campaign\"", "a share, such as 0.9");
  return check_plan_value(key, *number_of(value));
}

std::optional<Error> check_plan_value(std::string_view key, const std::vector<std::int64_t>& values) {
  for (const std::int64_t value : values) {
    if (auto error = check_plan_value(key, value)) return error;
  }
  return std::nullopt;
}

std::optional<Error> check_plan_value(std::string_view key, const std::vector<std::string>& values) {
  const std::vector<std::string> words = words_of(key);
  for (const std::string& value : values) {
    auto error = key == "search.schedule" ? check_plan_value("schedule.kind", value) : check_word(value, words);
    if (error) return error;
  }
  return std::nullopt;
}

}  // namespace plumbline::model
