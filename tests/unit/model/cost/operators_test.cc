#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "model/cost/kernel_cost.h"
#include "model/cost/measured_operators.h"
#include "model/cost/sm_partition.h"
#include "model/cost/work.h"
#include "model/layers/blocks.h"
#include "tests/support/costs.h"

namespace plumbline::model {
namespace {

using tests::deepseek_rank;
using tests::find;

// Free shares of SMs, and grids that take more than one round.

// A Hopper SM: 2048 threads, 65536 registers, 228 KiB.
const SmResources sm = tests::h800_device().sm;

TEST(FreeShare, TheScarcestResourceDecides) {
  // DeepEP's kernels with their published launches: threads, and registers a thread.
  EXPECT_DOUBLE_EQ(free_share(sm, {320, 56, 0}), 1 - 17920.0 / 65536);  // cached notify: 0.727
  EXPECT_DOUBLE_EQ(free_share(sm, {800, 72, 0}), 1 - 57600.0 / 65536);  // combine: 0.121
  EXPECT_DOUBLE_EQ(free_share(sm, {512, 113, 0}), 1 - 57856.0 / 65536);
  // A GEMM takes 63 of 64 Ki registers; its shared memory alone would leave 4 %.
  EXPECT_DOUBLE_EQ(free_share(sm, {384, 168, 223232}), 1 - 64512.0 / 65536);
  EXPECT_DOUBLE_EQ(free_share(sm, {384, 32, 223232}), 1 - 223232.0 / 233472);
  EXPECT_DOUBLE_EQ(free_share(sm, {1024, 16, 0}), 0.5);  // threads: half of 2048, registers a quarter
  EXPECT_NEAR(free_share(sm, {320, 56, 0}), 0.727, 0.0005);
  EXPECT_NEAR(free_share(sm, {800, 72, 0}), 0.121, 0.0005);
}

TEST(FreeShare, IsBetweenNoneAndAll) {
  EXPECT_EQ(free_share(sm, {}), 1);
  EXPECT_EQ(free_share(sm, {1024, 64, 0}), 0);
  EXPECT_EQ(free_share(sm, {4096, 64, 0}), 0);  // more than there is
}

TEST(FreeShare, BlocksOfAnSm) {
  EXPECT_EQ(blocks_per_sm(sm, {256, 32, 0}), 8);        // threads and registers each allow 8
  EXPECT_EQ(blocks_per_sm(sm, {384, 168, 223232}), 1);  // a GEMM
  EXPECT_EQ(blocks_per_sm(sm, {320, 56, 0}), 3);        // 3.66
  EXPECT_EQ(blocks_per_sm(sm, {}), 1);                  // without any constants
}

TEST(OccupancyOf, SmallBlocksFillTheFreeShareByTheBlock) {
  EXPECT_DOUBLE_EQ((SmOccupancy{132, 0, 1}.effective(8)), 132);
  // Three of the eight blocks of an SM fit into 0.4 of it: 112 + 20 * 3 / 8.
  EXPECT_DOUBLE_EQ((SmOccupancy{112, 20, 0.4}.effective(8)), 119.5);
  EXPECT_DOUBLE_EQ((SmOccupancy{112, 20, 0.1}.effective(8)), 112);
  EXPECT_DOUBLE_EQ((SmOccupancy{112, 20, 0.9}.effective(1)), 112);
}

TEST(Rounds, WhatFitsTakesOne) {
  EXPECT_EQ(rounds(132, 1, {132, 0, 1}, 0.5), 1);
  EXPECT_EQ(rounds(396, 3, {132, 0, 1}, 0.5), 1);
  EXPECT_EQ(rounds(1, 1, {132, 0, 1}, 0.5), 1);
  EXPECT_EQ(rounds(396, 3, {112, 30, 0.7}, 0.5), 1);  // 336, and two on each of 30 shared SMs: exactly 396
}

TEST(Rounds, ASecondWaveOfOneBlockPerSmTakesAsLongAsTheFirst) {
  // Even few blocks that fill their SM take a whole round.
  EXPECT_EQ(rounds(132, 1, {112, 20, 0.1}, 0.5), 2);
  EXPECT_EQ(rounds(113, 1, {112, 20, 0.1}, 0.5), 2);
  EXPECT_EQ(rounds(132, 1, {112, 20, 0.1}, 0), 2);
}

TEST(Rounds, FewerBlocksOnAnSmEndTheirRoundSooner) {
  // Three are on an SM, 336 on 112 SMs; the other 60 get an SM each. Bound by latency they take a whole round, by
  // throughput a third; the test has half of each.
  EXPECT_DOUBLE_EQ(rounds(396, 3, {112, 20, 0.1}, 0.5), 1 + 0.5 + 0.5 / 3);
  EXPECT_DOUBLE_EQ(rounds(396, 3, {112, 20, 0.1}, 1), 2);
  EXPECT_DOUBLE_EQ(rounds(396, 3, {112, 20, 0.1}, 0), 1 + 1.0 / 3);
  // 180 left over 108 SMs: two on the fullest.
  EXPECT_DOUBLE_EQ(rounds(504, 3, {108, 0, 0}, 0.5), 1 + 0.5 + 0.5 * 2 / 3);
}

TEST(Rounds, MultiplesAreFullRounds) {
  EXPECT_EQ(rounds(264, 1, {132, 0, 1}, 0.5), 2);
  EXPECT_EQ(rounds(396, 3, {66, 66, 0.1}, 0.5), 2);
  EXPECT_EQ(rounds(396, 1, {132, 0, 1}, 0.5), 3);
}

TEST(Rounds, WithoutAFreeSmTheyNeverEnd) {
  EXPECT_EQ(rounds(1, 1, {0, 132, 0.9}, 0.5), std::numeric_limits<double>::infinity());
  EXPECT_EQ(rounds(3, 3, {0, 0, 1}, 0.5), std::numeric_limits<double>::infinity());
}

TEST(Rounds, MoreFreeSmsNeverTakeLonger) {
  for (const std::int64_t per_sm : {1, 2, 3, 8}) {
    for (const double share : {0.0, 0.121, 0.727}) {
      for (const double latency_share : {0.0, 0.5, 1.0}) {
        double before = std::numeric_limits<double>::infinity();
        for (std::int64_t free = 1; free <= 132; ++free) {
          const double now = rounds(132 * per_sm, per_sm, {free, 132 - free, share}, latency_share);
          EXPECT_LE(now, before) << per_sm << " per SM on " << free << ", share " << share;
          before = now;
        }
        EXPECT_EQ(before, 1);
      }
    }
  }
}

// Three policies that divide the SMs between computation and communication.

constexpr CoRunner all[] = {CoRunner::none, CoRunner::waiting, CoRunner::transferring};

SmPartition partition(SmPolicy policy) { return {policy, 132, 20}; }

TEST(SmPartition, WordsOfThePlan) {
  EXPECT_EQ(sm_policy("static"), SmPolicy::fixed);
  EXPECT_EQ(sm_policy("none"), SmPolicy::none);
  EXPECT_EQ(sm_policy("dynamic"), SmPolicy::dynamic);
}

TEST(SmPartition, StaticReservesSmsAlsoWhileCommunicationIsIdle) {
  for (const CoRunner co_runner : all) EXPECT_EQ(partition(SmPolicy::fixed).launch_width(co_runner), 112);
}

TEST(SmPartition, NoneLaunchesOnTheWholeGpu) {
  for (const CoRunner co_runner : all) EXPECT_EQ(partition(SmPolicy::none).launch_width(co_runner), 132);
}

TEST(SmPartition, DynamicLaunchesOnWhatIsFree) {
  EXPECT_EQ(partition(SmPolicy::dynamic).launch_width(CoRunner::none), 132);
  EXPECT_EQ(partition(SmPolicy::dynamic).launch_width(CoRunner::waiting), 112);
  EXPECT_EQ(partition(SmPolicy::dynamic).launch_width(CoRunner::transferring), 112);
}

TEST(SmPartition, CommunicationHoldsItsSmsUnderEveryPolicy) {
  for (const SmPolicy policy : {SmPolicy::fixed, SmPolicy::none, SmPolicy::dynamic}) {
    for (const CoRunner co_runner : all) {
      const Conditions conditions = partition(policy).overlapped(co_runner);
      EXPECT_EQ(conditions.sms, partition(policy).launch_width(co_runner));
      EXPECT_EQ(conditions.held, co_runner == CoRunner::none ? 0 : 20);
      EXPECT_EQ(conditions.co_runner, co_runner);
      EXPECT_EQ(conditions.row_scale, 1);
    }
  }
}

TEST(SmPartition, ACollectiveLeavesSmsAndBandwidth) {
  const SmPartition partition{SmPolicy::none, 132, 20, 24, 0.7};
  const Conditions conditions = partition.overlapped(CoRunner::collective);
  EXPECT_EQ(conditions.sms, 108);
  EXPECT_EQ(conditions.held, 24);
  EXPECT_EQ(conditions.bandwidth, 0.7);
  EXPECT_EQ(partition.overlapped(CoRunner::transferring).bandwidth, 1);
}

TEST(SmPartition, WithoutCommunicationSmsAllPoliciesAreOne) {
  for (const SmPolicy policy : {SmPolicy::fixed, SmPolicy::none, SmPolicy::dynamic}) {
    for (const CoRunner co_runner : all) {
      const Conditions conditions = SmPartition{policy, 132, 0}.overlapped(co_runner);
      EXPECT_EQ(conditions.sms, 132);
      EXPECT_EQ(conditions.held, 0);
    }
  }
}

// [4, 8] x [8, 2] in FP32.
Graph gemm() {
  Graph graph;
  graph.tensors = {{.name = "a", .shape = {{4}, {8}}, .type = DataType::fp32},
                   {.name = "b", .shape = {{8}, {2}}, .type = DataType::fp32},
                   {.name = "c", .shape = {{4}, {2}}, .type = DataType::fp32}};
  graph.operators = {{.kind = OperatorKind::matmul, .reads = {0, 1}, .writes = {2}, .attributes = MatmulAttributes{}}};
  return graph;
}

TEST(OperatorKey, NamesKindPhaseFormatAndShapes) {
  const Graph graph = gemm();
  EXPECT_EQ(operator_key(graph, graph.operators[0]), "matmul-F-fp32-4x8-8x2-to-4x2");
}

TEST(OperatorKey, DiffersWhereTimesDiffer) {
  const Graph plain = gemm();
  const std::string key = operator_key(plain, plain.operators[0]);
  const auto changed = [&](const auto& change) {
    Graph graph = gemm();
    change(graph);
    return operator_key(graph, graph.operators[0]);
  };
  const std::vector<std::string> others = {
      changed([](Graph& g) { g.operators[0].phase = Phase::I; }),
      changed([](Graph& g) { g.operators[0].kind = OperatorKind::grouped_matmul; }),
      changed([](Graph& g) { g.operators[0].attributes = MatmulAttributes{.transpose_a = true}; }),
      changed([](Graph& g) { g.operators[0].attributes = MatmulAttributes{.transpose_b = true}; }),
      changed([](Graph& g) { g.operators[0].attributes = MatmulAttributes{.accumulate = true}; }),
      changed([](Graph& g) { g.tensors[0].type = DataType::bf16; }),
      changed([](Graph& g) { g.tensors[2].type = DataType::bf16; }),
      changed([](Graph& g) { g.tensors[0].shape[0].size = 5; }),
      changed([](Graph& g) { g.operators[0].reads.push_back(2); }),
  };
  for (std::size_t i = 0; i < others.size(); ++i) {
    EXPECT_NE(others[i], key);
    for (std::size_t j = 0; j < i; ++j) EXPECT_NE(others[i], others[j]);
  }
}

TEST(OperatorKey, DoesNotDependOnNamesOrOnNumbersOfTheArithmetic) {
  Graph graph = gemm();
  const std::string key = operator_key(graph, graph.operators[0]);
  graph.operators[0].name = "q_b";
  graph.tensors[0].name = "x";
  EXPECT_EQ(operator_key(graph, graph.operators[0]), key);
  graph.operators[0].kind = OperatorKind::rmsnorm;
  graph.operators[0].attributes = NormAttributes{.epsilon = 1e-5};
  const std::string norm = operator_key(graph, graph.operators[0]);
  graph.operators[0].attributes = NormAttributes{.epsilon = 1e-6};
  EXPECT_EQ(operator_key(graph, graph.operators[0]), norm);
}

TEST(OperatorKey, CountsEqualShapesInARow) {
  Graph graph = gemm();
  graph.operators[0] = {.kind = OperatorKind::add, .reads = {2, 2, 2}, .writes = {2}};
  EXPECT_EQ(operator_key(graph, graph.operators[0]), "add-F-fp32-3n4x2-to-4x2");
}

TEST(OperatorKey, AttentionNamesWhatShapesDoNotHold) {
  Graph graph = gemm();
  AttentionAttributes a{.query_heads = 2, .key_value_heads = 1, .query_key_dim = 4, .value_dim = 4};
  a.sequence_length = 4;
  const auto key = [&] {
    graph.operators[0] = {.kind = OperatorKind::attention, .reads = {0, 1}, .writes = {2}, .attributes = a};
    return operator_key(graph, graph.operators[0]);
  };
  const std::string whole = key();
  a.sequence_length = 2;
  const std::string shorter = key();
  a.window = 1;
  const std::string windowed = key();
  EXPECT_NE(whole, shorter);
  EXPECT_NE(shorter, windowed);
}

// In a block of a model, operators with one key do the same work on the same bytes, and keys are bare keys of TOML.
TEST(OperatorKey, EqualKeysMeanEqualWork) {
  for (const BlockKind kind : {BlockKind::dense_layer, BlockKind::moe_layer}) {
    for (const Precision precision : {Precision::fp8, Precision::bf16, Precision::fp32}) {
      const Graph graph = make_block(kind, tests::deepseek_rank(precision));
      std::map<std::string, const Operator*> known;
      for (const Operator& op : graph.operators) {
        const std::string key = operator_key(graph, op);
        EXPECT_TRUE(std::ranges::all_of(key, [](unsigned char c) { return std::isalnum(c) || c == '-' || c == '_'; }))
            << key;
        const Operator& first = *known.try_emplace(key, &op).first->second;
        EXPECT_EQ(first.kind, op.kind);
        EXPECT_EQ(flops(graph, first, 1, true).value(), flops(graph, op, 1, true).value()) << key;
        EXPECT_EQ(bytes_moved(graph, first, 1).value(), bytes_moved(graph, op, 1).value()) << key;
      }
      EXPECT_GT(known.size(), graph.operators.size() / 2);
    }
  }
}

constexpr double micro = 1e-6;

// Returns a profile of host cores in which these operators have measured times, in us.
Profile with_measured(const std::vector<std::pair<std::string, double>>& entries) {
  std::vector<Parameter> parameters = tests::profile("host-datasheet").parameters();
  for (const auto& [name, value] : entries) parameters.push_back({name, value, "us", Evidence::measured, "a test"});
  return {"host", "", parameters};
}

Device cores(std::int64_t count) {
  Device device;
  device.name = "host-core";
  device.sms = count;
  device.sm = {2048, 65536, 233472};
  return device;
}

class MeasuredTimes : public testing::Test {
 protected:
  const Graph layer_ = make_block(BlockKind::moe_layer, deepseek_rank(Precision::bf16));
  const double gap_ = 2e-6;  // kernel.launch_gap of the profile

