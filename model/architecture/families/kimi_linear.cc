// Kimi Linear (arXiv 2510.26692): Kimi Delta Attention, with latent attention without positions in each fourth layer.
// Kimi K3, which has experts of a latent and gates of attention besides (keys: moonshotai/Kimi-K3 config.json; layers:
// huggingface/transformers @aa83b54 src/transformers/models/kimi_k3/modular_kimi_k3.py). Keys and their values where
// missing: moonshotai/Kimi-Linear-48B-A3B-Instruct @e1df551 configuration_kimi.py; projections, and states in FP32
// whatever else is kept in fewer bits: vllm-project/vllm @01a7e5d vllm/model_executor/layers/kda.py and
// mamba/mamba_utils.py, kda_state_dtype.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "model/architecture/families/families.h"

namespace plumbline::model {
namespace {

void read_kimi_experts(ConfigReader& config, Architecture& model) {
  MixtureOfExperts& experts = model.experts;
  experts.routed_experts = config.dimension("num_experts");
  experts.experts_per_token = config.dimension("num_experts_per_token");
  experts.intermediate_size = config.dimension("moe_intermediate_size");
  experts.latent_size = config.count("routed_expert_hidden_size", 0);
  experts.latent_norm = experts.latent_size > 0 && config.flag("latent_moe_use_norm", false);
  experts.shared_experts = config.count("num_shared_experts", 0);
  experts.dense_layers_first = config.count("first_k_dense_replace", 0);
  experts.layer_frequency = config.dimension("moe_layer_freq", 1);
  experts.normalize_weights = config.flag("moe_renormalize", true);
  experts.scaling_factor = config.number("routed_scaling_factor", 1);
  if (config.text("moe_router_activation_func", "sigmoid") == "sigmoid") experts.score = ScoreFunction::sigmoid;
  experts.group_score_experts = 2;
  if (config.flag("use_grouped_topk", true)) {
    experts.groups = config.dimension("num_expert_group", 1);
    experts.groups_per_token = config.dimension("topk_group", 1);
  }
  if (experts.routed_experts % experts.groups != 0 || experts.groups_per_token > experts.groups)
    config.conflict("num_expert_group",
                    fmt::format("{} experts do not form {} equal groups, of which a token uses {}",
                                experts.routed_experts, experts.groups, experts.groups_per_token),
                    "it must divide num_experts and be at least topk_group");
  check_experts_per_token(config, model, "num_experts", "num_experts_per_token");
}

// Layers are counted from one; a model of fewer layers than the lists has the first ones.
void read_kimi_layers(ConfigReader& config, Architecture& model) {
  const std::vector<std::int64_t> recurrent = config.counts("linear_attn_config.kda_layers");
  const std::vector<std::int64_t> attending = config.counts("linear_attn_config.full_attn_layers");
  std::vector<LayerKind> pattern;
  for (std::int64_t number = 1; number <= model.layers; ++number) {
    const bool recurs = std::ranges::find(recurrent, number) != recurrent.end();
    const bool attends = std::ranges::find(attending, number) != attending.end();
    if (recurs == attends) {
      config.conflict(
          "linear_attn_config.kda_layers",
          fmt::format("layer {} is in {} of kda_layers and full_attn_layers", number, recurs ? "both" : "neither"),
          "state each layer, counted from one, in one of them");
      return;
    }
    LayerKind kind = model.layer(number - 1);
    if (recurs) kind.mixer = Mixer::recurrence;
    pattern.push_back(kind);
  }
  model.pattern = std::move(pattern);
}

}  // namespace

void read_kimi_linear(ConfigReader& config, Architecture& model) {
  read_decoder(config, model, {.activation = ""});
  if (config.text("hidden_act", "silu") == "situ")
    model.omitted.what.emplace_back("SiTU as the gate (it costs what SiLU does)");
  else
    read_activation(config, model, "hidden_act", "silu", true);
  read_latent_attention(config, model, 0);
  if (config.flag("mla_use_nope", false)) model.positions = PositionKind::none;
  read_kimi_experts(config, model);
  const std::int64_t heads = config.dimension("linear_attn_config.num_heads");
  const std::int64_t head_dim = config.dimension("linear_attn_config.head_dim");
  model.recurrence = {.kind = RecurrenceKind::channel_delta,
                      .key_heads = heads,
                      .value_heads = heads,
                      .key_dim = head_dim,
                      .value_dim = head_dim,
                      .convolution = config.dimension("linear_attn_config.short_conv_kernel_size", 4),
                      .full_gate = config.flag("linear_attn_config.use_full_rank_gate", false),
                      .gate_rank = head_dim,
                      .state_bytes = 4};
  read_prediction(config, model);
  read_kimi_layers(config, model);
  model.output_gate = config.flag("mla_use_output_gate", false);
  if (config.count("attn_res_block_size", 0) == 0) return;
  // Norm and query of the residuals that attention and MLP of each layer read, and of the last one.
  model.omitted.what.emplace_back("residuals that attend to blocks of layers");
  model.omitted.parameters = static_cast<double>((4 * model.layers + 2) * model.hidden_size);
}

}  // namespace plumbline::model
