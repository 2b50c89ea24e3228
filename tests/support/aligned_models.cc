#include "tests/support/aligned_models.h"

namespace plumbline::tests {
namespace {

void align(model::MixtureOfExperts& experts) {
  if (experts.routed_experts == 0) return;
  experts.intermediate_size = 128;
  if (experts.latent_size > 0) experts.latent_size = 128;
  if (experts.shared_intermediate_size > 0) experts.shared_intermediate_size = 192;
}

model::Architecture aligned(model::Architecture a) {
  a.hidden_size = 256;
  a.intermediate_size = 384;
  a.vocabulary = 512;
  if (a.head_dim > 0) a.head_dim = 128;
  if (a.latent.q_lora_rank > 0) a.latent.q_lora_rank = 192;
  if (a.attention == model::AttentionKind::multi_head_latent)
    a.latent = {.q_lora_rank = a.latent.q_lora_rank,
                .kv_lora_rank = 128,
                .qk_nope_head_dim = 128,
                .qk_rope_head_dim = 64,
                .v_head_dim = 128};
  if (a.position_table > 0) a.position_table = aligned_sequence_length + 32;
  if (a.rotary_dim > 0) a.rotary_dim = 32;
  if (a.window.tokens > 0) a.window.tokens = 48;
  if (a.value_dim > 0) a.value_dim = 64;
  if (a.window.head_dim > 0) a.window.head_dim = 64;
  if (a.window.rotary_dim > 0) a.window.rotary_dim = 32;
  align(a.experts);
  return a;
}

}  // namespace

std::vector<TinyModel> aligned_models() {
  std::vector<TinyModel> models = tiny_models();
  for (TinyModel& model : models) model.architecture = aligned(model.architecture);
  return models;
}

model::LayerContext aligned_context(const TinyModel& model, model::Precision precision) {
  model::LayerContext context = tiny_context(model, {.precision = precision});
  context.sequence_length = aligned_sequence_length;
  context.tokens = 2 * aligned_sequence_length;
  return context;
}

}  // namespace plumbline::tests
