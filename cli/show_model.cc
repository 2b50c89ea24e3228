#include <fmt/format.h>

#include <utility>
#include <vector>

#include "cli/show.h"
#include "model/metrics.h"
#include "reports/format.h"
#include "reports/table.h"

namespace plumbline::cli {
namespace {

using Rows = std::vector<std::pair<std::string, std::string>>;

void add_attention(const model::Architecture& a, Rows& rows) {
  const auto count = [&rows](const char* name, std::int64_t value) {
    rows.emplace_back(name, fmt::format("{}", value));
  };
  const bool latent = a.attention == model::AttentionKind::multi_head_latent;
  rows.emplace_back("attention", latent ? "multi-head latent" : "grouped-query");
  count("heads", a.heads);
  if (latent) {
    if (a.latent.q_lora_rank > 0) count("query latent", a.latent.q_lora_rank);
    count("key-value latent", a.latent.kv_lora_rank);
    rows.emplace_back("query-key head",
                      fmt::format("{} + {} rotary", a.latent.qk_nope_head_dim, a.latent.qk_rope_head_dim));
    count("value head", a.latent.v_head_dim);
  } else {
    count("key-value heads", a.key_value_heads);
    count("head", a.head_dim);
  }
}

void add_layers(const model::Architecture& a, Rows& rows) {
  std::int64_t moe = 0;
  for (std::int64_t layer = 0; layer < a.layers; ++layer) moe += a.is_moe_layer(layer) ? 1 : 0;
  rows.emplace_back("layers", fmt::format("{}: {} dense, {} mixture of experts", a.layers, a.layers - moe, moe));
  if (a.multi_token_prediction_layers > 0)
    rows.emplace_back("multi-token prediction", fmt::format("{}", a.multi_token_prediction_layers));
}

void add_experts(const model::MixtureOfExperts& e, Rows& rows) {
  if (e.routed_experts == 0) return;
  rows.emplace_back("experts", fmt::format("{} routed, {} shared, {} per token, intermediate {}", e.routed_experts,
                                           e.shared_experts, e.experts_per_token, e.intermediate_size));
  if (e.groups > 1)
    rows.emplace_back("expert groups", fmt::format("{}, at most {} per token", e.groups, e.groups_per_token));
}

}  // namespace

std::string model_text(const model::Architecture& architecture, std::int64_t sequence_length) {
  Rows rows;
  add_layers(architecture, rows);
  rows.emplace_back("hidden", fmt::format("{}", architecture.hidden_size));
  rows.emplace_back("dense intermediate", fmt::format("{}", architecture.intermediate_size));
  rows.emplace_back("vocabulary", fmt::format("{}{}", architecture.vocabulary,
                                              architecture.tied_embedding ? ", head tied to the embedding" : ""));
  add_attention(architecture, rows);
  add_experts(architecture.experts, rows);
  const model::ModelMetrics metrics = model::model_metrics(architecture, sequence_length);
  rows.emplace_back("parameters", reports::scaled(metrics.parameters));
  rows.emplace_back("active per token", reports::scaled(metrics.active_parameters));
  if (metrics.prediction_parameters > 0)
    rows.emplace_back("in multi-token prediction",
                      reports::scaled(metrics.prediction_parameters) + ", not counted above");
  constexpr double giga = 1e9;
  rows.emplace_back("training FLOPs per token", fmt::format("{:.2f} GFLOP at {} tokens; {:.2f} with causal attention",
                                                            metrics.flops_per_token / giga, sequence_length,
                                                            metrics.flops_per_token_causal / giga));
  constexpr double bf16_bytes = 2;
  rows.emplace_back(
      "keys and values per token",
      fmt::format("{} B in BF16", reports::grouped(model::key_value_bytes_per_token(architecture, bf16_bytes))));
  reports::Table table({{"model"}, {architecture.name + " (" + architecture.model_type + ")"}});
  for (auto& [name, value] : rows) table.add({name, value});
  return table.to_string();
}

}  // namespace plumbline::cli
