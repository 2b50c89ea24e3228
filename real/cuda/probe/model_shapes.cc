#include "real/cuda/probe/model_shapes.h"

namespace plumbline::real::cuda {

namespace {

constexpr std::int64_t deepseek_tokens = 4096, deepseek_hidden = 7168;
constexpr std::int64_t llama_tokens = 8192;

Case row_kernel(const std::string& op, const std::string& name, std::int64_t rows, std::int64_t columns) {
  Case value;
  value.op = op;
  value.name = name;
  value.rows = rows;
  value.columns = columns;
  return value;
}

Case optimizer(const std::string& name, std::int64_t elements) {
  Case value;
  value.op = "adamw";
  value.name = name;
  value.elements = elements;
  return value;
}

std::vector<Case> both_ways(Case attention) {
  attention.op = "attention";
  attention.format = "bf16";
  attention.phase = "F";
  Case backward = attention;
  backward.phase = "B";
  return {attention, backward};
}

}  // namespace

std::vector<Linear> deepseek_v3_linears() {
  const std::string model = "deepseek-v3/";
  const std::int64_t t = deepseek_tokens, h = deepseek_hidden;
  const std::int64_t heads = 128, query_latent = 1536, latent = 512, nope = 128, rope = 64, value = 128;
  const std::int64_t expert = 2048, dense = 18432;
  return {
      {model + "q_b", t, heads * (nope + rope), query_latent},
      {model + "experts_gate_up", 8192, 2 * expert, h, 4},
      {model + "experts_down", 8192, h, expert, 4},
      {model + "o", t, h, heads * value},
      {model + "kv_b", t, heads * (nope + value), latent},
      {model + "q_a", t, query_latent, h},
      {model + "kv_a", t, latent + rope, h},
      {model + "q_a_kv_a", t, query_latent + latent + rope, h},
      {model + "shared_gate_up", t, 2 * expert, h},
      {model + "shared_down", t, h, expert},
      {model + "dense_gate_up", t, 2 * dense, h},
      {model + "dense_down", t, h, dense},
      {model + "router", t, 256, h},
      {model + "head", t, 129280, h},
  };
}

std::vector<Llama> llama_3_models() {
  return {{"llama-3-70b", 8192, 28672}, {"llama-3-8b", 4096, 14336}, {"llama-3-405b", 16384, 53248}};
}

std::vector<Linear> llama_3_linears(const Llama& model) {
  const std::string prefix = model.name + "/";
  const std::int64_t t = llama_tokens, h = model.hidden, head_dim = 128, key_value_heads = 8;
  return {{prefix + "qkv", t, h + 2 * key_value_heads * head_dim, h},
          {prefix + "o", t, h, h},
          {prefix + "gate_up", t, 2 * model.intermediate, h},
          {prefix + "down", t, h, model.intermediate},
          {prefix + "head", t, 128256, h}};
}

Case gemm_case(const Linear& layer, const std::string& phase, const std::string& format) {
  Case value;
  value.op = "gemm";
  value.name = layer.name;
  value.phase = phase;
  value.format = format;
  value.groups = layer.groups;
  value.m = phase == "W" ? layer.out : layer.tokens;
  value.n = phase == "F" ? layer.out : layer.in;
  value.k = phase == "F" ? layer.in : phase == "I" ? layer.out : layer.tokens;
  return value;
}

std::vector<Case> deepseek_v3_memory_bound() {
  const std::string model = "deepseek-v3/";
  const std::int64_t t = deepseek_tokens, h = deepseek_hidden, expert_rows = 32768;  // of 4 experts
  Case permute = row_kernel("permute", model + "permute", t, h);
  permute.top_k = 8;
  return {row_kernel("rmsnorm", model + "norm", t, h),
          row_kernel("quantise", model + "quantise_hidden", t, h),
          row_kernel("swiglu", model + "experts_swiglu", expert_rows, 2048),
          permute,
          optimizer(model + "adamw", std::int64_t{1} << 27),
          row_kernel("quantise", model + "quantise_attention_out", t, 16384),
          row_kernel("quantise", model + "quantise_expert_rows", expert_rows, h),
          row_kernel("rmsnorm", model + "q_norm", t, 1536),
          row_kernel("rmsnorm", model + "kv_norm", t, 512),
          row_kernel("swiglu", model + "shared_swiglu", t, 2048),
          row_kernel("swiglu", model + "dense_swiglu", t, 18432)};
}

std::vector<Case> llama_3_memory_bound(const Llama& model) {
  return {row_kernel("rmsnorm", model.name + "/norm", llama_tokens, model.hidden),
          row_kernel("swiglu", model.name + "/swiglu", llama_tokens, model.intermediate)};
}

std::vector<Case> deepseek_v3_attention() {
  Case attention;
  attention.name = "deepseek-v3/attention";
  attention.length = deepseek_tokens;
  attention.heads = 128;
  attention.qk_dim = 128 + 64;
  attention.v_dim = 128;
  return both_ways(attention);
}

std::vector<Case> llama_3_attention(const Llama& model) {
  Case attention;
  attention.name = model.name + "/attention";
  attention.length = llama_tokens;
  attention.qk_dim = attention.v_dim = 128;
  attention.heads = model.hidden / attention.qk_dim;
  attention.kv_heads = 8;
  return both_ways(attention);
}

}  // namespace plumbline::real::cuda
