#include "reports/text/inputs/inputs_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/architecture/metrics.h"
#include "model/economics/ownership.h"
#include "model/layers/key_value_cache.h"
#include "model/layers/recurrence.h"
#include "reports/text/step/describe.h"
#include "reports/text/step/sections.h"
#include "reports/text/table.h"
#include "topologies/fabric.h"

namespace plumbline::reports {
namespace {

using Rows = std::vector<std::pair<std::string, std::string>>;

void add_count(Rows& rows, const char* name, std::int64_t value) { rows.emplace_back(name, fmt::format("{}", value)); }

void add_choice(const model::SparseAttention& sparse, Rows& rows) {
  if (sparse.tokens == 0) return;
  const std::string blocks = sparse.block > 1 ? fmt::format(" in blocks of {}", sparse.block) : "";
  rows.emplace_back("sees", fmt::format("{} tokens{}, chosen by {} heads of {}", grouped(sparse.tokens), blocks,
                                        sparse.heads, sparse.head_dim));
}

void add_latent_attention(const model::Architecture& a, Rows& rows) {
  rows.emplace_back("attention", a.output_gate ? "multi-head latent, gated" : "multi-head latent");
  add_count(rows, "heads", a.heads);
  if (a.latent.q_lora_rank > 0) add_count(rows, "query latent", a.latent.q_lora_rank);
  add_count(rows, "key-value latent", a.latent.kv_lora_rank);
  rows.emplace_back("query-key head", fmt::format("{} + {} {}", a.latent.qk_nope_head_dim, a.latent.qk_rope_head_dim,
                                                  a.positions == model::PositionKind::rotary ? "rotary" : "shared"));
  add_count(rows, "value head", a.latent.v_head_dim);
  add_choice(a.sparse, rows);
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
  const std::string from = a.window.full_offset > 0 ? fmt::format(" from number {} on", a.window.full_offset) : "";
  return fmt::format("{} tokens{}{}{}{}", grouped(a.window.tokens), a.window.chunks ? ", in chunks" : "", first, full,
                     from);
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
  if (a.heads == 0) return rows.emplace_back("attention", "none"), void();
  if (a.attention == model::AttentionKind::multi_head_latent) return add_latent_attention(a, rows);
  if (a.attention == model::AttentionKind::shared_key_value) return add_shared_key_value(a, rows);
  rows.emplace_back("attention", attention_name(a));
  add_count(rows, "heads", a.heads);
  add_count(rows, "key-value heads", a.key_value_heads);
  add_count(rows, "head", a.head_dim);
  if (a.value_dim > 0) add_count(rows, "value head", a.value_dim);
  rows.emplace_back("window", window_text(a));
  add_choice(a.sparse, rows);
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
  if (const auto sparse = mix(model::Mixer::sparse_attention); sparse > 0)
    mixers += fmt::format("; {} with {}", sparse,
                          a.attention == model::AttentionKind::multi_head_latent ? "tokens that another chose"
                                                                                 : "chosen blocks of tokens");
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

constexpr std::size_t inside = 66;  // columns between the walls of a box
constexpr std::size_t column = 8;   // of one GPU
constexpr std::int64_t most_drawn = 8;

std::string rate(double bytes_per_second) { return fmt::format("{:.4g} GB/s", bytes_per_second / 1e9); }

// Returns the GPUs of a node that are drawn: all, or the first ones and the last; -1 stands for the others.
std::vector<std::int64_t> drawn(std::int64_t gpus) {
  std::vector<std::int64_t> indices;
  for (std::int64_t i = 0; i < std::min(gpus, most_drawn); ++i) indices.push_back(i);
  if (gpus > most_drawn) {
    indices[most_drawn - 2] = -1;
    indices[most_drawn - 1] = gpus - 1;
  }
  return indices;
}

std::string nodes_text(std::int64_t nodes) { return fmt::format("{} node{}", grouped(nodes), nodes == 1 ? "" : "s"); }

std::string top_wall(const std::string& title) {
  return fmt::format("  +- {} {:->{}}\n", title, "+", inside - title.size() - 2);
}

std::string wall_line(const std::string& text) { return fmt::format("  |{:<{}}|\n", text, inside); }

template <class Cell>
std::string row(const std::vector<std::int64_t>& indices, Cell&& cell) {
  std::string line = " ";
  for (const std::int64_t index : indices) line += fmt::format("{:^{}}", index < 0 ? "..." : cell(index), column);
  return line;
}

std::string draw_node(const topologies::FabricShape& shape, std::int64_t nodes) {
  const std::vector<std::int64_t> gpus = drawn(shape.gpus_per_node);
  const auto nic_of = [&](std::int64_t gpu) {
    return gpu * std::min(shape.nics, shape.gpus_per_node) / shape.gpus_per_node;
  };
  const auto bars = [&](std::int64_t) { return std::string("|"); };
  const std::string links = shape.interconnect == topologies::Interconnect::mesh
                                ? fmt::format(" mesh: {} to each other GPU ", rate(shape.peer_bandwidth()))
                                : fmt::format(" switch: {} per GPU ", rate(shape.gpu_bandwidth));
  std::string out = top_wall(nodes == 1 ? "node" : fmt::format("node, {} of them", grouped(nodes)));
  out += wall_line(fmt::format(" [{:=^{}}]", links, std::max(gpus.size() * column, links.size() + 4) - 2));
  out += wall_line(row(gpus, bars));
  out += wall_line(row(gpus, [](std::int64_t gpu) { return fmt::format("GPU {}", gpu); }));
  if (shape.layers == 0) return out + top_wall("no fabric");
  const auto first_of_nic = [&](std::int64_t gpu) { return gpu == 0 || nic_of(gpu) != nic_of(gpu - 1); };
  out += wall_line(row(gpus, bars));
  out += wall_line(row(gpus, [&](std::int64_t gpu) {
    return first_of_nic(gpu) ? fmt::format("NIC {}", nic_of(gpu)) : std::string("'");
  }));
  std::string bottom = fmt::format("  +{:-^{}}+\n", "", inside);
  for (std::size_t i = 0; i < gpus.size(); ++i)
    if (gpus[i] >= 0 && first_of_nic(gpus[i])) bottom[3 + 1 + i * column + (column - 1) / 2] = '|';
  const auto under = row(gpus, [&](std::int64_t gpu) {
    return first_of_nic(gpu) ? fmt::format("rail {}", nic_of(gpu) % shape.rails) : std::string();
  });
  const std::string nics =
      shape.nics > shape.gpus_per_node
          ? fmt::format("{} NICs of {} for each GPU", shape.nics / shape.gpus_per_node, rate(shape.nic_bandwidth))
          : fmt::format("{} per NIC", rate(shape.nic_bandwidth));
  const std::string lines = row(gpus, bars);
  return out + bottom + "   " + under.substr(0, under.find_last_not_of(' ') + 1) + "\n   " +
         lines.substr(0, lines.find_last_not_of(' ') + 1) + " " + nics + '\n';
}

std::string draw_fabric(const topologies::Fabric& fabric) {
  const topologies::FabricShape& shape = fabric.shape();
  const topologies::FabricCapacity most = topologies::capacity(shape);
  std::string out =
      top_wall(shape.planes == 1 ? "network" : fmt::format("plane, {} of them, not connected", shape.planes));
  out +=
      wall_line(fmt::format("  leaves  {:>6}   {} ports to NICs, up to {} of one rail",
                            grouped(fabric.leaves() / shape.planes), most.leaf_down, nodes_text(most.nodes_per_leaf)));
  if (fabric.spines() > 0) {
    out +=
        wall_line(fmt::format("     |           {} to each spine of the pod, {}", rate(shape.nic_bandwidth),
                              shape.oversubscription > 1 ? fmt::format("oversubscribed {:g}:1", shape.oversubscription)
                                                         : std::string("non-blocking")));
    out += wall_line(fmt::format("  spines  {:>6}   {} ports; pods: {}", grouped(fabric.spines() / shape.planes),
                                 shape.switch_ports, grouped(fabric.pods() / shape.planes)));
  }
  if (fabric.cores() > 0) {
    out += wall_line(fmt::format("     |           {} to each core above", rate(shape.nic_bandwidth)));
    out += wall_line(
        fmt::format("  cores   {:>6}   {} ports", grouped(fabric.cores() / shape.planes), shape.switch_ports));
  }
  return out + fmt::format("  +{:-^{}}+\n", "", inside);
}

std::string links_table(const topologies::Fabric& fabric) {
  Table table("links | >count | >each | >together");
  for (const topologies::LinkGroup& group : topologies::inventory(fabric)) {
    const double together = static_cast<double>(group.count) * group.bandwidth;
    table.row(to_string(group.kind), grouped(group.count), rate(group.bandwidth),
              fmt::format("{:.4g} TB/s", together / 1e12));
  }
  return table.to_string();
}

// Returns the prices of a GPU-hour and of the fabric of these GPUs.
std::string prices_text(const model::ClusterShape& cluster) {
  std::string out;
  const auto line = [&out](const std::string& text) { out += paragraph(text); };
  const std::string parts = fabric_text(cluster.fabric, model::fabric_price(cluster));
  if (!parts.empty()) line("to buy: " + parts);
  const auto price = [&](const char* option, const model::Known<model::HourlyPrice>& known) {
    if (!known.value) return line(fmt::format("a GPU-hour {}: unknown, {}", option, known.missing));
    const model::HourlyPrice& usd = *known.value;
    const std::string range = usd.low < usd.high ? fmt::format(", {:.2f} to {:.2f}", usd.low, usd.high) : "";
    line(fmt::format("a GPU-hour {}: {:.2f} USD{} ({})", option, usd.value, range, usd.kind));
  };
  price("rented", model::rent_price({}, cluster));
  price("owned", model::purchase_price({}, cluster));
  return out;
}

using model::Collective;
using model::CollectiveCost;
using model::CollectiveGroup;

constexpr std::int64_t element = 4;  // bytes of a float

// Returns a time in the format of nccl-tests: two digits below 100 us, one below 10 ms.
std::string microseconds(double seconds) {
  const double us = seconds * 1e6;
  return fmt::format("{:7.{}f}", us, us >= 10'000 ? 0 : us >= 100 ? 1 : 2);
}

// The columns count and size of nccl-tests for a buffer of `bytes`. Collectives that distribute the buffer count
// elements per rank, a multiple of 16 bytes.
struct Counted {
  std::int64_t count = 0, size = 0;
};
Counted counted(Collective collective, std::int64_t bytes, std::int64_t ranks) {
  const std::int64_t all = bytes / element;
  if (collective == Collective::all_reduce || collective == Collective::broadcast ||
      collective == Collective::send_recv)
    return {all, all * element};
  const std::int64_t each = all / ranks / element * element;
  return {each, each * ranks * element};
}

// Returns a constant with its kind: "network.nic_rate 40 GB/s (assumed)".
std::string constant(const model::Profile& profile, std::string_view name) {
  const model::Parameter& p = profile.parameters()[*profile.find(name)];
  return fmt::format("{} {:.4g} {} ({})", name, p.value, p.unit, model::to_string(p.kind));
}

std::string heading(const model::ClusterShape& cluster, const model::Profile& profile,
                    const CollectivesOptions& options, const CollectiveCost& cost, const CollectiveGroup& group) {
  std::string out = "# predicted by plumbline, not measured\n";
  out += fmt::format("# {}: {} x {}, {} on a node; profile {}\n", cluster.name, group.ranks, cluster.device.name,
                     group.ranks_per_node, profile.name());
  out += fmt::format("# {} minBytes {} maxBytes {} step: 2(factor)\n", model::to_string(options.collective),
                     options.least, options.most);
  out += fmt::format("# constants of collectives: {}\n", evidence_counts(profile.parameters(), "collective."));
  for (const char* name : {"network.nvlink_rate", "network.nic_rate"})
    out += fmt::format("# {}\n", constant(profile, name));
  out += fmt::format("# on these links, per GPU and direction: NVLink {:.1f} GB/s, network {:.1f} GB/s\n",
                     cost.nvlink_rate() / 1e9, cost.nic_rate() / 1e9);
  return out +
         "#\n"
         "#       size         count      type   redop    root     time   algbw   busbw #wrong\n"
         "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)\n";
}

// A row of the table; rates in GB/s.
struct CollectiveRow {
  Counted counted;
  double seconds = 0, rate = 0, bus = 0;
};

std::vector<CollectiveRow> rows_of(const CollectivesOptions& options, const CollectiveCost& cost,
                                   const CollectiveGroup& group) {
  std::vector<CollectiveRow> rows;
  for (std::int64_t bytes = options.least; bytes <= options.most; bytes *= 2) {
    const Counted c = counted(options.collective, bytes, group.ranks);
    const double seconds = cost.time(options.collective, group, model::Bytes(static_cast<double>(c.size)));
    const double rate = static_cast<double>(c.size) / seconds / 1e9;
    rows.push_back({c, seconds, rate, rate * model::bus_factor(options.collective, group.ranks)});
  }
  return rows;
}

// Returns all GPUs of the cluster; a single one is an input error.
model::Result<CollectiveGroup> group_of(const model::ClusterShape& cluster) {
  if (cluster.gpus < 2) return model::wrong_input("--gpus", "a collective needs at least two GPUs");
  return CollectiveGroup::strided(cluster.gpus, 1, cluster.gpus_per_node);
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

std::string topology_drawing(const topologies::Topology& topology, const topologies::Fabric& fabric) {
  const topologies::FabricShape& shape = fabric.shape();
  std::string out;
  out += wrapped(fmt::format("{}: {}", topology.cluster.name, topology.description));
  out += fmt::format("{} GPUs on {}; the wiring connects at most {}\n\n", grouped(fabric.gpus()),
                     nodes_text(fabric.nodes()), grouped(topologies::capacity(shape).gpus));
  out += draw_node(shape, fabric.nodes());
  if (fabric.nodes() > 1) out += draw_fabric(fabric);
  out += '\n' + links_table(fabric);
  out += fmt::format("\n  from one half to the other, per direction: {:.4g} TB/s\n",
                     topologies::bisection_bandwidth(fabric) / 1e12);
  return out + prices_text(topology.cluster);
}

model::Result<std::string> collectives_csv(const model::ClusterShape& cluster, const model::Profile& profile,
                                           const CollectivesOptions& options) {
  const auto group = TRY(group_of(cluster));
  const auto cost = TRY(CollectiveCost::make(profile, cluster));
  CsvTable table({"collective", "gpus", "size_bytes", "elements", "time_s", "algbw_gb_per_s", "busbw_gb_per_s"});
  for (const CollectiveRow& row : rows_of(options, cost, group))
    table.row(model::to_string(options.collective), group.ranks, row.counted.size, row.counted.count, row.seconds,
              row.rate, row.bus);
  return table.text();
}

model::Result<std::string> collectives_text(const model::ClusterShape& cluster, const model::Profile& profile,
                                            const CollectivesOptions& options) {
  const auto group = TRY(group_of(cluster));
  const auto cost = TRY(CollectiveCost::make(profile, cluster));
  const bool sums = options.collective == Collective::all_reduce || options.collective == Collective::reduce_scatter;
  const int root = options.collective == Collective::broadcast ? 0 : -1;
  std::string out = heading(cluster, profile, options, cost, group);
  double sum = 0;
  const std::vector<CollectiveRow> rows = rows_of(options, cost, group);
  for (const auto& [c, seconds, rate, bus] : rows) {
    out += fmt::format("{:>12}  {:>12}  {:>8}  {:>6}  {:>6}  {}  {:6.2f}  {:6.2f}  {:>5}\n", c.size, c.count, "float",
                       sums ? "sum" : "none", root, microseconds(seconds), rate, bus, "N/A");
    sum += bus;
  }
  return out + fmt::format("# Avg bus bandwidth    : {:.4g}\n#\n", sum / static_cast<double>(rows.size()));
}

}  // namespace plumbline::reports