  std::string key(const Operator& op) const { return operator_key(layer_, op); }
  KernelCost cost(const std::vector<std::pair<std::string, double>>& entries, std::int64_t device_cores = 1) const {
    return KernelCost::make(with_measured(entries), cores(device_cores)).value();
  }
  std::string entry(const std::string& op, std::int64_t on, Phase phase = Phase::F) const {
    return MeasuredOperators::name(key(find(layer_, op, phase)), {on});
  }
};

TEST_F(MeasuredTimes, OfTheTableCountBeforeTheForm) {
  const KernelCost with = cost({{entry("q_a", 1), 1000}}), without = cost({});
  const Operator &measured = find(layer_, "q_a"), &other = find(layer_, "q_b");
  EXPECT_DOUBLE_EQ(with.time(layer_, measured, {.sms = 1}).seconds, 1000 * micro + gap_);
  EXPECT_EQ(with.time(layer_, other, {.sms = 1}).seconds, without.time(layer_, other, {.sms = 1}).seconds);
}

TEST_F(MeasuredTimes, RestOnTheirEntry) {
  const Profile profile = with_measured({{entry("q_a", 1), 1000}});
  const KernelTime time = KernelCost::make(profile, cores(1)).value().time(layer_, find(layer_, "q_a"), {.sms = 1});
  double sum = 0;
  for (const Share& share : time.shares) sum += share.seconds;
  EXPECT_DOUBLE_EQ(sum, time.seconds);
  EXPECT_EQ(profile.parameters()[static_cast<std::size_t>(time.shares[0].index)].name, entry("q_a", 1));
  EXPECT_DOUBLE_EQ(time.shares[0].seconds, 1000 * micro);
  EXPECT_DOUBLE_EQ(time.gaps, gap_);
}

TEST_F(MeasuredTimes, HoldForTheCoresTheyWereMeasuredOn) {
  const KernelCost with = cost({{entry("q_a", 2), 700}}, 2), without = cost({}, 2);
  const Operator& op = find(layer_, "q_a");
  EXPECT_DOUBLE_EQ(with.time(layer_, op, {.sms = 2}).seconds, 700 * micro + gap_);
  EXPECT_EQ(with.time(layer_, op, {.sms = 1}).seconds, without.time(layer_, op, {.sms = 1}).seconds);
  // The norm runs while no other kernel holds SMs.
  const KernelCost norm = cost({{entry("attention_norm", 1), 50}}, 2);
  const Operator& of_norm = find(layer_, "attention_norm");
  const Conditions overlapped{.sms = 1, .held = 1, .co_runner = CoRunner::waiting};
  EXPECT_DOUBLE_EQ(norm.time(layer_, of_norm, overlapped).seconds, 50 * micro + gap_);
  EXPECT_EQ(norm.time(layer_, of_norm, {.sms = 1}).seconds, cost({}, 2).time(layer_, of_norm, {.sms = 1}).seconds);
}

// With a tile of one element and no ramp the formula is proportional to the rows, and so is the table.
TEST_F(MeasuredTimes, FollowTheRowsAsTheFormDoes) {
  const KernelCost with = cost({{entry("experts_down", 1), 1000}});
  const Operator& op = find(layer_, "experts_down");
  EXPECT_NEAR(with.time(layer_, op, {.sms = 1, .row_scale = 1.5}).seconds, 1500 * micro + gap_, 1e-9);
}

TEST_F(MeasuredTimes, SlowDownWithTransfersAsTheFormDoes) {
  std::vector<Parameter> parameters = with_measured({{entry("q_a", 1), 1000}}).parameters();
  for (Parameter& parameter : parameters)
    if (parameter.name == "gemm.slowdown_beside_transfer") parameter.value = 1.2;
  const KernelCost slowed = KernelCost::make({"slowed", "", parameters}, cores(1)).value();
  const Conditions overlapped{.sms = 1, .co_runner = CoRunner::transferring};
  EXPECT_NEAR(slowed.time(layer_, find(layer_, "q_a"), overlapped).seconds, 1200 * micro + gap_, 1e-12);
}

// With a transfer the time measured with one applies, on the SMs that were free, whatever the kernel was launched on.
TEST_F(MeasuredTimes, WithATransferAreThoseMeasuredWithOne) {
  const auto overlapped = [&](const char* name) {
    return MeasuredOperators::name(key(find(layer_, name)), {1, true}, MeasuredOperators::Unit::sms);
  };
  const KernelCost with =
      cost({{entry("q_a", 2), 700}, {overlapped("q_a"), 900}, {overlapped("attention_norm"), 80}}, 2);
  const Conditions transfer{.sms = 2, .held = 1, .co_runner = CoRunner::transferring};
  const Operator &gemm = find(layer_, "q_a"), &norm = find(layer_, "attention_norm");
  EXPECT_DOUBLE_EQ(with.time(layer_, gemm, transfer).seconds, 900 * micro + gap_);
  EXPECT_DOUBLE_EQ(with.time(layer_, gemm, {.sms = 2}).seconds, 700 * micro + gap_);
  EXPECT_DOUBLE_EQ(with.time(layer_, norm, transfer).seconds, 80 * micro + gap_);
  // A rank that waits transfers nothing.
  const Conditions waiting{.sms = 2, .held = 1, .co_runner = CoRunner::waiting};
  EXPECT_DOUBLE_EQ(with.time(layer_, gemm, {.sms = 2, .co_runner = CoRunner::waiting}).seconds, 700 * micro + gap_);
  EXPECT_EQ(with.time(layer_, norm, waiting).seconds, cost({}, 2).time(layer_, norm, waiting).seconds);
}

// On any number of cores the time is at most the measured one and never below the formula's best.
TEST_F(MeasuredTimes, AreNeverBelowTheBest) {
  for (const double us : {0.001, 1e9}) {
    const KernelCost with =
        cost({{entry("q_a", 1), us}, {entry("q_a", 2), us / 3}, {entry("attention_norm", 2), us}}, 2);
    for (const char* name : {"q_a", "attention_norm"}) {
      const Operator& op = find(layer_, name);
      for (const std::int64_t sms : {1, 2}) {
        const Conditions conditions{.sms = sms, .held = 2 - sms};
        const double share = is_gemm(operator_class(layer_, op)) ? static_cast<double>(sms) / 2 : 1;
        EXPECT_GE(with.time(layer_, op, conditions).seconds * share, with.best(layer_, op)) << name << " " << us;
      }
      EXPECT_LE(with.best(layer_, op), cost({}, 2).best(layer_, op));
    }
  }
}

TEST(MeasuredOperators, RefusesWhatIsNoTime) {
  const auto read = [](const std::string& name, double value, const std::string& unit) {
    return MeasuredOperators::read(Profile("p", "", {{name, value, unit, Evidence::measured, "a test"}}));
  };
  EXPECT_TRUE(read("measured.cores1.matmul-F-fp32-1-to-1", 1, "us"));
  EXPECT_TRUE(read("measured.sms112_beside.matmul-F-fp32-1-to-1", 1, "us"));
  for (const char* name : {"measured.matmul-F", "measured.cores0.matmul-F", "measured.coresx.matmul-F",
                           "measured.cores1.", "measured.cores1", "measured.sms_beside.matmul-F",
                           "measured.beside.matmul-F", "measured.sms1_besides.matmul-F"}) {
    const auto wrong = read(name, 1, "us");
    ASSERT_FALSE(wrong) << name;
    tests::expect_error(wrong.error(), ErrorKind::input, "", 0, name, "measured.cores1.");
  }
  EXPECT_FALSE(read("measured.cores1.matmul-F", 0, "us"));
  EXPECT_FALSE(read("measured.cores1.matmul-F", 1, "GB/s"));
  EXPECT_TRUE(read("gemm.ramp", 1, "us")->empty());
}

}  // namespace
}  // namespace plumbline::model
