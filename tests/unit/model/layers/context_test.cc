// Ranks that share a sequence and send each other heads, against shapes and bytes derived from the dimensions.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <variant>
#include <vector>

#include "model/cost/work.h"
#include "model/layers/blocks.h"
#include "model/memory/slot_memory.h"
#include "model/plan/layout.h"
#include "model/plan/plan.h"
#include "tests/support/architectures.h"
#include "tests/support/costs.h"

namespace plumbline::model {
namespace {

using tests::only;

// 32 heads of queries and 8 of keys, 128 columns each.
LayerContext context_of(std::int64_t ranks, std::int64_t tensor) {
  LayerContext c;
  c.architecture = tests::architecture("llama-3-8b");
  c.sequence_length = 8192;
  c.tokens = 8192 / ranks;
  c.context = ranks;
  c.context_method = ContextMethod::all_to_all;
  c.tensor = tensor;
  return c;
}

std::vector<const Operator*> exchanges_of(const Graph& layer, Phase phase) {
  std::vector<const Operator*> found;
  for (const Operator& op : layer.operators)
    if (op.kind == OperatorKind::exchange_heads && op.phase == phase && !op.recomputed) found.push_back(&op);
  return found;
}

TEST(ContextRanks, SendHeadsAndWorkOnWholeSequences) {
  const Graph layer = make_block(BlockKind::dense_layer, context_of(4, 2));
  EXPECT_EQ(check(layer), "");
  // Of 16 heads of a tensor rank each of four context ranks works on 4, and of 4 heads of keys on one.
  const auto forward = exchanges_of(layer, Phase::F), backward = exchanges_of(layer, Phase::I);
  ASSERT_EQ(forward.size(), 4u) << "queries, keys, values and outputs";
  ASSERT_EQ(backward.size(), 4u) << "and their gradients";
  const std::int64_t columns[] = {16 * 128, 4 * 128, 4 * 128, 4 * 128}, own[] = {4 * 128, 128, 128, 16 * 128};
  for (std::size_t i = 0; i < 4; ++i) {
    const Tensor &from = layer.tensor(forward[i]->reads[0]), &to = layer.tensor(forward[i]->writes[0]);
    EXPECT_EQ(from.shape[0].size, i < 3 ? 2048 : 8192);
    EXPECT_EQ(to.shape[0].size, i < 3 ? 8192 : 2048);
    EXPECT_EQ(from.shape[1].size, columns[i]);
    EXPECT_EQ(to.shape[1].size, own[i]);
    const auto& ranks = std::get<CollectiveAttributes>(forward[i]->attributes);
    EXPECT_EQ(ranks.ranks, 4);
    EXPECT_EQ(ranks.stride, 2) << "tensor ranks lie closer together";
  }
  // Each is copied before, its columns in the order of ranks, and after, its rows in that of tokens; outputs the other
  // way round. A rank's tensor is as large on both sides, and its gradient.
  for (const char* name : {"queries", "keys", "values", "outputs"}) {
    const auto copies = std::ranges::count_if(layer.operators, [name](const Operator& op) {
      return op.kind == OperatorKind::concatenate && op.phase == Phase::F && op.name.starts_with(name);
    });
    EXPECT_EQ(copies, 2) << name;
  }
  const auto attention = std::ranges::find(layer.operators, OperatorKind::attention, &Operator::kind);
  ASSERT_NE(attention, layer.operators.end());
  const auto& attributes = std::get<AttentionAttributes>(attention->attributes);
  EXPECT_EQ(attributes.query_heads, 4);
  EXPECT_EQ(attributes.key_value_heads, 1);
  EXPECT_EQ(attributes.ring_ranks, 1);
  // The layer computes a quarter of what one rank with the whole sequence does.
  LayerContext alone = context_of(1, 2);
  const Graph whole = make_block(BlockKind::dense_layer, alone);
  const auto same = std::ranges::find(whole.operators, OperatorKind::attention, &Operator::kind);
  EXPECT_DOUBLE_EQ(4 * flops(layer, *attention, 1, true).value(), flops(whole, *same, 1, true).value());
}

// Of 8 heads of keys each of 16 ranks has a copy of one, so that 16 travel.
TEST(ContextRanks, FewerHeadsOfKeysThanRanksTravelAsCopies) {
  const Graph layer = make_block(BlockKind::dense_layer, context_of(16, 1));
  EXPECT_EQ(check(layer), "");
  const Operator& keys = *exchanges_of(layer, Phase::F)[1];
  EXPECT_EQ(layer.tensor(keys.reads[0]).elements(), 512.0 * 8 * 128);
  EXPECT_EQ(layer.tensor(keys.writes[0]).elements(), 512.0 * 16 * 128);
}

LayerContext recurrent(const std::string& model, std::int64_t ranks, std::int64_t tensor) {
  LayerContext c = context_of(ranks, tensor);
  c.architecture = tests::architecture(model);
  c.context_method = ContextMethod::ring;  // of attention alone
  return c;
}

struct Sent {
  std::int64_t rows, columns, own_columns;
};

void expect_sent(const Graph& layer, const std::vector<Sent>& expected) {
  const auto forward = exchanges_of(layer, Phase::F), backward = exchanges_of(layer, Phase::I);
  ASSERT_EQ(forward.size(), expected.size());
  ASSERT_EQ(backward.size(), expected.size()) << "gradients go the same ways";
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const Tensor &from = layer.tensor(forward[i]->reads[0]), &to = layer.tensor(forward[i]->writes[0]);
    EXPECT_EQ(from.shape[0].size, expected[i].rows) << forward[i]->name;
    EXPECT_EQ(from.shape[1].size, expected[i].columns) << forward[i]->name;
    EXPECT_EQ(to.shape[1].size, expected[i].own_columns) << forward[i]->name;
    const Operator& back = *backward[expected.size() - 1 - i];
    EXPECT_EQ(layer.tensor(back.reads[0]).elements(), to.elements()) << back.name;
    EXPECT_EQ(layer.tensor(back.writes[0]).elements(), from.elements()) << back.name;
  }
}

double parameters_of(const Graph& layer) {
  double sum = 0;
  for (const Tensor& tensor : layer.tensors)
    if (tensor.role == Role::parameter) sum += tensor.elements();
  return sum;
}

// 64 heads of 64 values and 8 groups of 128 keys and queries: a tensor rank of two has half of each, a context rank of
// four an eighth.
TEST(ContextRanks, SendValuesKeysQueriesGatesAndStepsOfMamba2) {
  const Graph layer = make_block(BlockKind::recurrent_layer, recurrent("nemotron-3-nano-30b-a3b", 4, 2));
  EXPECT_EQ(check(layer), "");
  expect_sent(layer, {{2048, 32 * 64, 8 * 64},    // values
                      {2048, 4 * 128, 128},       // keys
                      {2048, 4 * 128, 128},       // queries
                      {2048, 32 * 64, 8 * 64},    // gate
                      {2048, 32, 8},              // time steps
                      {8192, 8 * 64, 32 * 64}});  // result
  const Operator& scan = only(layer, OperatorKind::scan);
  const auto& attributes = std::get<ScanAttributes>(scan.attributes);
  EXPECT_EQ(attributes.value_heads, 8);
  EXPECT_EQ(attributes.key_heads, 1);
  EXPECT_EQ(layer.tensor(scan.reads[0]).shape[0].size, 8192);
  EXPECT_EQ(layer.tensor(only(layer, OperatorKind::convolution).writes[0]).shape[1].size, 8 * 64 + 2 * 128);
  // The norm of four groups is of a rank's tokens, after the gate was applied to those of all ranks.
  const Operator& norm = *std::ranges::find(layer.operators, "recurrence_norm", &Operator::name);
  EXPECT_EQ(layer.tensor(norm.reads[0]).shape[0].size, 2048);
  EXPECT_EQ(layer.tensor(norm.reads[0]).shape[1].size, 32 * 64);
  EXPECT_EQ(std::get<NormAttributes>(norm.attributes).heads, 4);
  EXPECT_EQ(layer.tensor(only(layer, OperatorKind::gated_rmsnorm).reads[0]).shape[0].size, 8192);

  const Graph whole = make_block(BlockKind::recurrent_layer, recurrent("nemotron-3-nano-30b-a3b", 1, 2));
  EXPECT_TRUE(exchanges_of(whole, Phase::F).empty());
  EXPECT_EQ(parameters_of(layer), parameters_of(whole)) << "each context rank holds them all and reads its own";
  EXPECT_DOUBLE_EQ(4 * flops(layer, scan, 1, true).value(),
                   flops(whole, only(whole, OperatorKind::scan), 1, true).value());
}

// Four groups of a tensor rank over eight context ranks: each has a copy of one, so that eight travel.
TEST(ContextRanks, FewerGroupsOfMamba2ThanRanksTravelAsCopies) {
  const Graph layer = make_block(BlockKind::recurrent_layer, recurrent("nemotron-3-nano-30b-a3b", 8, 2));
  EXPECT_EQ(check(layer), "");
  const Operator& keys = *exchanges_of(layer, Phase::F)[1];
  EXPECT_EQ(layer.tensor(keys.reads[0]).elements(), 1024.0 * 4 * 128);
  EXPECT_EQ(layer.tensor(keys.writes[0]).elements(), 1024.0 * 8 * 128);
}

// 16 heads of 128 keys and of 128 queries, 32 of values and gates, decays and strengths, all in one message.
TEST(ContextRanks, SendTheProjectionOfTheDeltaRule) {
  const Graph layer = make_block(BlockKind::recurrent_layer, recurrent("qwen3-next-80b-a3b", 4, 2));
  EXPECT_EQ(check(layer), "");
  const std::int64_t columns = 2 * 8 * 128 + 2 * 16 * 128 + 2 * 16;
  expect_sent(layer, {{2048, columns, columns / 4}, {8192, 4 * 128, 16 * 128}});
  const auto& attributes = std::get<ScanAttributes>(only(layer, OperatorKind::scan).attributes);
  EXPECT_EQ(attributes.value_heads, 4);
  EXPECT_EQ(attributes.key_heads, 2);
  const Operator& norm = only(layer, OperatorKind::gated_rmsnorm);
  EXPECT_EQ(layer.tensor(norm.reads[0]).shape[0].size, 8192);
  EXPECT_EQ(std::get<NormAttributes>(norm.attributes).heads, 4);
  EXPECT_EQ(parameters_of(layer),
            parameters_of(make_block(BlockKind::recurrent_layer, recurrent("qwen3-next-80b-a3b", 1, 2))));
}

// 32 heads of 128 keys, queries and values and a strength each; decays and output gates of low ranks, which are
// projected on the rank of the tokens, travel by themselves.
TEST(ContextRanks, SendTheGatesOfKimiDeltaAttentionByThemselves) {
  const Graph layer = make_block(BlockKind::recurrent_layer, recurrent("kimi-linear-48b-a3b", 4, 2));
  EXPECT_EQ(check(layer), "");
  expect_sent(layer, {{2048, 3 * 16 * 128, 3 * 4 * 128},  // queries, keys, values
                      {2048, 16, 4},                      // strengths
                      {2048, 16 * 128, 4 * 128},          // decays
                      {2048, 16 * 128, 4 * 128},          // output gates
                      {8192, 4 * 128, 16 * 128}});        // result
  EXPECT_EQ(std::get<ScanAttributes>(only(layer, OperatorKind::scan).attributes).value_heads, 4);
  EXPECT_EQ(layer.tensor(only(layer, OperatorKind::gated_rmsnorm).reads[0]).shape[0].size, 8192);
  EXPECT_EQ(parameters_of(layer),
            parameters_of(make_block(BlockKind::recurrent_layer, recurrent("kimi-linear-48b-a3b", 1, 2))));
}

// Gates that are projected whole travel with queries, keys and values: 5 times 32 heads of 128.
TEST(ContextRanks, SendWholeGatesOfLing3WithTheProjection) {
  const Graph layer = make_block(BlockKind::recurrent_layer, recurrent("ling-3.0-flash-124b-a5b", 4, 1));
  EXPECT_EQ(check(layer), "");
  expect_sent(layer, {{2048, 5 * 32 * 128, 5 * 8 * 128}, {2048, 32, 8}, {8192, 8 * 128, 32 * 128}});
}

// Of lightning attention each of four ranks computes the state of its own tokens, 32 heads of 128 x 128 on a tensor
// rank of two, and gathers all, whose sum its scan begins with; so for gradients.
TEST(ContextRanks, GatherTheStatesOfLightningAttention) {
  const Graph layer = make_block(BlockKind::recurrent_layer, recurrent("minimax-m1", 4, 2));
  EXPECT_EQ(check(layer), "");
  EXPECT_TRUE(exchanges_of(layer, Phase::F).empty());
  for (const auto& [gather, state, kind] : {std::tuple{"gather_state", "own_state", OperatorKind::scan_state},
                                            {"gather_d_state", "own_d_state", OperatorKind::scan_state_grad}}) {
    const auto op = std::ranges::find(layer.operators, gather, &Operator::name);
    ASSERT_NE(op, layer.operators.end());
    EXPECT_EQ(std::get<CollectiveAttributes>(op->attributes).ranks, 4);
    EXPECT_EQ(layer.tensor(op->reads[0]).bytes().value(), 4.0 * 32 * 128 * 128);
    EXPECT_EQ(layer.tensor(op->writes[0]).bytes().value(), 4 * 4.0 * 32 * 128 * 128);
    const Operator& own = only(layer, kind);
    EXPECT_EQ(own.name, state);
    EXPECT_DOUBLE_EQ(flops(layer, own, 1, true).value(), 2048.0 * 32 * 2 * 128 * 128);
    EXPECT_DOUBLE_EQ(bytes_moved(layer, own, 1).value(), 2048.0 * 32 * 2 * (128 + 128) + 4.0 * 32 * 128 * 128);
  }
  const Operator& scan = only(layer, OperatorKind::scan);
  EXPECT_EQ(layer.tensor(scan.reads.back()).name, "state");
  EXPECT_EQ(layer.tensor(scan.reads[0]).shape[0].size, 2048);
  EXPECT_EQ(std::get<ScanAttributes>(scan.attributes).sequence_length, 2048);
  const Graph whole = make_block(BlockKind::recurrent_layer, recurrent("minimax-m1", 1, 2));
  EXPECT_DOUBLE_EQ(4 * flops(layer, scan, 1, true).value(),
                   flops(whole, only(whole, OperatorKind::scan), 1, true).value());
}

// In 16 bits, of a quarter of the sequence or of a quarter of the heads: inputs of the layer and of its projection 2688
// each, what the convolution is of 6144, gate, result, gated result and its norm 4096 each, time steps 64. Nothing that
// is sent is kept but what kernels read.
TEST(ContextRanks, KeepWhatKernelsReadOfARecurrence) {
  LayerContext c = recurrent("nemotron-3-nano-30b-a3b", 4, 1);
  const auto kept = [&c] {
    StepProgram program;
    program.blocks = {make_block(BlockKind::recurrent_layer, c)};
    program.stage_kinds = {{{0}}};
    return StageTensors(program, 0).kept_after_forward().value();
  };
  EXPECT_DOUBLE_EQ(kept(), 2048 * 2.0 * (2 * 2688 + 6144 + 4 * 4096 + 64));
  c.recompute = {RecomputeGroup::rmsnorm};  // both norms and the gate run again, and nothing is sent again
  EXPECT_DOUBLE_EQ(kept(), 2048 * 2.0 * (2688 + 6144 + 3 * 4096 + 64));
  const Graph layer = make_block(BlockKind::recurrent_layer, c);
  EXPECT_EQ(std::ranges::count(layer.operators, OperatorKind::exchange_heads, &Operator::kind), 12);
}

TEST(ContextRanks, HeadsOfARecurrenceHaveToDivideOverThem) {
  Plan plan;
  plan.cluster.gpus = 64;
  plan.batch = {.sequence_length = 8192, .micro_batch_size = 1, .global_batch_size = 64};
  const auto error = [&plan](const char* model) {
    const auto layout = make_layout(plan, tests::architecture(model));
    return layout ? std::string() : layout.error().key + ": " + layout.error().message;
  };
  plan.parallelism.context = 16;
  EXPECT_EQ(error("qwen3-next-80b-a3b"), "");
  EXPECT_EQ(error("nemotron-3-nano-30b-a3b"), "") << "eight groups as two copies each";
  EXPECT_EQ(error("kimi-linear-48b-a3b"), "");
  EXPECT_EQ(error("minimax-m1"), "") << "states are gathered, and no heads are divided";
  plan.parallelism.tensor = 2;
  plan.parallelism.sequence = true;
  EXPECT_EQ(error("nemotron-3-nano-30b-a3b"), "");
  EXPECT_EQ(error("qwen3-next-80b-a3b"),
            "parallelism.context: 32 heads of the recurrence and 16 of its keys do not divide over 2 tensor and 16 "
            "context ranks");
  // One group on two tensor ranks is no share of it.
  EXPECT_NE(
      error("granite-4.0-h-small").find("do not divide over 2 tensor and 16 context ranks, nor do the latter into"),
      std::string::npos);
}

TEST(ContextRanks, HeadsHaveToDivideOverThem) {
  const Architecture model = tests::architecture("llama-3-8b");
  Plan plan;
  plan.cluster.gpus = 64;
  plan.batch = {.sequence_length = 8192, .micro_batch_size = 1, .global_batch_size = 64};
  plan.parallelism.context = 64;
  EXPECT_TRUE(make_layout(plan, model)) << "a ring needs no heads";
  plan.parallelism.context_method = "all-to-all";
  const auto refused = make_layout(plan, model);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().key, "parallelism.context");
  EXPECT_NE(refused.error().message.find("32 attention heads of a rank do not divide over 64 context ranks"),
            std::string::npos);
  plan.parallelism.context = 32;
  EXPECT_TRUE(make_layout(plan, model));
}

}  // namespace
}  // namespace plumbline::model
