// Graphs of passes of inference against published and derived figures: bytes of keys and values, work of latent
// attention, experts that have rows, bytes on the wire, weights of a rank.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>

#include "model/cost/work.h"
#include "model/layers/blocks.h"
#include "model/layers/key_value_cache.h"
#include "model/memory/memory.h"
#include "tests/support/architectures.h"
#include "tests/support/costs.h"

namespace plumbline::tests {
namespace {

using model::BlockKind;
using model::DataType;
using model::Graph;
using model::LayerContext;
using model::Operator;
using model::OperatorKind;
using model::Precision;

LayerContext decode_context(const std::string& name, std::int64_t requests, double context_tokens,
                            std::int64_t new_tokens = 1) {
  LayerContext c;
  c.architecture = architecture(name);
  c.gemm = c.dispatch = Precision::fp8;
  c.tokens = requests * new_tokens;
  c.groups_per_token = c.architecture.experts.groups_per_token;
  c.dispatcher = model::Dispatcher::low_latency;
  c.inference = {.kind = model::InferencePass::Kind::decode,
                 .requests = requests,
                 .new_tokens = new_tokens,
                 .cached_tokens = context_tokens - static_cast<double>(new_tokens)};
  return c;
}

std::int64_t count(const Graph& graph, OperatorKind kind) {
  return std::ranges::count(graph.operators, kind, &Operator::kind);
}

double bytes_per_token(const std::string& name, DataType type = DataType::bf16) {
  return cache_bytes(architecture(name), type, 1, 1);
}

TEST(KeyValueCache, BytesOfATokenFollowFromTheArchitecture) {
  // arXiv 2505.09343, table 1: DeepSeek-V3, Qwen2.5-72B, LLaMA-3.1 405B. Latent: layers * (512 + 64) * 2 B; grouped
  // queries: 2 * layers * key-value heads * head dimension * 2 B.
  EXPECT_EQ(bytes_per_token("deepseek-v3"), 70272);
  EXPECT_EQ(bytes_per_token("qwen2.5-72b"), 327680);
  EXPECT_EQ(bytes_per_token("llama-3-405b"), 516096);
  EXPECT_EQ(bytes_per_token("deepseek-v2"), 69120);
  EXPECT_EQ(bytes_per_token("deepseek-v2", DataType::int6), 25920);
  EXPECT_EQ(bytes_per_token("llama-3-70b"), 327680);
  EXPECT_EQ(bytes_per_token("deepseek-67b"), 389120);
  EXPECT_EQ(bytes_per_token("gpt-oss-120b"), 73728);
  EXPECT_EQ(bytes_per_token("qwen3-235b-a22b"), 192512);
  EXPECT_EQ(bytes_per_token("llama-3-8b"), 131072);
}

TEST(KeyValueCache, WindowedLayersKeepTheirWindow) {
  // 18 full layers of 4,096 tokens and 18 of min(4096, 128), of 2 * 8 * 64 * 2 B = 2,048 B each.
  EXPECT_EQ(cache_bytes(architecture("gpt-oss-120b"), DataType::bf16, 1, 4096), 18 * 4096 * 2048.0 + 18 * 128 * 2048.0);
  const Graph layer = make_block(BlockKind::windowed_moe_layer, decode_context("gpt-oss-120b", 2, 4096));
  const model::CachedAttentionWork work =
      cached_attention_work(layer, only(layer, OperatorKind::cached_attention), true);
  EXPECT_EQ(work.keys, 128);
  EXPECT_EQ(work.pairs_per_query, 128);
}

TEST(KeyValueCache, TensorParallelismDividesHeadsButNoLatent) {
  const model::Architecture llama = architecture("llama-3-70b"), deepseek = architecture("deepseek-v3");
  EXPECT_EQ(cache_bytes(llama, DataType::bf16, 8, 1), 327680 / 8.0);
  EXPECT_EQ(cache_bytes(llama, DataType::bf16, 16, 1), 327680 / 8.0);  // two ranks hold the same head
  EXPECT_EQ(cache_bytes(deepseek, DataType::bf16, 8, 1), 70272);
}

// Queries of a pass see the keys up to their own. Of 3 queries after 5 tokens: 6, 7 and 8 keys; in a window of 7: 6, 7
// and 7, from 8 keys.
TEST(CachedAttention, CountsTheKeysOfEveryQuery) {
  LayerContext c = decode_context("llama-3-8b", 1, 8, 3);
  const auto work = [&](bool windowed, bool causal) {
    const Graph layer = make_block(windowed ? BlockKind::windowed_dense_layer : BlockKind::dense_layer, c);
    return cached_attention_work(layer, only(layer, OperatorKind::cached_attention), causal);
  };
  EXPECT_DOUBLE_EQ(work(false, true).pairs_per_query, 7);
  EXPECT_DOUBLE_EQ(work(false, false).pairs_per_query, 8);
  c.architecture.window.tokens = 7;
  EXPECT_DOUBLE_EQ(work(true, true).pairs_per_query, 20.0 / 3);
  EXPECT_DOUBLE_EQ(work(true, true).keys, 8);
}

TEST(LatentAttention, AbsorbedWorkIsThatOfFlashMla) {
  // FLOPs 2 B q H L (576 + 512), bytes B L 1152 of BF16.
  const auto of = [](const LayerContext& c) {
    const Graph layer = make_block(BlockKind::moe_layer, c);
    const Operator& op = only(layer, OperatorKind::cached_attention);
    const model::CachedAttentionWork work = cached_attention_work(layer, op, false);
    return std::pair(flops(layer, op, 1, false).value(), work.requests * work.keys * work.key_value_bytes);
  };
  const auto [flop, bytes] = of(decode_context("deepseek-v3", 1, 1000));
  EXPECT_DOUBLE_EQ(flop / 1000, 278528);
  EXPECT_NEAR(flop / bytes, 241.778, 5e-4);
  LayerContext divided = decode_context("deepseek-v3", 1, 1000);
  divided.tensor = 8;
  const auto [flop_of_rank, bytes_of_rank] = of(divided);
  EXPECT_NEAR(flop_of_rank / bytes_of_rank, 30.2222, 5e-5);
  const auto [flop_of_two, bytes_of_two] = of(decode_context("deepseek-v3", 64, 4096, 2));
  EXPECT_NEAR(flop_of_two, 1.46029e11, 5e5);
  EXPECT_NEAR(bytes_of_two, 3.0199e8, 5e3);
}

TEST(Experts, ExpectedNumberThatHasRows) {
  // E (1 - (1 - k / E)^T)
  EXPECT_NEAR(decode_context("deepseek-v3", 16, 1).experts_hit(), 101.962, 5e-4);
  EXPECT_NEAR(decode_context("deepseek-v3", 64, 1).experts_hit(), 222.442, 5e-4);
  EXPECT_NEAR(decode_context("gpt-oss-120b", 16, 1).experts_hit(), 50.9811, 5e-5);
  // The tokens of all ranks choose: 144 ranks with 4 tokens each hit nearly every one of 2 slots.
  LayerContext c = decode_context("deepseek-v3", 4, 1);
  c.redundant_experts = 32;
  c.expert_parallel = 144;
  EXPECT_NEAR(c.experts_hit(), 2 * (1 - std::pow(1 - 8 / 288.0, 576)), 1e-12);
  const Graph layer = make_block(BlockKind::moe_layer, c);
  const Operator& gemm = only(layer, OperatorKind::grouped_matmul);
  EXPECT_EQ(std::get<model::MatmulAttributes>(gemm.attributes).groups_hit, c.experts_hit());
  EXPECT_EQ(gemm_shape(layer, gemm, 1).groups, c.experts_hit());
}

TEST(Experts, CopiesFillTheSlotsOfRanks) {
  // open-infra-index, day 6: decode has 2 routed experts a GPU, prefill 9.
  LayerContext c = decode_context("deepseek-v3", 1, 1);
  c.redundant_experts = 32;
  c.expert_parallel = 144;
  EXPECT_EQ(c.experts_per_rank(), 2);
  c.expert_parallel = 32;
  EXPECT_EQ(c.experts_per_rank(), 9);
}

TEST(Experts, LowLatencyMessagesHaveAHeader) {
  // 128 tokens of 8 copies: FP8 with FP32 scales of 128 elements and 16 B there, BF16 back (DeepEP).
  LayerContext c = decode_context("deepseek-v3", 128, 4096);
  c.expert_parallel = 128;
  const Graph layer = make_block(BlockKind::moe_layer, c);
  const auto sent = [&](OperatorKind kind) {
    return 128 * 8 * std::get<model::DispatchAttributes>(only(layer, kind).attributes).token_bytes;
  };
  EXPECT_EQ(sent(OperatorKind::dispatch), 7585792);
  EXPECT_EQ(sent(OperatorKind::combine), 14680064);
}

bool is_matrix(const model::Tensor& tensor) { return tensor.role == model::Role::parameter && tensor.shape.size() > 1; }

TEST(DeepSeekV3, ParametersOfAttention) {
  for (const auto kind : {model::InferencePass::Kind::prefill, model::InferencePass::Kind::decode}) {
    LayerContext c = decode_context("deepseek-v3", 1, 1);
    c.inference.kind = kind;
    double sum = 0;
    for (const model::Tensor& tensor : make_block(BlockKind::dense_layer, c).tensors)
      if (is_matrix(tensor) && tensor.name != "gate_up" && tensor.name != "down") sum += tensor.elements();
    EXPECT_NEAR(sum, 1.87105e8, 5e2);
  }
}

std::map<BlockKind, double> deepseek_layers() { return {{BlockKind::dense_layer, 3}, {BlockKind::moe_layer, 58}}; }

TEST(DeepSeekV3, FlopsOfPrefillPerToken) {
  LayerContext c = decode_context("deepseek-v3", 1, 4096, 4096);
  c.inference.kind = model::InferencePass::Kind::prefill;
  double active = 0, flop = 0;
  for (const auto& [kind, layers] : deepseek_layers()) {
    const Graph layer = make_block(kind, c);
    for (const model::Tensor& tensor : layer.tensors)
      if (is_matrix(tensor)) active += layers * tensor.elements() * (tensor.expert ? 8.0 / 256 : 1);
    for (const Operator& op : layer.operators) flop += layers * flops(layer, op, 1, true).value();
  }
  EXPECT_NEAR(active, 3.56979e10, 5e4);
  EXPECT_NEAR(flop / 4096, 8.16299e10, 5e5);
}

TEST(DeepSeekV3, WeightsOfARankThatDecodes) {
  LayerContext c = decode_context("deepseek-v3", 1, 4096);
  c.expert_parallel = 144;
  c.redundant_experts = 32;
  std::map<BlockKind, double> blocks = deepseek_layers();
  blocks[BlockKind::embedding] = blocks[BlockKind::head] = 1;
  double counted = 0, left_out = 0, held = 0;
  for (const auto& [kind, times] : blocks) {
    const Graph block = make_block(kind, c);
    held += times * weight_bytes(block).value();
    for (const model::Tensor& tensor : block.tensors) {
      if (tensor.role != model::Role::parameter) continue;
      const bool gemm = is_matrix(tensor) && tensor.name != "router";
      const double plain = tensor.elements() * (tensor.type == DataType::fp8_block ? 1 : 2);
      (gemm ? counted : left_out) += times * plain;
    }
  }
  // The figure leaves out gates, gains of norms and scales of blocks.
  EXPECT_NEAR(counted, 23.9722e9, 5e4);
  EXPECT_NEAR(left_out, 58 * 256 * 7168 * 2.0, 3e6);
  EXPECT_NEAR(held, counted + left_out + (counted - 2 * 2 * 129280 * 7168.0) * 4 / (128 * 128), 1);
}

TEST(TensorParallelism, SumsTwiceALayerAndGathersLogits) {
  for (const char* name : {"llama-3-70b", "qwen2-57b-a14b"}) {
    LayerContext c = decode_context(name, 16, 100);
    c.inference.shared_tokens = true;
    const BlockKind layer = layer_kind(c.architecture, 0);
    EXPECT_EQ(count(make_block(layer, c), OperatorKind::all_reduce), 0) << name;
    c.tensor = c.expert_tensor = 4;
    EXPECT_EQ(count(make_block(layer, c), OperatorKind::all_reduce), 2) << name;
    EXPECT_EQ(count(make_block(layer, c), OperatorKind::dispatch), 0) << name;
    EXPECT_EQ(count(make_block(BlockKind::head, c), OperatorKind::all_gather), 1) << name;
  }
}

TEST(Weights, AreStoredAsGemmsReadThem) {
  const std::map<Precision, DataType> formats = {
      {Precision::fp8, DataType::fp8_block}, {Precision::fp8_tensor, DataType::fp8},
      {Precision::bf16, DataType::bf16},     {Precision::fp16, DataType::fp16},
      {Precision::nvfp4, DataType::nvfp4},   {Precision::mxfp4, DataType::mxfp4}};
  for (const auto& [precision, stored] : formats)
    for (const bool weights_only : {false, true}) {
      LayerContext c = decode_context("deepseek-v3", 8, 100);
      c.gemm = precision;
      c.inference.weights_only = weights_only;
      const Graph layer = make_block(BlockKind::moe_layer, c);
      const bool narrow = bytes_per_element(stored) < 1;
      for (const Operator& op : layer.operators) {
        if (op.name.starts_with("experts_") && op.kind == OperatorKind::grouped_matmul) {
          const DataType operand = layer.tensor(op.reads[0]).type;
          EXPECT_EQ(operand, weights_only && is_quantized(precision) ? DataType::bf16 : activation_type(precision));
          EXPECT_EQ(layer.tensor(op.reads[1]).type, stored);
        }
        // Experts in 4 bits leave the projections of attention in 16.
        if (op.name == "o") {
          EXPECT_EQ(layer.tensor(op.reads[1]).type, narrow ? DataType::bf16 : stored);
        }
        for (const model::TensorId id : op.reads)
          EXPECT_FALSE(op.kind == OperatorKind::cast && layer.tensor(id).role == model::Role::parameter) << op.name;
      }
    }
}

// x [4, 8] is read by both GEMM-free operators; a + x lives until the end.
TEST(Activations, LiveFromWriterToLastReader) {
  model::GraphBuilder b("block");
  const auto add = [&](const char* name) { return b.activation(name, {{4}, {8}}, DataType::fp32); };
  const model::TensorId x = b.input("x", {{4}, {8}}, DataType::fp32), a = add("a"), y = add("y"),
                        unread = add("unread");
  b.emit(OperatorKind::add, "first", {x}, {a, unread});
  b.emit(OperatorKind::add, "second", {a}, {y});
  const Graph graph = b.finish(x, y, {});
  constexpr double tensor = 4 * 8 * 4;
  EXPECT_EQ(activation_bytes(graph).value(), 3 * tensor);  // x, a and what nobody reads
}

}  // namespace
}  // namespace plumbline::tests
