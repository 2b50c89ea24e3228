// Layers with a recurrence against counts derived here: products of the published chunk algorithms, parameters and
// FLOPs of whole models, tensors kept for the backward pass, and what a decoded token moves.
#include "model/layers/recurrence.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "model/architecture/metrics.h"
#include "model/cost/kernel_cost.h"
#include "model/cost/work.h"
#include "model/layers/blocks.h"
#include "model/layers/key_value_cache.h"
#include "model/memory/slot_memory.h"
#include "model/plan/layout.h"
#include "model/plan/plan.h"
#include "tests/support/architectures.h"
#include "tests/support/costs.h"

namespace plumbline::model {
namespace {

using tests::architecture;
using tests::decoding;
using tests::only;
using tests::training;
using Kind = InferencePass::Kind;

constexpr double bandwidth = 3.35e12, peak = 989e12;  // of the H800's datasheet

struct Product {
  double m, n, k;
};
double flops_of(const std::vector<Product>& products) {
  double sum = 0;
  for (const Product& p : products) sum += 2 * p.m * p.n * p.k;
  return sum;
}

// The kernels of chunk_gated_delta_rule_fwd on one head and chunk of 64 tokens, keys and values of 128, and a
// triangular inverse of 64 x 64.
TEST(Scan, OfTheDeltaRuleHasTheProductsOfItsKernels) {
  const std::vector<Product> products = {
      {64, 64, 128},   // keys with keys
      {64, 128, 64},   // w
      {64, 128, 64},   // u
      {64, 128, 128},  // w times the state
      {128, 128, 64},  // keys times new values
      {64, 128, 128},  // queries times the state
      {64, 64, 128},   // queries with keys
      {64, 128, 64}    // their scores times new values
  };
  const LayerContext c = training("qwen3-next-80b-a3b", 4096);
  const Graph layer = make_block(BlockKind::recurrent_moe_layer, c);
  const double chunks_and_heads = 4096.0 / 64 * 32;
  for (const bool causal : {true, false})
    EXPECT_DOUBLE_EQ(flops(layer, only(layer, OperatorKind::scan), 1, causal).value(),
                     chunks_and_heads * (flops_of(products) + 64.0 * 64 * 64 / 3));
}

// The kernels of chunk_kda_fwd on one head and chunk of 64 tokens, keys and values of 128. Scores are of tiles of 16 x
// 16, of which those on and below the diagonal are 4 + 3 + 2 + 1.
TEST(Scan, OfTheDeltaRuleByChannelsHasTheProductsOfItsKernels) {
  const std::vector<Product> products = {
      {64, 128, 64},   // w
      {64, 128, 64},   // u
      {64, 128, 128},  // w times the state
      {128, 128, 64},  // keys times new values
      {64, 128, 128},  // queries times the state
      {64, 128, 64}    // scores times new values
  };
  const Graph layer = make_block(BlockKind::recurrent_moe_layer, training("kimi-linear-48b-a3b", 4096));
  const Operator& scan = only(layer, OperatorKind::scan);
  const double both = 2 * flops_of({{16, 16, 128}}), inverse = 64.0 * 64 * 64 / 3;  // keys with keys and with queries
  for (const auto& [causal, tiles] : {std::pair{true, 10}, {false, 16}})
    EXPECT_DOUBLE_EQ(flops(layer, scan, 1, causal).value(),
                     4096.0 / 64 * 32 * (flops_of(products) + tiles * both + inverse));
  // Each of the kernels reads and writes at least its operands once: normalised queries and keys, decays and their sums
  // in FP32, two score matrices, w, u and keys with their decays, states and new values, the output.
  const double least = 2 * (4 * 128 + 128 + 2 * 64 + 3 * 128 + 2 * 128 + 128.0 * 128 / 64) + 4 * 128;
  EXPECT_GT(bytes_moved(layer, scan, 1).value(), 4096 * 32 * least);
}

// The steps of _mamba_chunk_scan_combined_fwd on chunks of 256 tokens: scores of the one group, their product with the
// values of 128 heads of 64, of which tiles of 64 rows leave out what is above the diagonal, and two with states.
TEST(Scan, OfAStateSpaceHasTheProductsOfItsKernels) {
  const LayerContext c = training("granite-4.0-h-small", 4096);
  const Graph layer = make_block(BlockKind::recurrent_moe_layer, c);
  const double states = 2 * 2.0 * 256 * 64 * 128, scores = 2.0 * 256 * 256 * 128;
  const double tiles = 4 * (1 + 2 + 3 + 4) / 4.0;  // of 16, of 64 x 64
  const double values = 2.0 * 64 * 64 * 64 * tiles, all_values = 2.0 * 256 * 256 * 64;
  const Operator& scan = only(layer, OperatorKind::scan);
  EXPECT_DOUBLE_EQ(flops(layer, scan, 1, true).value(), 4096 / 256 * (scores + 128 * (values + states)));
  EXPECT_DOUBLE_EQ(flops(layer, scan, 1, false).value(), 4096 / 256 * (scores + 128 * (all_values + states)));
}

// The four kernels of LightningAttention2Parallel on one head and chunk of 256 tokens, keys and values of 128; of the
// scores, in tiles of 64, those on and below the diagonal are 4 + 3 + 2 + 1.
TEST(Scan, OfAConstantDecayHasTheProductsOfItsKernels) {
  const Graph layer = make_block(BlockKind::recurrent_moe_layer, training("minimax-m1", 4096));
  const double states = flops_of({{128, 128, 256}, {256, 128, 128}});  // keys times values, queries times the state
  const double tile = flops_of({{64, 64, 128}, {64, 128, 64}});        // scores, scores times values
  EXPECT_DOUBLE_EQ(flops(layer, only(layer, OperatorKind::scan), 1, true).value(),
                   4096.0 / 256 * 64 * (states + 10 * tile));
  // Backward: twice the gradient of scores, the scores again, and each times queries, keys and the result's gradient;
  // the gradient of the state, and three products with states.
  EXPECT_DOUBLE_EQ(flops(layer, only(layer, OperatorKind::scan_grad), 1, true).value(),
                   4096.0 / 256 * 64 * (2 * states + 10 * 3 * tile));
  EXPECT_EQ(std::ranges::count(layer.tensors, std::string("convolution"), &Tensor::name), 0);  // SiLU alone
  EXPECT_EQ(layer.tensor(only(layer, OperatorKind::scan_grad).reads.back()).shape[1].size, 64 * 2 * 128 * 128 / 256);
}

// Of a state of 16 entries for each of 8192 channels: its decay and the decay's exponential, what is added to it, twice
// the associative operation of three, and the one with the query, which is summed. Backward the same but for the
// last two, another scan, and what follows from it.
TEST(Scan, OfChannelsHasTheOperationsOfItsLoops) {
  const Graph layer = make_block(BlockKind::recurrent_dense_layer, training("jamba-1.5-mini", 4096));
  const double entries = 4096.0 * 8192 * 16;
  const double forward = 2 + 1 + 2 * 3 + 2;
  const double gradients =
      1 + 2 + 3 + 5 + 3 + 2 + 1 + 2;  // by key, of values, states, steps, decays, keys, queries; sums
  const Operator& scan = only(layer, OperatorKind::scan);
  const Operator& backward = only(layer, OperatorKind::scan_grad);
  for (const bool causal : {true, false}) {
    EXPECT_DOUBLE_EQ(flops(layer, scan, 1, causal).value(), entries * forward);
    EXPECT_DOUBLE_EQ(flops(layer, backward, 1, causal).value(), entries * (2 + 2 + 1 + 2 * (2 * 3) + gradients));
  }
  // Values, steps, gates, the result and the gated one; the copies of all but one of these are read and written.
  EXPECT_GT(bytes_moved(layer, scan, 1).value(), 4096 * 8192.0 * 2 * (5 + 2 * 4));
  EXPECT_LT(bytes_moved(layer, scan, 1).value(), 4096 * 8192.0 * 2 * (5 + 2 * 4) * 1.01);
}

// No tensor core takes part: the lanes of an SM add their time to that of the bytes.
TEST(Scan, OfChannelsTakesTheTimeOfItsLanes) {
  std::vector<Parameter> parameters = tests::profile("h800").parameters();
  parameters.push_back({.name = "scan.lane_time", .value = 7, .unit = "ps"});
  const Profile profile("with lanes", "", parameters);
  const KernelCost cost = KernelCost::make(profile, tests::h800_device()).value();
  const Graph layer = make_block(BlockKind::recurrent_dense_layer, training("jamba-1.5-mini", 8192));
  for (const OperatorKind kind : {OperatorKind::scan, OperatorKind::scan_grad}) {
    const Operator& scan = only(layer, kind);
    const KernelTime time = cost.time(layer, scan, {.sms = 132});
    const double lanes = flops(layer, scan, 1, true).value() * 7e-12 / 132;
    const Share& share = time.shares[7];
    EXPECT_EQ(profile.parameters()[static_cast<std::size_t>(share.index)].name, "scan.lane_time");
    EXPECT_GE(share.seconds, lanes);
    EXPECT_GT(time.seconds, bytes_moved(layer, scan, 1).value() / bandwidth + lanes);
    EXPECT_GE(time.seconds, cost.best(layer, scan));
  }
}

// Three passes over every matrix that a token meets, causal attention over S / 2 keys, and the scans.
TEST(Metrics, TrainingFlopsOfHybridsFollowFromTheirDimensions) {
  constexpr double s = 4096, h = 2048;
  const double attention = h * (2 * 16 + 2 * 2) * 256 + 16 * 256 * h;  // queries, gates, keys, values; output
  const double delta = h * (2 * 16 * 128 + 2 * 32 * 128 + 2 * 32) + 32 * 128 * h;
  const double experts = h * 512 + 11 * 3 * h * 512 + h;
  const double scan = 32 * (64 * (6.0 * 128 + 4 * 128) + 6 * 128 * 128 + 64 * 64 / 3.0);
  const double qwen = 6 * (12 * attention + 36 * delta + 48 * experts + 151936 * h) +
                      3 * (12 * 2 * (256 + 256) * 16 * s / 2 + 36 * scan);
  EXPECT_NEAR(model_metrics(architecture("qwen3-next-80b-a3b"), 4096).flops_per_token_causal, qwen, 1e-9 * qwen);

  // Latent attention of queries and keys of 192 and values of 128; gates of rank 128, strengths of 32 heads.
  constexpr double k = 2304;
  const double latent = k * 32 * 192 + k * 576 + 512 * 32 * 256 + 4096 * k;
  const double kimi_delta = k * (3 * 4096 + 32) + 2 * (k * 128 + 128 * 4096) + 4096 * k;
  const double by_channels = 32 * (4 * 40 * 128 + 64 * (2.0 * 128 + 4 * 128) + 6 * 128 * 128 + 64 * 64 / 3.0);
  const double kimi =
      6 * (7 * latent + 20 * kimi_delta + 26 * (k * 256 + 9 * 3 * k * 1024) + 3 * k * 9216 + 163840 * k) +
      3 * (7 * 2 * (192 + 128) * 32 * s / 2 + 20 * by_channels);
  EXPECT_NEAR(model_metrics(architecture("kimi-linear-48b-a3b"), 4096).flops_per_token_causal, kimi, 1e-9 * kimi);

  // The same with whole gates, and in latent attention a gate of each head.
  constexpr double g = 2560;
  const double gated = g * 32 * 192 + g * 576 + 512 * 32 * 256 + 4096 * g + g * 32;
  const double whole_gates = g * (5 * 4096 + 32) + 4096 * g;
  const double ling =
      6 * (7 * gated + 35 * whole_gates + 40 * (g * 512 + 9 * 3 * g * 768) + 2 * 3 * g * 6144 + 157184 * g) +
      3 * (7 * 2 * (192 + 128) * 32 * s / 2 + 35 * by_channels);
  EXPECT_NEAR(model_metrics(architecture("ling-3.0-flash-124b-a5b"), 4096).flops_per_token_causal, ling, 1e-9 * ling);

  constexpr double m = 6144;
  const double lightning = m * 4 * 8192 + 8192 * m, softmax = m * (64 + 2 * 8) * 128 + 8192 * m;
  const double constant = 64 * (2 * 160 * 256 + 4 * 128 * 128.0);
  const double minimax = 6 * (70 * lightning + 10 * softmax + 80 * (m * 32 + 2 * 3 * m * 9216) + 200064 * m) +
                         3 * (10 * 2 * (128 + 128) * 64 * s / 2 + 70 * constant);
  EXPECT_NEAR(model_metrics(architecture("minimax-m1"), 4096).flops_per_token_causal, minimax, 1e-9 * minimax);

  // Lightning attention of 16 heads in 16 of 20 layers, the first of which has an MLP.
  const double decaying = 4 * h * h + h * h, four_keys = h * (16 + 2 * 4) * 128 + h * h;
  const double ring =
      6 * (16 * decaying + 4 * four_keys + 3 * h * 5120 + 19 * (h * 256 + 9 * 3 * h * 512) + 157184 * h) +
      3 * (4 * 2 * (128 + 128) * 16 * s / 2 + 16 * 16 * (2 * 160 * 256 + 4 * 128 * 128.0));
  EXPECT_NEAR(model_metrics(architecture("ring-mini-linear-2.0"), 4096).flops_per_token_causal, ring, 1e-9 * ring);

  // Three projections and one back in 18 layers, attention in 6; 2 of the MLPs are dense, 4 of 32 experts in the
  // others.
  const double short_convolution = 4 * h * h, heads = h * (32 + 2 * 8) * 64 + h * h;
  const double lfm2 =
      6 * (18 * short_convolution + 6 * heads + 2 * 3 * h * 7168 + 22 * (h * 32 + 4 * 3 * h * 1792) + 65536 * h) +
      3 * (6 * 2 * (64 + 64) * 32 * s / 2);
  EXPECT_NEAR(model_metrics(architecture("lfm2-8b-a1b"), 4096).flops_per_token_causal, lfm2, 1e-9 * lfm2);

  // In 28 of 32 layers values and gates, time steps by way of 256 columns, and keys and queries of 16; every second
  // layer has two of 16 experts.
  constexpr double j = 4096, channels = 8192;
  const double mamba1 = 2 * j * channels + channels * (256 + 2 * 16) + 256 * channels + channels * j;
  const double grouped = j * (32 + 2 * 8) * 128 + j * j;
  const double jamba =
      6 * (28 * mamba1 + 4 * grouped + 16 * 3 * j * 14336 + 16 * (j * 16 + 2 * 3 * j * 14336) + 65536 * j) +
      3 * (4 * 2 * (128 + 128) * 32 * s / 2 + 28 * 11 * channels * 16);
  EXPECT_NEAR(model_metrics(architecture("jamba-1.5-mini"), 4096).flops_per_token_causal, jamba, 1e-9 * jamba);

  // Nothing but 64 of these.
  const double falcon = 6 * (64 * mamba1 + 65024 * j) + 3 * 64 * 11 * channels * 16;
  EXPECT_NEAR(model_metrics(architecture("falcon-mamba-7b"), 4096).flops_per_token_causal, falcon, 1e-9 * falcon);

  constexpr double n = 2688;
  const double mamba = n * (2 * 4096 + 2 * 8 * 128 + 64) + 4096 * n, queries = n * (32 + 2 * 2) * 128 + 32 * 128 * n;
  const double relu = n * 128 + 6 * 2 * n * 1856 + 2 * n * 3712;
  const double state_space = 2 * 128 * 128 * 8 + 64 * (2 * 96 * 64 + 4 * 64 * 128.0);
  const double nemotron = 6 * (23 * mamba + 6 * queries + 23 * relu + 131072 * n) +
                          3 * (6 * 2 * (128 + 128) * 32 * s / 2 + 23 * state_space);
  EXPECT_NEAR(model_metrics(architecture("nemotron-3-nano-30b-a3b"), 4096).flops_per_token_causal, nemotron,
              1e-9 * nemotron);
}

// In 16 bits: input of the layer and of the projection 2688 each, queries, keys and values before the convolution 6144,
// which runs again, gate, result, gated result and its norm 4096 each, time steps 64.
TEST(Memory, KeepsWhatTheBackwardPassOfARecurrenceReads) {
  LayerContext c = training("nemotron-3-nano-30b-a3b", 4096);
  const auto kept = [&c] {
    StepProgram program;
    program.blocks = {make_block(BlockKind::recurrent_layer, c)};
    program.stage_kinds = {{{0}}};
    return StageTensors(program, 0).kept_after_forward().value();
  };
  EXPECT_DOUBLE_EQ(kept(), 4096 * 2.0 * (2 * 2688 + 6144 + 4 * 4096 + 64));
  c.recompute = {RecomputeGroup::rmsnorm};  // both norms and the gate run again
  EXPECT_DOUBLE_EQ(kept(), 4096 * 2.0 * (2688 + 6144 + 2 * 4096 + 64));
}

// Inputs of the layer and of its projection, three projected parts, their gated product, the convolution's result and
// that times the last part, 2048 each; between passes of inference the last two products of 18 layers are kept.
TEST(Memory, OfAShortConvolutionHasNoStateButItsInputs) {
  StepProgram program;
  program.blocks = {make_block(BlockKind::recurrent_layer, training("lfm2-8b-a1b", 4096))};
  program.stage_kinds = {{{0}}};
  EXPECT_DOUBLE_EQ(StageTensors(program, 0).kept_after_forward().value(), 4096 * 2.0 * 8 * 2048);
  EXPECT_DOUBLE_EQ(request_state_bytes(architecture("lfm2-8b-a1b")), 18 * 2 * 2.0 * 2048);
}

// Next to what attention and the MLP keep: queries, keys and values before the convolution 3584, gate, result, gated
// result and its norm 3072 each, time steps 24. The input of both is one.
TEST(Memory, OfParallelMixersHasOneInput) {
  const auto kept = [](BlockKind kind) {
    StepProgram program;
    program.blocks = {make_block(kind, training("falcon-h1-7b", 4096))};
    program.stage_kinds = {{{0}}};
    return StageTensors(program, 0).kept_after_forward().value();
  };
  EXPECT_DOUBLE_EQ(kept(BlockKind::parallel_dense_layer) - kept(BlockKind::dense_layer),
                   4096 * 2.0 * (3584 + 4 * 3072 + 24));
}

// Inputs of the layer and of its projections 6144 each, queries, keys and values before and after SiLU 24576, gate,
// result and normalised result 8192 each, and a state of 64 heads in FP32 for each 256 tokens.
TEST(Memory, OfAConstantDecayHasItsStates) {
  StepProgram program;
  program.blocks = {make_block(BlockKind::recurrent_layer, training("minimax-m1", 4096))};
  program.stage_kinds = {{{0}}};
  EXPECT_DOUBLE_EQ(StageTensors(program, 0).kept_after_forward().value(),
                   4096 * 2.0 * (2 * 6144 + 2 * 24576 + 3 * 8192) + 4096 / 256 * 64 * 4.0 * 128 * 128);
}

// Inputs of the layer and of its projection 4096 each; values, gates, values behind the convolution, time steps and the
// result 8192 each; what steps, keys and queries are of before and after their norms, 288 each; copies of values and
// gates in the order of channels, the result before it is gated, and two factors of each state for each 2048 tokens.
TEST(Memory, OfASelectiveScanHasItsOperandsByChannel) {
  StepProgram program;
  program.blocks = {make_block(BlockKind::recurrent_layer, training("jamba-1.5-mini", 4096))};
  program.stage_kinds = {{{0}}};
  EXPECT_DOUBLE_EQ(StageTensors(program, 0).kept_after_forward().value(),
                   4096 * 2.0 * (2 * 4096 + 5 * 8192 + 2 * 288 + 3 * 8192) + 2 * 8192 * 16 * 2 * 4.0);
}

// A query and a key of 128 for each of 32 value heads, and a row of an inverse of 64 x 64.
TEST(Memory, OfTheDeltaRuleHasQueriesAndKeysOfAllValueHeads) {
  const Graph layer = make_block(BlockKind::recurrent_moe_layer, training("qwen3-next-80b-a3b", 4096));
  const TensorId kept = only(layer, OperatorKind::scan_grad).reads.back();
  EXPECT_EQ(layer.tensor(kept).shape[1].size, 32 * (2 * 128 + 64));
  EXPECT_EQ(std::ranges::count(layer.operators, OperatorKind::convolution, &Operator::kind), 1);  // none again
}

// In 16 bits: inputs of the layer and of its projections 2304 each, queries, keys and values before and after the
// convolution 12288, strengths 32, decays 4096, two latents of gates of 128, output gates, result and normalised result
// 4096 each; of 32 heads normalised queries and keys, and scores and an inverse of 64 x 64.
TEST(Memory, OfTheDeltaRuleByChannelsHasItsGates) {
  StepProgram program;
  program.blocks = {make_block(BlockKind::recurrent_layer, training("kimi-linear-48b-a3b", 4096))};
  program.stage_kinds = {{{0}}};
  EXPECT_DOUBLE_EQ(StageTensors(program, 0).kept_after_forward().value(),
                   4096 * 2.0 * (2 * 2304 + 2 * 12288 + 32 + 4096 + 2 * 128 + 3 * 4096 + 32 * (2 * 128 + 2 * 64)));
}

// Attention and a recurrence read the same input: FLOPs, keys and values and states of a layer are the sums of both.
TEST(Recurrence, NextToAttentionAddsToTheSameStream) {
  constexpr double s = 4096, h = 3072;
  const Architecture model = architecture("falcon-h1-7b");
  const double attention = h * (12 + 2 * 2) * 128 + 12 * 128 * h, mlp = 3 * h * 12288;
  const double mamba = h * (2 * 3072 + 2 * 256 + 24) + 3072 * h;
  const double scan = 2 * 128 * 256 + 24 * (2 * 96 * 128 + 4 * 256 * 128.0);  // scores of one group, of 128 x 128
  const double falcon =
      6 * (44 * (attention + mamba + mlp) + 130048 * h) + 3 * 44 * (2 * (128 + 128) * 12 * s / 2 + scan);
  EXPECT_NEAR(model_metrics(model, 4096).flops_per_token_causal, falcon, 1e-9 * falcon);
  EXPECT_EQ(layer_kind(model, 0), BlockKind::parallel_dense_layer);
  EXPECT_DOUBLE_EQ(cache_bytes(model, DataType::bf16, 1, 1), 44 * 2 * 2 * 128 * 2);
  EXPECT_DOUBLE_EQ(request_state_bytes(model), 44 * (24 * 256 * 128 * 4 + 3 * (3072 + 2 * 256) * 2.0));

  const Graph layer = make_block(BlockKind::parallel_dense_layer, training("falcon-h1-7b", 4096));
  const auto sum = std::ranges::find(layer.operators, "attention_residual", &Operator::name);
  ASSERT_NE(sum, layer.operators.end());
  EXPECT_EQ(sum->reads.size(), 3u);  // one kernel adds both to the stream
  const Graph decoded = make_block(BlockKind::parallel_dense_layer, decoding("falcon-h1-7b", 8));
  EXPECT_EQ(std::ranges::count(decoded.operators, OperatorKind::cached_attention, &Operator::kind), 1);
  EXPECT_EQ(std::ranges::count(decoded.operators, OperatorKind::scan_step, &Operator::kind), 1);
}

TEST(Recurrence, LayersOfEveryPatternAreWellFormed) {
  for (const char* name : {"qwen3-next-80b-a3b", "qwen3.5-35b-a3b", "kimi-linear-48b-a3b", "ling-3.0-flash-124b-a5b",
                           "nemotron-3-nano-30b-a3b", "granite-4.0-h-small", "falcon-h1-7b", "minimax-m1",
                           "jamba-1.5-mini", "falcon-mamba-7b", "codestral-mamba-7b"})
    for (const std::int64_t tensor : {1, 4})
      for (const bool decodes : {false, true}) {
        LayerContext c = decodes ? decoding(name, 4) : training(name, 4096);
        c.tensor = tensor;
        c.sequence = !decodes && tensor > 1;
        for (std::int64_t layer = 0; layer < c.architecture.layers; ++layer)
          EXPECT_EQ(check(make_block(layer_kind(c.architecture, layer), c)), "") << name << layer;
      }
  EXPECT_EQ(layer_kind(architecture("qwen3-next-80b-a3b"), 2), BlockKind::recurrent_moe_layer);
  EXPECT_EQ(layer_kind(architecture("qwen3-next-80b-a3b"), 3), BlockKind::moe_layer);
  EXPECT_EQ(layer_kind(architecture("kimi-linear-48b-a3b"), 0), BlockKind::recurrent_dense_layer);
  EXPECT_EQ(layer_kind(architecture("kimi-linear-48b-a3b"), 25), BlockKind::recurrent_moe_layer);
  EXPECT_EQ(layer_kind(architecture("kimi-linear-48b-a3b"), 26), BlockKind::moe_layer);  // the last
  EXPECT_EQ(layer_kind(architecture("nemotron-3-nano-30b-a3b"), 5), BlockKind::attention_layer);
  EXPECT_EQ(layer_kind(architecture("nemotron-3-nano-30b-a3b"), 51), BlockKind::experts_layer);
  EXPECT_EQ(layer_kind(architecture("granite-4.0-h-small"), 35), BlockKind::moe_layer);
}

TEST(TensorParallelism, DividesTheHeadsOfARecurrence) {
  const auto weights = [](std::int64_t ranks) {
    LayerContext c = decoding("nemotron-3-nano-30b-a3b", 4);
    c.tensor = ranks;
    double matrices = 0;
    for (const Tensor& tensor : make_block(BlockKind::recurrent_layer, c).tensors)
      if (tensor.role == Role::parameter && tensor.divided) matrices += tensor.elements();
    return matrices;
  };
  LayerContext c = decoding("nemotron-3-nano-30b-a3b", 4);
  const Graph whole = make_block(BlockKind::recurrent_layer, c);
  double all = 0;
  for (const Tensor& tensor : whole.tensors)
    if (tensor.role == Role::parameter && tensor.name != "attention_norm") all += tensor.elements();
  EXPECT_DOUBLE_EQ(weights(8), all / 8);
  c.tensor = 8;
  const Graph part = make_block(BlockKind::recurrent_layer, c);
  EXPECT_EQ(std::ranges::count(part.operators, OperatorKind::all_reduce, &Operator::kind), 1);
  EXPECT_DOUBLE_EQ(state_bytes(c.architecture, 8, Mixer::recurrence),
                   state_bytes(c.architecture, 1, Mixer::recurrence) / 8);
}

// A norm over all heads adds an all-reduce of 4 bytes a token to that behind the output projection, and one backward.
TEST(TensorParallelism, OfANormOverAllHeadsSumsSquares) {
  for (const auto& [name, heads_of_all] :
       {std::pair{"minimax-m1", true}, {"granite-4.0-h-small", true}, {"qwen3-next-80b-a3b", false}}) {
    for (const bool decodes : {true, false}) {
      LayerContext c = decodes ? decoding(name, 4) : training(name, 4096);
      c.tensor = 4;
      const Graph layer = make_block(BlockKind::recurrent_layer, c);
      EXPECT_EQ(check(layer), "") << name;
      double bytes = 0;
      for (const Operator& op : layer.operators)
        if (op.kind == OperatorKind::all_reduce && layer.tensor(op.reads[0]).shape[1].size == 1)
          bytes += layer.tensor(op.reads[0]).bytes().value();
      EXPECT_EQ(bytes, heads_of_all ? (decodes ? 4 * 4 : 2 * 4 * 4096) : 0) << name;
    }
  }
}

// What all channels share is a sum over the ranks of their parts of it: forward next to that behind the output
// projection, backward of the gradients of time steps' latents, keys and queries, and of the layer's input.
TEST(TensorParallelism, OfASelectiveScanSumsWhatItsChannelsShare) {
  for (const bool decodes : {true, false}) {
    LayerContext c = decodes ? decoding("jamba-1.5-mini", 4) : training("jamba-1.5-mini", 4096);
    c.tensor = 8;
    const Graph layer = make_block(BlockKind::recurrent_layer, c);
    EXPECT_EQ(check(layer), "");
    EXPECT_EQ(std::ranges::count(layer.operators, OperatorKind::all_reduce, &Operator::kind), decodes ? 2 : 6);
    EXPECT_DOUBLE_EQ(state_bytes(c.architecture, 8, Mixer::recurrence), 1024 * (16 * 4 + 3 * 2));
  }
}

// A state of 32 heads of 128 x 128 in FP32, and the last three inputs of 8192 columns in BF16.
TEST(Decoding, ATokenReadsAndWritesTheStateHoweverLongItsContext) {
  constexpr double state = 32 * 128 * 128 * 4.0;
  EXPECT_DOUBLE_EQ(state_bytes(architecture("qwen3-next-80b-a3b"), 1, Mixer::recurrence), state + 3 * 8192 * 2);
  EXPECT_DOUBLE_EQ(request_state_bytes(architecture("qwen3-next-80b-a3b")), 36 * (state + 3 * 8192 * 2));
  EXPECT_EQ(request_state_bytes(architecture("deepseek-v3")), 0);
  // Kimi Linear: 20 layers with the same states, and inputs of 12288 columns; Ling 3: 35 of them.
  EXPECT_DOUBLE_EQ(request_state_bytes(architecture("kimi-linear-48b-a3b")), 20 * (state + 3 * 12288 * 2));
  EXPECT_DOUBLE_EQ(request_state_bytes(architecture("ling-3.0-flash-124b-a5b")), 35 * (state + 3 * 12288 * 2));
  const KernelCost cost = KernelCost::make(tests::profile("h800"), tests::h800_device()).value();
  double before = 0;
  for (const std::int64_t requests : {64, 128}) {
    LayerContext c = decoding("qwen3-next-80b-a3b", requests);
    const Graph layer = make_block(BlockKind::recurrent_moe_layer, c);
    const Operator& step = only(layer, OperatorKind::scan_step);
    const double bytes = bytes_moved(layer, step, 1).value(), r = static_cast<double>(requests);
    EXPECT_NEAR(bytes, r * 2 * state, 0.01 * bytes);
    const KernelTime time = cost.time(layer, step, {.sms = 132});
    const double roof = bytes / bandwidth;
    EXPECT_GE(time.seconds - time.gaps, roof);
    EXPECT_LT(time.seconds - time.gaps, 1.25 * roof);
    EXPECT_GT(time.seconds, before);
    before = time.seconds;
    c.inference.cached_tokens = 100000;
    EXPECT_EQ(bytes_moved(make_block(BlockKind::recurrent_moe_layer, c), step, 1).value(), bytes);
  }
  const Graph three = make_block(BlockKind::recurrent_moe_layer, decoding("qwen3-next-80b-a3b", 64, 3));
  const double speculated = bytes_moved(three, only(three, OperatorKind::scan_step), 1).value();
  EXPECT_NEAR(speculated, 64 * (1 + 3) * state, 0.01 * speculated);
}

// Decays of 4096 columns are read in BF16, and in FP32 written and read.
TEST(Decoding, DecaysOfChannelsAreWrittenBeforeTheStateIsRead) {
  constexpr double state = 32 * 128 * 128 * 4.0, mixed = 3 * 4096, operands = 2 * (mixed + 4096 + 32 + 4096);
  const KernelCost cost = KernelCost::make(tests::profile("h800"), tests::h800_device()).value();
  const Graph layer = make_block(BlockKind::recurrent_moe_layer, decoding("kimi-linear-48b-a3b", 64));
  const Operator& step = only(layer, OperatorKind::scan_step);
  const double bytes = bytes_moved(layer, step, 1).value();
  EXPECT_DOUBLE_EQ(bytes, 64 * (2 * state + operands + 8 * 4096) + 2 * 32 * 129);
  const KernelTime time = cost.time(layer, step, {.sms = 132});
  EXPECT_GE(time.seconds - time.gaps, bytes / bandwidth);
  EXPECT_LT(time.seconds - time.gaps, 1.25 * bytes / bandwidth);
  EXPECT_EQ(cost.kernels(layer, step), 2);
}

// A state of 64 heads of 128 x 128 is read and written by each token, next to queries, keys and values in FP32.
TEST(Decoding, OfAConstantDecayHasAStateAlone) {
  constexpr double state = 64 * 128 * 128 * 4.0, rows = 4 * 64 * 128 * 4.0;
  EXPECT_DOUBLE_EQ(request_state_bytes(architecture("minimax-m1")), 70 * state);
  const KernelCost cost = KernelCost::make(tests::profile("h800"), tests::h800_device()).value();
  const Graph layer = make_block(BlockKind::recurrent_moe_layer, decoding("minimax-m1", 32));
  const Operator& step = only(layer, OperatorKind::scan_step);
  EXPECT_DOUBLE_EQ(bytes_moved(layer, step, 1).value(), 32 * (2 * state + rows));
  EXPECT_DOUBLE_EQ(flops(layer, step, 1, true).value(), 32 * 64 * 4.0 * 128 * 128);
  const KernelTime time = cost.time(layer, step, {.sms = 132});
  EXPECT_GE(time.seconds - time.gaps, 32 * (2 * state + rows) / bandwidth);
  EXPECT_LT(time.seconds - time.gaps, 1.25 * 32 * (2 * state + rows) / bandwidth);
}

// 16 entries in FP32 and the last three inputs of the convolution in BF16 for each of 8192 channels.
TEST(Decoding, OfASelectiveScanHasAStateOfEachChannel) {
  constexpr double state = 8192 * 16 * 4.0, operands = 2 * (4 * 8192 + 2 * 16), parameters = 2 * 18 * 8192;
  EXPECT_DOUBLE_EQ(request_state_bytes(architecture("jamba-1.5-mini")), 28 * (state + 3 * 8192 * 2));
  EXPECT_DOUBLE_EQ(cache_bytes(architecture("jamba-1.5-mini"), DataType::bf16, 1, 1), 4 * 2 * 8 * 128 * 2);
  EXPECT_DOUBLE_EQ(request_state_bytes(architecture("falcon-mamba-7b")), 64 * (state + 3 * 8192 * 2));
  EXPECT_EQ(cache_bytes(architecture("falcon-mamba-7b"), DataType::bf16, 1, 4096), 0);
  const KernelCost cost = KernelCost::make(tests::profile("h800"), tests::h800_device()).value();
  const Graph layer = make_block(BlockKind::recurrent_dense_layer, decoding("jamba-1.5-mini", 256));
  const Operator& step = only(layer, OperatorKind::scan_step);
  const double bytes = bytes_moved(layer, step, 1).value();
  EXPECT_DOUBLE_EQ(bytes, 256 * (2 * state + operands) + parameters);
  EXPECT_DOUBLE_EQ(flops(layer, step, 1, true).value(), 256 * 8.0 * 8192 * 16);
  const KernelTime time = cost.time(layer, step, {.sms = 132});
  EXPECT_GE(time.seconds - time.gaps, bytes / bandwidth);
  EXPECT_LT(time.seconds - time.gaps, 1.25 * bytes / bandwidth);
}

// Chunks are never faster than their bytes, nor than their products at the rate of GEMMs.
TEST(Scan, TakesTheTimeOfItsBytesAndProducts) {
  const KernelCost cost = KernelCost::make(tests::profile("h800"), tests::h800_device()).value();
  for (const char* name : {"qwen3-next-80b-a3b", "kimi-linear-48b-a3b", "granite-4.0-h-small", "minimax-m1"}) {
    const Graph layer = make_block(BlockKind::recurrent_moe_layer, training(name, 8192));
    for (const OperatorKind kind : {OperatorKind::scan, OperatorKind::scan_grad}) {
      const Operator& scan = only(layer, kind);
      const KernelTime time = cost.time(layer, scan, {.sms = 132});
      double shares = 0;
      for (const Share& share : time.shares) shares += share.seconds;
      EXPECT_NEAR(shares, time.seconds, 1e-12);
      EXPECT_GT(time.seconds,
                bytes_moved(layer, scan, 1).value() / bandwidth + flops(layer, scan, 1, true).value() / peak);
      EXPECT_GE(time.seconds, cost.best(layer, scan));
      const Share& products = time.shares[7];  // at a quarter of the rate of GEMMs
      EXPECT_EQ(time.shares[8].seconds, 0);    // no time of a chunk
      EXPECT_EQ(tests::profile("h800").parameters()[static_cast<std::size_t>(products.index)].name, "scan.gemm_share");
      EXPECT_GT(products.seconds, 4 * flops(layer, scan, 1, true).value() / peak);
    }
  }
}

// A block has 64 columns of the values of a head: 16 heads of 128 are 32 blocks.
TEST(Scan, ChunksOfFewBlocksWaitForEachOther) {
  const Recurrence delta{.kind = RecurrenceKind::gated_delta, .value_heads = 16, .key_dim = 128, .value_dim = 128};
  EXPECT_DOUBLE_EQ(waiting_chunks(delta, 1, 8192, 128), 128 * (1 - 32 / 128.0));
  EXPECT_DOUBLE_EQ(waiting_chunks(delta, 2, 8192, 128), 128 * (1 - 64 / 128.0));
  EXPECT_EQ(waiting_chunks(delta, 4, 8192, 128), 0);
  EXPECT_EQ(waiting_chunks({.kind = RecurrenceKind::state_space, .value_heads = 16, .value_dim = 64}, 1, 8192, 128), 0);
}

TEST(Scan, TheTimeOfAChunkIsOfItsRecurrenceAndDirection) {
  const Graph layer = make_block(BlockKind::recurrent_moe_layer, training("qwen3-next-80b-a3b", 8192));
  const auto seconds = [&](const std::vector<Parameter>& more, OperatorKind kind) {
    std::vector<Parameter> parameters = tests::profile("h800").parameters();
    parameters.insert(parameters.end(), more.begin(), more.end());
    const KernelCost cost = KernelCost::make(Profile("with more", "", parameters), tests::h800_device()).value();
    return cost.time(layer, only(layer, kind), {.sms = 132}).seconds;
  };
  const Parameter time{.name = "scan.gated_delta.forward.chunk_time", .value = 1, .unit = "us"};
  const Parameter other{.name = "scan.channel_delta.forward.chunk_time", .value = 1, .unit = "us"};
  const Parameter share{.name = "scan.gated_delta.backward.gemm_share", .value = 0.125, .unit = "1"};
  const double chunks = 8192 / 64 * (1 - 64 / 132.0);  // 32 heads
  EXPECT_NEAR(seconds({time}, OperatorKind::scan) - seconds({}, OperatorKind::scan), chunks * 1e-6, 1e-12);
  EXPECT_EQ(seconds({other}, OperatorKind::scan), seconds({}, OperatorKind::scan));
  EXPECT_EQ(seconds({time}, OperatorKind::scan_grad), seconds({}, OperatorKind::scan_grad));
  EXPECT_GT(seconds({share}, OperatorKind::scan_grad), 1.2 * seconds({}, OperatorKind::scan_grad));
}

// 32 heads of either kind, 512 experts, 42 layers on 3 stages.
TEST(Layout, DividesLing3InEachOtherWay) {
  Plan plan;
  plan.cluster.gpus = 192;
  plan.batch = {.sequence_length = 4096, .micro_batch_size = 1, .global_batch_size = 384};
  plan.parallelism = {.tensor = 8, .sequence = true, .pipeline = 3, .expert = 64};
  const auto layout = make_layout(plan, architecture("ling-3.0-flash-124b-a5b"));
  EXPECT_TRUE(layout) << to_string(layout.error());
}

// 32 heads of either kind, an MLP of 9216 columns and experts of 1024, 256 experts, 27 layers on 3 stages.
TEST(Layout, DividesKimiLinearInEachOtherWay) {
  const Architecture model = architecture("kimi-linear-48b-a3b");
  Plan plan;
  plan.cluster.gpus = 192;
  plan.batch = {.sequence_length = 4096, .micro_batch_size = 1, .global_batch_size = 384};
  plan.parallelism = {.tensor = 8, .sequence = true, .pipeline = 3, .expert = 8};
  const auto layout = make_layout(plan, model);
  EXPECT_TRUE(layout) << to_string(layout.error());
  plan.parallelism.tensor = 64;
  const auto refused = make_layout(plan, model);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().key, "parallelism.tensor");
}

// 12 heads with 2 of keys and values, 24 of the recurrence with one of keys; 64 heads with 8, and 32 experts of 9216.
TEST(Layout, DividesFalconH1AndMiniMaxInEachOtherWay) {
  Plan plan;
  plan.batch = {.sequence_length = 4096, .micro_batch_size = 1, .global_batch_size = 384};
  plan.cluster.gpus = 96;
  plan.parallelism = {.tensor = 4, .sequence = true, .pipeline = 4};
  EXPECT_TRUE(make_layout(plan, architecture("falcon-h1-7b")));
  plan.parallelism.tensor = 8;
  EXPECT_FALSE(make_layout(plan, architecture("falcon-h1-7b")));
  plan.cluster.gpus = 512;
  plan.parallelism.expert = 32;
  plan.batch.global_batch_size = 512;
  EXPECT_TRUE(make_layout(plan, architecture("minimax-m1")));
}

// 8192 channels, 32 heads with 8 of keys and values, 16 experts, 32 layers on 4 stages.
TEST(Layout, DividesJambaInEachOtherWay) {
  Plan plan;
  plan.cluster.gpus = 128;
  plan.batch = {.sequence_length = 4096, .micro_batch_size = 1, .global_batch_size = 128};
  plan.parallelism = {.tensor = 4, .sequence = true, .pipeline = 4, .expert = 16};
  const auto layout = make_layout(plan, architecture("jamba-1.5-mini"));
  EXPECT_TRUE(layout) << to_string(layout.error());
  plan.parallelism.tensor = 64;
  EXPECT_FALSE(make_layout(plan, architecture("jamba-1.5-mini")));
}

TEST(Layout, RefusesContextRanksOfRecurrencesThatNoneSends) {
  Plan plan;
  plan.cluster.gpus = 8;
  plan.batch = {.sequence_length = 4096, .micro_batch_size = 1, .global_batch_size = 32};
  for (const char* name : {"jamba-1.5-mini", "lfm2-8b-a1b"}) {
    plan.parallelism.context = 1;
    EXPECT_TRUE(make_layout(plan, architecture(name))) << name;
    plan.parallelism.context = 2;
    const auto refused = make_layout(plan, architecture(name));
    ASSERT_FALSE(refused) << name;
    EXPECT_EQ(refused.error().key, "parallelism.context");
    EXPECT_NE(refused.error().message.find("state along the sequence"), std::string::npos);
  }
}

}  // namespace
}  // namespace plumbline::model
