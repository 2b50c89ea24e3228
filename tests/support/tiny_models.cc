#include "tests/support/tiny_models.h"

namespace plumbline::tests {
namespace {

using enum model::BlockKind;

model::Architecture common(std::string model_type) {
  return {.model_type = std::move(model_type),
          .layers = 2,
          .hidden_size = 12,
          .heads = 2,
          .key_value_heads = 2,
          .intermediate_size = 10,
          .vocabulary = 11};
}

model::Architecture deepseek_v3() {
  model::Architecture a = common("deepseek_v3");
  a.multi_token_prediction_layers = 1;
  a.attention = model::AttentionKind::multi_head_latent;
  a.latent = {.q_lora_rank = 7, .kv_lora_rank = 5, .qk_nope_head_dim = 3, .qk_rope_head_dim = 4, .v_head_dim = 6};
  a.experts = {.routed_experts = 8,
               .shared_experts = 1,
               .experts_per_token = 3,
               .intermediate_size = 4,
               .groups = 4,
               .groups_per_token = 2,
               .dense_layers_first = 1,
               .score = model::ScoreFunction::sigmoid,
               .group_score_experts = 2,
               .normalize_weights = true,
               .scaling_factor = 2.5};
  return a;
}

model::Architecture deepseek_v2(std::int64_t q_lora_rank) {
  model::Architecture a = deepseek_v3();
  a.model_type = "deepseek_v2";
  a.multi_token_prediction_layers = 0;
  a.latent.q_lora_rank = q_lora_rank;
  a.experts.shared_experts = 2;
  a.experts.score = model::ScoreFunction::softmax;
  a.experts.group_score_experts = 1;
  a.experts.normalize_weights = false;
  return a;
}

model::Architecture llama(bool tied_embedding) {
  model::Architecture a = common("llama");
  a.heads = 4;
  a.head_dim = 6;
  a.tied_embedding = tied_embedding;
  a.multi_token_prediction_layers = tied_embedding ? 1 : 0;
  return a;
}

model::Architecture mistral() {
  model::Architecture a = llama(false);
  a.model_type = "mistral";
  a.key_value_heads = 2;
  a.window = {.tokens = 3};
  return a;
}

model::Architecture mixtral() {
  model::Architecture a = llama(false);
  a.model_type = "mixtral";
  a.experts = {.routed_experts = 4, .experts_per_token = 2, .intermediate_size = 5, .normalize_weights = true};
  return a;
}

// Every second layer is MoE; the shared experts have a width of their own and a gate.
model::Architecture qwen2_moe() {
  model::Architecture a = llama(false);
  a.model_type = "qwen2_moe";
  a.biases.query_key_value = true;
  a.experts = {.routed_experts = 4,
               .shared_experts = 1,
               .experts_per_token = 2,
               .intermediate_size = 5,
               .shared_intermediate_size = 7,
               .shared_gate = true,
               .layer_frequency = 2,
               .layer_offset = 1};
  return a;
}

model::Architecture qwen2() {
  model::Architecture a = llama(true);
  a.model_type = "qwen2";
  a.multi_token_prediction_layers = 0;
  a.key_value_heads = 2;
  a.biases.query_key_value = true;
  a.window = {.tokens = 2, .first_layer = 1};
  return a;
}

model::Architecture qwen3() {
  model::Architecture a = llama(false);
  a.model_type = "qwen3";
  a.key_value_heads = 2;
  a.query_key_norm = true;
  return a;
}

model::Architecture qwen3_moe() {
  model::Architecture a = qwen3();
  a.model_type = "qwen3_moe";
  a.experts = mixtral().experts;
  return a;
}

model::Architecture gpt2() {
  model::Architecture a = common("gpt2");
  a.head_dim = 6;
  a.tied_embedding = true;
  a.norm = model::NormKind::layer;
  a.norm_bias = true;
  a.mlp = model::MlpKind::gelu;
  a.positions = model::PositionKind::learned;
  a.position_table = 8;  // longer than a sequence
  a.biases = {.query_key_value = true, .attention_output = true, .mlp = true};
  a.dropout = {.embedding = 0.1, .attention = 0.2, .residual = 0.3};
  return a;
}

model::Architecture gpt_neox() {
  model::Architecture a = gpt2();
  a.model_type = "gpt_neox";
  a.tied_embedding = false;
  a.positions = model::PositionKind::rotary;
  a.rotary_dim = 4;
  a.parallel_residual = true;
  a.dropout = {};
  return a;
}

// One norm for attention and MLP; the second of two layers does not rotate queries and keys.
model::Architecture cohere2() {
  model::Architecture a = llama(true);
  a.model_type = "cohere2";
  a.multi_token_prediction_layers = 0;
  a.key_value_heads = 2;
  a.norm = model::NormKind::layer;
  a.parallel_residual = a.shared_norm = true;
  a.window = {.tokens = 3, .full_every = 2, .rotary_only = true};
  return a;
}

model::Architecture phimoe() {
  model::Architecture a = mixtral();
  a.model_type = "phimoe";
  a.norm = model::NormKind::layer;
  a.norm_bias = true;
  a.biases.query_key_value = a.biases.attention_output = true;
  return a;
}

model::Architecture nemotron() {
  model::Architecture a = phimoe();
  a.model_type = "nemotron";
  a.experts = {};
  a.biases = {};
  a.key_value_heads = 2;
  a.mlp = model::MlpKind::gelu;
  a.rotary_dim = 4;
  return a;
}

model::Architecture mpt() {
  model::Architecture a = gpt2();
  a.model_type = "mpt";
  a.norm_bias = false;
  a.positions = model::PositionKind::alibi;
  a.biases = {};
  a.dropout = {};
  return a;
}

// The first of two layers has a window; what both add to the stream is normalised.
model::Architecture gemma() {
  model::Architecture a = llama(true);
  a.model_type = "gemma3_text";
  a.multi_token_prediction_layers = 0;
  a.key_value_heads = 2;
  a.query_key_norm = a.post_norms = true;
  a.window = {.tokens = 3, .full_every = 2};
  return a;
}

model::Architecture gpt_oss() {
  model::Architecture a = mixtral();
  a.model_type = "gpt_oss";
  a.biases = {.query_key_value = true, .attention_output = true, .router = true};
  a.window = {.tokens = 2, .full_every = 2};
  return a;
}

// In the first layer, which is dense, a query sees its own token alone. The second has neither chunks nor positions.
model::Architecture llama4() {
  model::Architecture a = llama(false);
  a.model_type = "llama4_text";
  a.window = {.tokens = 1, .full_every = 2, .chunks = true, .rotary_only = true};
  a.experts = {.routed_experts = 4,
               .shared_experts = 1,
               .experts_per_token = 1,
               .intermediate_size = 5,
               .layer_frequency = 2,
               .layer_offset = 1,
               .score = model::ScoreFunction::sigmoid};
  return a;
}

model::Architecture glm4_moe() {
  model::Architecture a = qwen3_moe();
  a.model_type = "glm4_moe";
  a.biases.query_key_value = true;
  a.rotary_dim = 4;
  a.experts.shared_experts = 1;
  a.experts.dense_layers_first = 1;
  a.experts.score = model::ScoreFunction::sigmoid;
  a.experts.scaling_factor = 2.5;
  return a;
}

// Experts work in a latent, to which their tokens are projected.
model::Architecture latent_experts() {
  model::Architecture a = glm4_moe();
  a.model_type = "nemotron_h";
  a.experts.latent_size = 6;
  return a;
}

model::Architecture normalised_latents() {
  model::Architecture a = latent_experts();
  a.model_type = "kimi_k3";
  a.experts.latent_norm = true;
  return a;
}

// What experts add to the stream is normalised, and so are queries and keys, which the second layer does not rotate.
model::Architecture afmoe() {
  model::Architecture a = glm4_moe();
  a.model_type = "afmoe";
  a.biases = {};
  a.post_norms = true;
  a.window = {.tokens = 3, .full_every = 2, .rotary_only = true};
  return a;
}

// Layers with a window have more and other heads than those without, and values are narrower than keys.
model::Architecture mimo_v2_flash() {
  model::Architecture a = glm4_moe();
  a.model_type = "mimo_v2_flash";
  a.biases = {};
  a.query_key_norm = false;
  a.experts.shared_experts = 0;
  a.value_dim = 4;
  a.window = {.tokens = 3, .full_every = 2, .heads = 8, .key_value_heads = 4, .head_dim = 8, .rotary_dim = 2};
  return a;
}

constexpr model::LayerKind recurrent_layer_with(model::FeedForward feed_forward) {
  return {model::Mixer::recurrence, feed_forward};
}

model::Architecture qwen3_next() {
  model::Architecture a = llama(false);
  a.model_type = "qwen3_next";
  a.query_key_norm = a.output_gate = true;
  a.experts = {.routed_experts = 4,
               .shared_experts = 1,
               .experts_per_token = 2,
               .intermediate_size = 5,
               .shared_intermediate_size = 7,
               .shared_gate = true,
               .normalize_weights = true};
  a.recurrence = {.key_heads = 2, .value_heads = 4, .key_dim = 3, .value_dim = 2, .convolution = 3, .chunk = 2};
  a.pattern = {recurrent_layer_with(model::FeedForward::experts),
               {model::Mixer::attention, model::FeedForward::experts}};
  return a;
}

// A decay of each column of the keys, gates of low rank, and latent attention without positions.
model::Architecture kimi_linear() {
  model::Architecture a = deepseek_v2(0);
  a.model_type = "kimi_linear";
  a.positions = model::PositionKind::none;
  a.recurrence = {.kind = model::RecurrenceKind::channel_delta,
                  .key_heads = 2,
                  .value_heads = 2,
                  .key_dim = 3,
                  .value_dim = 3,
                  .convolution = 2,
                  .gate_rank = 3,
                  .chunk = 2};
  a.pattern = {recurrent_layer_with(model::FeedForward::dense), {model::Mixer::attention, model::FeedForward::experts}};
  return a;
}

// The same with gates that are projected whole, and one of each head of latent attention.
model::Architecture ling_3() {
  model::Architecture a = kimi_linear();
  a.model_type = "bailing_hybrid";
  a.positions = model::PositionKind::rotary;
  a.recurrence.gate_rank = 0;
  a.head_gate = true;
  return a;
}

// Kimi Linear with whole gates of the output, of latent attention too, and experts of a latent whose sums are
// normalised.
model::Architecture kimi_k3() {
  model::Architecture a = kimi_linear();
  a.model_type = "kimi_k3";
  a.recurrence.full_gate = a.output_gate = true;
  a.experts.latent_size = 6;
  a.experts.latent_norm = true;
  return a;
}

model::Architecture granite_hybrid() {
  model::Architecture a = llama(true);
  a.model_type = "granitemoehybrid";
  a.multi_token_prediction_layers = 0;
  a.positions = model::PositionKind::none;
  a.recurrence = {.kind = model::RecurrenceKind::state_space,
                  .key_heads = 1,
                  .value_heads = 2,
                  .key_dim = 3,
                  .value_dim = 4,
                  .convolution = 2,
                  .chunk = 5};
  a.pattern = {recurrent_layer_with(model::FeedForward::dense), {}};
  return a;
}

// A decay without gates, no convolution, and a norm over all heads.
model::Architecture minimax() {
  model::Architecture a = mixtral();
  a.model_type = "minimax";
  a.key_value_heads = 2;
  a.rotary_dim = 4;
  a.recurrence = {.kind = model::RecurrenceKind::constant_decay,
                  .key_heads = 4,
                  .value_heads = 4,
                  .key_dim = 3,
                  .value_dim = 3,
                  .convolution = 0,
                  .chunk = 2};
  a.pattern = {recurrent_layer_with(model::FeedForward::experts),
               {model::Mixer::attention, model::FeedForward::experts}};
  return a;
}

// Convolutions between two gates, without a state.
model::Architecture lfm2_moe() {
  model::Architecture a = qwen3_moe();
  a.model_type = "lfm2_moe";
  a.recurrence = {.kind = model::RecurrenceKind::short_convolution,
                  .key_heads = 4,
                  .value_heads = 4,
                  .value_dim = 2,
                  .convolution = 3};
  a.pattern = {recurrent_layer_with(model::FeedForward::experts),
               {model::Mixer::attention, model::FeedForward::experts}};
  return a;
}

// Attention and a recurrence without a norm in parallel.
model::Architecture falcon_h1() {
  model::Architecture a = granite_hybrid();
  a.model_type = "falcon_h1";
  a.tied_embedding = false;
  a.positions = model::PositionKind::rotary;
  a.recurrence.convolution_bias = true;
  a.recurrence.normalized = false;
  a.pattern.assign(2, {model::Mixer::attention_and_recurrence, model::FeedForward::dense});
  return a;
}

// Every second layer has experts next to a wider shared one; the router scores two more, which have no work.
model::Architecture longcat_flash() {
  model::Architecture a = deepseek_v2(7);
  a.model_type = "longcat_flash";
  a.experts = {.routed_experts = 4,
               .shared_experts = 1,
               .experts_per_token = 2,
               .intermediate_size = 4,
               .shared_intermediate_size = 10,
               .layer_frequency = 2,
               .scaling_factor = 1.5};
  a.experts.idle_experts = 2;
  return a;
}

// Channels that share queries and keys, which are projected of the convolution's result.
model::Architecture jamba() {
  model::Architecture a = mixtral();
  a.model_type = "jamba";
  a.key_value_heads = 2;
  a.positions = model::PositionKind::none;
  a.experts.normalize_weights = false;
  a.recurrence = {.kind = model::RecurrenceKind::selective_scan,
                  .key_heads = 1,
                  .value_heads = 6,
                  .key_dim = 3,
                  .value_dim = 1,
                  .convolution = 2,
                  .convolution_bias = true,
                  .gate_rank = 2,
                  .chunk = 2};
  a.pattern = {recurrent_layer_with(model::FeedForward::dense),
               recurrent_layer_with(model::FeedForward::experts),
               {model::Mixer::attention, model::FeedForward::dense}};
  a.layers = 3;
  return a;
}

// The same with nothing else, and with norms without gains.
model::Architecture falcon_mamba() {
  model::Architecture a = jamba();
  a.model_type = "falcon_mamba";
  a.layers = 2;
  a.recurrence.norm_gains = false;
  a.experts = {};
  a.pattern.assign(2, {model::Mixer::recurrence, model::FeedForward::none});
  return a;
}

// Each layer does one thing, and experts have no gate.
model::Architecture nemotron_h() {
  model::Architecture a = granite_hybrid();
  a.model_type = "nemotron_h";
  a.tied_embedding = false;
  a.layers = 4;
  a.mlp = model::MlpKind::gelu;
  a.recurrence.key_heads = 2;
  a.recurrence.convolution_bias = true;
  a.experts = {.routed_experts = 4,
               .shared_experts = 1,
               .experts_per_token = 2,
               .intermediate_size = 5,
               .score = model::ScoreFunction::sigmoid,
               .normalize_weights = true,
               .scaling_factor = 2.5};
  a.pattern = {recurrent_layer_with(model::FeedForward::none),
               {model::Mixer::none, model::FeedForward::experts},
               {model::Mixer::attention, model::FeedForward::none},
               {model::Mixer::none, model::FeedForward::dense}};
  return a;
}

// Queries of a latent, with one key and one value.
model::Architecture step3() {
  model::Architecture a = mixtral();
  a.model_type = "step3_text";
  a.key_value_heads = 1;
  a.latent.q_lora_rank = 7;
  a.experts.shared_experts = 1;
  return a;
}

// A gate for each head, of which layers with a window have more.
model::Architecture laguna() {
  model::Architecture a = afmoe();
  a.model_type = "laguna";
  a.post_norms = false;
  a.head_gate = true;
  a.window = {.tokens = 3, .full_every = 2, .heads = 8, .rotary_dim = 6};
  return a;
}

// Layers without a window have wider heads and no projection of values, and experts are next to the MLP.
model::Architecture gemma4() {
  model::Architecture a = llama(true);
  a.model_type = "gemma4";
  a.multi_token_prediction_layers = 0;
  a.key_value_heads = 1;
  a.rotary_dim = 2;
  a.query_key_norm = a.values.normalized = a.values.are_keys = a.post_norms = true;
  a.window = {.tokens = 3, .full_every = 2, .key_value_heads = 2, .head_dim = 4, .rotary_dim = 4};
  a.experts = {.routed_experts = 4,
               .experts_per_token = 2,
               .intermediate_size = 5,
               .with_dense = true,
               .normalize_weights = true};
  return a;
}

// Three residual streams, one vector as key and value of all heads, and compressed entries of two tokens.
model::Architecture deepseek_v4() {
  model::Architecture a = common("deepseek_v4");
  a.heads = 4;
  a.key_value_heads = 1;
  a.head_dim = 6;
  a.rotary_dim = a.latent.qk_rope_head_dim = 2;
  a.attention = model::AttentionKind::shared_key_value;
  a.latent.q_lora_rank = 5;
  a.shared = {.output_groups = 2, .output_rank = 3, .compression = 2};
  a.residual_streams = 3;
  a.window.tokens = 2;
  a.experts = {.routed_experts = 4,
               .shared_experts = 1,
               .experts_per_token = 2,
               .intermediate_size = 5,
               .score = model::ScoreFunction::sigmoid,
               .normalize_weights = true,
               .scaling_factor = 1.5};
  a.pattern = {{model::Mixer::windowed_attention, model::FeedForward::experts},
               {model::Mixer::compressed_attention, model::FeedForward::experts}};
  return a;
}

model::Architecture deepseek_v32() {
  model::Architecture a = deepseek_v3();
  a.model_type = "deepseek_v32";
  a.sparse = {.tokens = tiny_sequence_length, .heads = 2, .head_dim = 6};
  return a;
}

// A head of the indexer for each of two groups of queries, and three blocks of two tokens.
model::Architecture minimax_m3() {
  model::Architecture a = glm4_moe();
  a.model_type = "minimax_m3_vl";
  a.biases = {};
  a.sparse = {.tokens = 6, .heads = 2, .head_dim = 6, .block = 2};
  a.pattern = {{model::Mixer::attention, model::FeedForward::dense},
               {model::Mixer::sparse_attention, model::FeedForward::experts}};
  return a;
}

// An entry of each token and the one before it, of which a query sees three.
model::Architecture chosen_entries() {
  model::Architecture a = deepseek_v4();
  a.shared.sparse_compression = 1;
  a.sparse = {.tokens = 3, .heads = 2, .head_dim = 4};
  a.pattern[1].mixer = model::Mixer::sparse_compressed_attention;
  return a;
}

}  // namespace

std::vector<TinyModel> sparse_models() {
  return {{"deepseek_v32", deepseek_v32(), {embedding, dense_layer, moe_layer, multi_token_prediction, head}},
          {"glm_5_2", deepseek_v32(), {embedding, dense_layer, sparse_dense_layer, sparse_moe_layer, head}},
          {"minimax_m3", minimax_m3(), {embedding, dense_layer, sparse_moe_layer, head}},
          {"chosen_entries", chosen_entries(), {embedding, windowed_moe_layer, sparse_compressed_moe_layer, head}}};
}

std::vector<TinyModel> recurrent_models() {
  return {{"deepseek_v4", deepseek_v4(), {embedding, windowed_moe_layer, compressed_moe_layer, head}},
          {"gemma4", gemma4(), {embedding, windowed_moe_layer, moe_layer, head}},
          {"qwen3_next", qwen3_next(), {embedding, recurrent_moe_layer, moe_layer, head}},
          {"kimi_linear", kimi_linear(), {embedding, recurrent_dense_layer, moe_layer, head}},
          {"ling_3", ling_3(), {embedding, recurrent_dense_layer, moe_layer, head}},
          {"kimi_k3", kimi_k3(), {embedding, recurrent_dense_layer, moe_layer, head}},
          {"minimax", minimax(), {embedding, recurrent_moe_layer, moe_layer, head}},
          {"lfm2_moe", lfm2_moe(), {embedding, recurrent_moe_layer, moe_layer, head}},
          {"falcon_h1", falcon_h1(), {embedding, parallel_dense_layer, head}},
          {"longcat_flash", longcat_flash(), {embedding, moe_layer, dense_layer, head}},
          {"jamba", jamba(), {embedding, recurrent_dense_layer, recurrent_moe_layer, dense_layer, head}},
          {"falcon_mamba", falcon_mamba(), {embedding, recurrent_layer, recurrent_layer, head}},
          {"laguna", laguna(), {embedding, windowed_dense_layer, moe_layer, head}},
          {"granite_hybrid", granite_hybrid(), {embedding, recurrent_dense_layer, dense_layer, head}},
          {"nemotron_h", nemotron_h(), {embedding, recurrent_layer, experts_layer, attention_layer, mlp_layer, head}}};
}

std::vector<TinyModel> tiny_models() {
  return {
      {"deepseek_v3", deepseek_v3(), {embedding, dense_layer, moe_layer, multi_token_prediction, head}},
      {"deepseek_v2", deepseek_v2(7), {embedding, dense_layer, moe_layer, head}},
      {"deepseek_v2_lite", deepseek_v2(0), {embedding, moe_layer, head}},
      {"llama", llama(false), {embedding, dense_layer, dense_layer, head}},
      {"llama_tied", llama(true), {embedding, dense_layer, multi_token_prediction, head}},
      {"mistral", mistral(), {embedding, windowed_dense_layer, head}},
      {"mistral_unfused", mistral(), {embedding, windowed_dense_layer, head}, false},
      {"mixtral", mixtral(), {embedding, moe_layer, head}},
      {"qwen2", qwen2(), {embedding, dense_layer, windowed_dense_layer, head}},
      {"qwen2_moe", qwen2_moe(), {embedding, dense_layer, moe_layer, head}},
      {"qwen3", qwen3(), {embedding, dense_layer, head}},
      {"qwen3_moe", qwen3_moe(), {embedding, moe_layer, head}},
      {"gemma", gemma(), {embedding, windowed_dense_layer, dense_layer, head}},
      {"gpt_oss", gpt_oss(), {embedding, windowed_moe_layer, moe_layer, head}},
      {"llama4", llama4(), {embedding, windowed_dense_layer, moe_layer, head}},
      {"glm4_moe", glm4_moe(), {embedding, dense_layer, moe_layer, head}},
      {"latent_experts", latent_experts(), {embedding, moe_layer, head}},
      {"normalised_latents", normalised_latents(), {embedding, moe_layer, head}},
      {"afmoe", afmoe(), {embedding, windowed_dense_layer, moe_layer, head}},
      {"mimo_v2_flash", mimo_v2_flash(), {embedding, windowed_dense_layer, moe_layer, head}},
      {"step3", step3(), {embedding, moe_layer, head}},
      {"gpt2", gpt2(), {embedding, dense_layer, dense_layer, head}},
      {"gpt2_unfused", gpt2(), {embedding, dense_layer, head}, false},
      {"gpt_neox", gpt_neox(), {embedding, dense_layer, head}},
      {"cohere2", cohere2(), {embedding, windowed_dense_layer, dense_layer, head}},
      {"phimoe", phimoe(), {embedding, moe_layer, head}},
      {"nemotron", nemotron(), {embedding, dense_layer, head}},
      {"mpt", mpt(), {embedding, dense_layer, head}},
      {"mpt_unfused", mpt(), {embedding, dense_layer, head}, false},
  };
}

model::LayerContext tiny_context(const TinyModel& model, const TinyLayout& layout) {
  return {.architecture = model.architecture,
          .gemm = layout.precision,
          .dispatch = layout.adapters.experts ? model::Precision::bf16 : layout.precision,
          .recompute = layout.recompute,
          .attention = model.fused_attention ? model::AttentionKernel::fused : model::AttentionKernel::unfused,
          .fused_loss = model.fused_attention,
          .tokens = layout.sequences / layout.ranks * tiny_sequence_length,
          .sequence_length = tiny_sequence_length,
          .expert_parallel = layout.ranks,
          .groups_per_token = model.architecture.experts.groups_per_token,
          .distinct_ranks_per_token = static_cast<double>(layout.ranks),
          .adapters = layout.adapters};
}

}  // namespace plumbline::tests
