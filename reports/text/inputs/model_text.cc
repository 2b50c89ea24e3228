#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "model/architecture/metrics.h"
#include "model/layers/key_value_cache.h"
#include "model/layers/recurrence.h"
#include "reports/csv/csv_table.h"
#include "reports/text/inputs/inputs_text.h"
#include "reports/text/table.h"

namespace plumbline::reports {
namespace {

using Rows = std::vector<std::pair<std::string, std::string>>;

void add_count(Rows& rows, const char* name, std::int64_t value) { rows.emplace_back(name, fmt::format("{}", value)); }

void add_latent_attention(const model::Architecture& a, Rows& rows) {
  rows.emplace_back("attention", a.output_gate ? "multi-head latent, gated" : "multi-head latent");
  add_count(rows, "heads", a.heads);
  if (a.latent.q_lora_rank > 0) add_count(rows, "query latent", a.latent.q_lora_rank);
  add_count(rows, "key-value latent", a.latent.kv_lora_rank);
  rows.emplace_back("query-key head", fmt::format("{} + {} {}", a.latent.qk_nope_head_dim, a.latent.qk_rope_head_dim,
                                                  a.positions == model::PositionKind::rotary ? "rotary" : "shared"));
  add_count(rows, "value head", a.latent.v_head_dim);
  if (a.sparse.tokens > 0)
    rows.emplace_back("sees", fmt::format("{} tokens, chosen by {} heads of {}", grouped(a.sparse.tokens),
                                          a.sparse.heads, a.sparse.head_dim));
}

void add_shared_key_value(const model::Architecture& a, Rows& rows) {
  const model::SharedKeyValue& shared = a.shared;
  rows.emplace_back("attention", "multi-query, keys are values");
  add_count(rows, "heads", a.heads);
  add_count(rows, "head", a.head_dim);
  add_count(rows, "query latent", a.latent.q_lora_rank);
  rows.emplace_back("output latents", fmt::format("{} of {}", shared.output_groups, shared.output_rank));
  rows.emplace_back("window", fmt::format("{} tokens", grouped(a.window.tokens)));
  rows.emplace_back("compressed entries", fmt::format("of {} tokens, all seen; of {}, {} chosen by {} heads of {}",
                                                      shared.compression, shared.sparse_compression,
                                                      grouped(a.sparse.tokens), a.sparse.heads, a.sparse.head_dim));
}

std::string window_text(const model::Architecture& a) {
  if (a.window.tokens == 0) return "none";
  const std::string first = a.window.first_layer > 0 ? fmt::format(", from layer {} on", a.window.first_layer) : "";
  const std::string full = a.window.full_every > 0 ? fmt::format(", none in each {}th layer", a.window.full_every) : "";
  return fmt::format("{} tokens{}{}{}", grouped(a.window.tokens), a.window.chunks ? ", in chunks" : "", first, full);
}

std::string attention_name(const model::Architecture& a) {
  const char* kind = a.key_value_heads == a.heads ? "multi-head"
                     : a.key_value_heads == 1     ? "multi-query"
                                                  : "grouped-query";
  return fmt::format("{}{}{}", kind, a.query_key_norm ? ", queries and keys normalised" : "",
                     a.output_gate ? ", gated"
                     : a.head_gate ? ", heads gated"
                                   : "");
}

const char* recurrence_name(model::RecurrenceKind kind) {
  switch (kind) {
    case model::RecurrenceKind::gated_delta:
      return "Gated DeltaNet";
    case model::RecurrenceKind::channel_delta:
      return "Kimi Delta Attention";
    case model::RecurrenceKind::constant_decay:
      return "lightning attention";
    case model::RecurrenceKind::selective_scan:
      return "Mamba-1";
    case model::RecurrenceKind::short_convolution:
    case model::RecurrenceKind::state_space:
      break;
  }
  return "Mamba-2";
}

void add_recurrence(const model::Architecture& a, Rows& rows) {
  const model::Recurrence& r = a.recurrence;
  if (r.value_heads == 0) return;
  const std::string taps = r.convolution > 0 ? fmt::format(", convolution of {}", r.convolution) : "";
  if (!r.scanned()) {
    rows.emplace_back("recurrence", fmt::format("short convolution of {}", r.convolution));
    return;
  }
  rows.emplace_back("recurrence", fmt::format("{}, chunks of {} tokens{}", recurrence_name(r.kind), r.chunk, taps));
  rows.emplace_back("recurrent heads", fmt::format("{} of {} x {}, {} of keys and queries", r.value_heads, r.key_dim,
                                                   r.value_dim, r.key_heads));
}

void add_attention(const model::Architecture& a, Rows& rows) {
  if (a.attention == model::AttentionKind::multi_head_latent) return add_latent_attention(a, rows);
  if (a.attention == model::AttentionKind::shared_key_value) return add_shared_key_value(a, rows);
  rows.emplace_back("attention", attention_name(a));
  add_count(rows, "heads", a.heads);
  add_count(rows, "key-value heads", a.key_value_heads);
  add_count(rows, "head", a.head_dim);
  if (a.value_dim > 0) add_count(rows, "value head", a.value_dim);
  rows.emplace_back("window", window_text(a));
  const model::HeadShape windowed = a.head_shape(true);
  if (windowed != a.head_shape(false))
    rows.emplace_back("heads with a window", fmt::format("{} of {}, {} of keys and values", windowed.heads,
                                                         windowed.query_key_dim, windowed.key_value_heads));
}

std::string positions_text(const model::Architecture& a) {
  switch (a.positions) {
    case model::PositionKind::learned:
      return fmt::format("learned, {}", a.position_table);
    case model::PositionKind::alibi:
      return "ALiBi";
    case model::PositionKind::none:
      return "none";
    case model::PositionKind::rotary:
      break;
  }
  return a.rotary_dim > 0 ? fmt::format("rotary, {} of {} columns of a head", a.rotary_dim, a.head_dim) : "rotary";
}

std::string biases_text(const model::Biases& biases) {
  std::vector<std::string> biased;
  if (biases.query_key_value) biased.emplace_back("query, key and value");
  if (biases.attention_output) biased.emplace_back("attention output");
  if (biases.mlp) biased.emplace_back("MLP");
  if (biases.router) biased.emplace_back("router");
  return biased.empty() ? "none" : fmt::format("{}", fmt::join(biased, ", "));
}

// Adds the features in which layers of model families differ.
void add_layer_style(const model::Architecture& a, Rows& rows) {
  const bool layer_norm = a.norm == model::NormKind::layer;
  rows.emplace_back(
      "layer", fmt::format("{}{}{}, {} MLP{}", layer_norm ? "LayerNorm" : "RMSNorm", a.norm_bias ? " with bias" : "",
                           a.post_norms ? " before and after" : "", a.mlp == model::MlpKind::gelu ? "GELU" : "SwiGLU",
                           a.shared_norm         ? ", attention and MLP in parallel behind one norm"
                           : a.parallel_residual ? ", attention and MLP in parallel"
                                                 : ""));
  rows.emplace_back("positions", positions_text(a));
  rows.emplace_back("biases", biases_text(a.biases));
  const model::Dropout& d = a.dropout;
  if (d.embedding > 0 || d.attention > 0 || d.residual > 0)
    rows.emplace_back("dropout",
                      fmt::format("{} embedding, {} attention, {} residual", d.embedding, d.attention, d.residual));
}

void add_layers(const model::Architecture& a, Rows& rows) {
  const auto count = [&a](auto what) {
    std::int64_t layers = 0;
    for (std::int64_t number = 0; number < a.layers; ++number) layers += what(a.layer(number)) ? 1 : 0;
    return layers;
  };
  const auto transform = [&](model::FeedForward kind) {
    return count([kind](const model::LayerKind& layer) { return layer.feed_forward == kind; });
  };
  const auto mix = [&](model::Mixer kind) {
    return count([kind](const model::LayerKind& layer) { return layer.mixer == kind; });
  };
  std::string mixers;
  if (const auto windowed = mix(model::Mixer::windowed_attention); windowed > 0)
    mixers = fmt::format("; {} with a window", windowed);
  if (const auto recurrent = mix(model::Mixer::recurrence); recurrent > 0)
    mixers += fmt::format("; {} recurrent, {} with attention", recurrent, mix(model::Mixer::attention));
  if (const auto both = mix(model::Mixer::attention_and_recurrence); both > 0)
    mixers += fmt::format("; {} with attention and a recurrence", both);
  const auto all = mix(model::Mixer::compressed_attention), chosen = mix(model::Mixer::sparse_compressed_attention);
  if (all + chosen > 0) mixers += fmt::format("; {} with all compressed entries, {} with chosen ones", all, chosen);
  rows.emplace_back("layers",
                    fmt::format("{}: {} dense, {} mixture of experts{}", a.layers, transform(model::FeedForward::dense),
                                transform(model::FeedForward::experts), mixers));
  if (a.multi_token_prediction_layers > 0)
    rows.emplace_back("multi-token prediction", fmt::format("{}", a.multi_token_prediction_layers));
}

void add_experts(const model::MixtureOfExperts& e, Rows& rows) {
  if (e.routed_experts == 0) return;
  rows.emplace_back("experts", fmt::format("{} routed, {} shared, {} per token, intermediate {}", e.routed_experts,
                                           e.shared_experts, e.experts_per_token, e.intermediate_size));
  if (e.idle_experts > 0) rows.emplace_back("experts without work", fmt::format("{}", e.idle_experts));
  if (e.latent_size > 0) rows.emplace_back("latent of experts", fmt::format("{}", e.latent_size));
  if (e.shared_intermediate_size > 0)
    rows.emplace_back("shared expert", fmt::format("intermediate {}{}", e.shared_intermediate_size,
                                                   e.shared_gate ? ", with a gate" : ""));
  if (e.groups > 1)
    rows.emplace_back("expert groups", fmt::format("{}, at most {} per token", e.groups, e.groups_per_token));
}

// Returns the tokens at which FLOPs are counted.
std::int64_t counted_tokens(const model::Architecture& architecture, std::int64_t sequence_length) {
  const bool learned = architecture.positions == model::PositionKind::learned;
  return learned ? std::min(sequence_length, architecture.position_table) : sequence_length;
}

std::int64_t cache_bytes_per_token(const model::Architecture& architecture) {
  return static_cast<std::int64_t>(model::cache_bytes(architecture, model::DataType::bf16, 1, 1));
}

std::vector<std::string> spread_row(const std::string& what, const model::LoadSpread& spread) {
  return {what, fmt::format("{:.2f} %", 100 * spread.variation), fmt::format("{:.3f}", spread.max_violation)};
}

}  // namespace

std::string model_csv(const model::Architecture& architecture, std::int64_t sequence_length) {
  const model::ModelMetrics metrics = model::model_metrics(architecture, counted_tokens(architecture, sequence_length));
  CsvTable table({"quantity", "value", "unit"});
  table.row("layers", architecture.layers, "1");
  table.row("hidden_size", architecture.hidden_size, "1");
  table.row("intermediate_size", architecture.intermediate_size, "1");
  table.row("vocabulary", architecture.vocabulary, "tokens");
  table.row("attention_heads", architecture.heads, "1");
  table.row("key_value_heads", architecture.key_value_heads, "1");
  table.row("routed_experts", architecture.experts.routed_experts, "1");
  table.row("experts_per_token", architecture.experts.experts_per_token, "1");
  table.row("sequence_length", counted_tokens(architecture, sequence_length), "tokens");
  table.row("parameters", metrics.parameters, "1");
  table.row("active_parameters_per_token", metrics.active_parameters, "1");
  table.row("embedding_parameters", metrics.embedding_parameters, "1");
  table.row("prediction_parameters", metrics.prediction_parameters, "1");
  table.row("flops_per_token", metrics.flops_per_token, "FLOP");
  table.row("flops_per_token_causal", metrics.flops_per_token_causal, "FLOP");
  table.row("cache_bytes_per_token_bf16", cache_bytes_per_token(architecture), "B");
  if (const double states = model::request_state_bytes(architecture); states > 0)
    table.row("state_bytes_per_request", static_cast<std::int64_t>(states), "B");
  return table.text();
}

std::string model_text(const model::Architecture& architecture, std::int64_t sequence_length) {
  Rows rows;
  add_layers(architecture, rows);
  rows.emplace_back(
      "hidden", architecture.residual_streams > 1
                    ? fmt::format("{}, {} residual streams", architecture.hidden_size, architecture.residual_streams)
                    : fmt::format("{}", architecture.hidden_size));
  if (architecture.has_dense_mlp())
    rows.emplace_back("dense intermediate", fmt::format("{}", architecture.intermediate_size));
  rows.emplace_back("vocabulary", fmt::format("{}{}", architecture.vocabulary,
                                              architecture.tied_embedding ? ", head tied to the embedding" : ""));
  add_layer_style(architecture, rows);
  add_attention(architecture, rows);
  add_recurrence(architecture, rows);
  add_experts(architecture.experts, rows);
  const std::int64_t tokens = counted_tokens(architecture, sequence_length);
  const model::ModelMetrics metrics = model::model_metrics(architecture, tokens);
  if (!architecture.omitted.what.empty())
    rows.emplace_back("takes no time here", fmt::format("{}", fmt::join(architecture.omitted.what, ", ")));
  rows.emplace_back("parameters", scaled(metrics.parameters));
  rows.emplace_back("active per token", scaled(metrics.active_parameters));
  rows.emplace_back("in embeddings and head", scaled(metrics.embedding_parameters));
  if (metrics.prediction_parameters > 0)
    rows.emplace_back("in multi-token prediction", scaled(metrics.prediction_parameters) + ", not counted above");
  constexpr double giga = 1e9;
  rows.emplace_back("training FLOPs per token",
                    fmt::format("{:.2f} GFLOP at {} tokens; {:.2f} with causal attention",
                                metrics.flops_per_token / giga, tokens, metrics.flops_per_token_causal / giga));
  rows.emplace_back("keys and values per token",
                    fmt::format("{} B in BF16", grouped(cache_bytes_per_token(architecture))));
  if (const double states = model::request_state_bytes(architecture); states > 0)
    rows.emplace_back("states per request", fmt::format("{} B", grouped(static_cast<std::int64_t>(states))));
  Table table({{"model"}, {architecture.name + " (" + architecture.model_type + ")"}});
  for (auto& [name, value] : rows) table.add({name, value});
  return table.to_string();
}

std::string routing_text(const model::RoutingStatistics& routing, const std::string& plan) {
  Table table("load | >deviation | >MaxVio");
  table.add(spread_row("experts of a layer, all micro-batches", routing.experts));
  table.add(spread_row("ranks of a layer and micro-batch", routing.ranks));
  std::string out = fmt::format("{}: {} layers with experts\n\n{}", plan, routing.loads.size(), table.to_string());
  if (routing.dropped > 0.0005)
    out +=
        '\n' + paragraph(fmt::format("Rows dropped above the capacity of an expert: {:.1f} %.", 100 * routing.dropped));
  if (routing.balance.empty()) return out;
  Table steps(">step | >deviation | >MaxVio");
  for (const model::RoutingStatistics::Step& step : routing.balance)
    steps.add(spread_row(fmt::format("{}", step.step), step.experts));
  return out + "\nBiases of the first layer's experts move towards balance:\n\n" + steps.to_string();
}

}  // namespace plumbline::reports
