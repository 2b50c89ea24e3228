#include "model/cost/kernel_cost.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "model/cost/work.h"
#include "model/layers/blocks.h"
#include "tests/support/costs.h"
#include "topologies/topology.h"

namespace plumbline::model {
namespace {

using tests::between_ranks;
using tests::deepseek_rank;
using tests::find;
using tests::profile;
using tests::profile_names;
using tests::profile_with;
using tests::shipped;

class KernelTimes : public testing::Test {
 protected:
  const Graph layer_ = make_block(BlockKind::moe_layer, deepseek_rank(Precision::fp8));
  const KernelCost cost_ = KernelCost::make(profile_with({{"gemm.fp8.wave_overhead", 2},
                                                          {"gemm.fp8.k_time", 3},
                                                          {"gemm.fp8_weight_gradient.wave_overhead", 4},
                                                          {"gemm.fp8_weight_gradient.k_time", 4},
                                                          {"gemm.slowdown_beside_transfer", 1.1},
                                                          {"attention.forward_rate", 600},
                                                          {"attention.reference_sms", 132},
                                                          {"attention.slowdown_beside_transfer", 1},
                                                          {"memory.norm.bandwidth", 2},
                                                          {"memory.norm.slowdown_on_partition", 1.5},
                                                          {"memory.norm.slowdown_beside_transfer", 1.2},
                                                          {"memory.saturation_sms", 100},
                                                          {"kernel.shortest", 3},
                                                          {"kernel.launch_gap", 1}}),
                                            132)
                               .value();
  KernelTime microseconds(const std::string& name, Phase phase, std::int64_t sms) const {
    KernelTime time = cost_.time(layer_, find(layer_, name, phase), {.sms = sms});
    time.alone *= 1e6;
    time.beside *= 1e6;
    return time;
  }
};

TEST_F(KernelTimes, AProductTakesWholeWaves) {
  // [4096, 1536] is 32 * 12 = 384 tiles: 4 waves on 112 SMs, 3 on 132. A wave takes 2 us + 7168 * 3 ns.
  const double wave = 2 + 7168 * 0.003;
  EXPECT_NEAR(microseconds("q_a", Phase::F, 112).alone, 4 * wave + 1, 1e-9);
  EXPECT_NEAR(microseconds("q_a", Phase::F, 112).beside, 1.1 * 4 * wave + 1, 1e-9);
  EXPECT_NEAR(microseconds("q_a", Phase::F, 132).alone, 3 * wave + 1, 1e-9);
}

TEST_F(KernelTimes, GroupsShareWavesForwardAndNotInTheWeightGradient) {
  // Four experts of 8192 rows: 4 * 64 * 32 = 8192 tiles in 63 waves of 132.
  EXPECT_NEAR(microseconds("experts_gate_up", Phase::F, 132).alone, 63 * (2 + 7168 * 0.003) + 1, 1e-6);
  // Gradients of 7168 x 4096: 56 * 32 = 1792 tiles, 14 waves for each of the four experts, a launch each.
  EXPECT_NEAR(microseconds("experts_gate_up_wgrad", Phase::W, 132).alone, 4 * 14 * (4 + 8192 * 0.004) + 4, 1e-6);
}

TEST_F(KernelTimes, AttentionFollowsTheSms) {
  // 687.19 causal GFLOP at 600 TFLOP/s on 132 SMs; on half of them it takes twice as long.
  const double whole = 4096.0 * 4096 * 128 * 320 / 600e12 * 1e6;
  EXPECT_NEAR(microseconds("attention", Phase::F, 132).alone, whole + 1, 1e-6);
  EXPECT_NEAR(microseconds("attention", Phase::F, 66).alone, 2 * whole + 1, 1e-6);
}

TEST_F(KernelTimes, MemoryBoundKernels) {
  // 117.45 MB at 2 TB/s; on a partition a second wave; below 100 SMs the bandwidth falls in proportion.
  const double whole = (2 * 2.0 * 4096 * 7168 + 2 * 7168) / 2e12 * 1e6;
  EXPECT_NEAR(microseconds("attention_norm", Phase::F, 132).alone, whole + 1, 1e-9);
  EXPECT_NEAR(microseconds("attention_norm", Phase::F, 132).beside, 1.2 * whole + 1, 1e-9);
  EXPECT_NEAR(microseconds("attention_norm", Phase::F, 112).alone, 1.5 * whole + 1, 1e-9);
  EXPECT_NEAR(microseconds("attention_norm", Phase::F, 50).alone, 2 * 1.5 * whole + 1, 1e-9);
  // 4096 x 64 rotary keys move 1 MB, below the shortest kernel of 3 us.
  EXPECT_NEAR(microseconds("rotary_key", Phase::F, 132).alone, 3 + 1, 1e-9);
}

TEST_F(KernelTimes, SharesAddUpToTheTime) {
  for (const Operator& op : layer_.operators) {
    if (between_ranks(layer_, op)) continue;
    const KernelTime time = cost_.time(layer_, op, {.sms = 112});
    double shares = 0;
    for (const Share& share : time.shares) shares += share.seconds;
    EXPECT_NEAR(shares, time.alone, 1e-12) << op.name;
  }
}

std::vector<Graph> all_blocks() {
  std::vector<Graph> blocks;
  for (const Precision gemm : {Precision::fp8, Precision::bf16})
    for (const BlockKind kind : {BlockKind::embedding, BlockKind::dense_layer, BlockKind::moe_layer,
                                 BlockKind::multi_token_prediction, BlockKind::head})
      blocks.push_back(make_block(kind, deepseek_rank(gemm)));
  LayerContext llama = deepseek_rank(Precision::bf16);
  llama.architecture = load_architecture(shipped("examples/models/llama-3-8b.json")).value();
  llama.expert_parallel = 1;
  blocks.push_back(make_block(BlockKind::dense_layer, llama));
  return blocks;
}

class Laws : public testing::TestWithParam<std::string> {
 protected:
  const KernelCost cost_ = KernelCost::make(profile(GetParam()), 132).value();
};

TEST_P(Laws, EveryOperatorTakesTimeAndTransfersBesideItNeverHelp) {
  for (const Graph& block : all_blocks()) {
    for (const Operator& op : block.operators) {
      if (between_ranks(block, op)) continue;
      for (const std::int64_t sms : {112, 132}) {
        const KernelTime time = cost_.time(block, op, {.sms = sms});
        EXPECT_GT(time.alone, 0) << block.name << " " << op.name;
        EXPECT_GE(time.beside, time.alone) << block.name << " " << op.name;
      }
    }
  }
}

TEST_P(Laws, MoreSmsNeverSlowDownAndMoreRowsNeverSpeedUp) {
  for (const Graph& block : all_blocks()) {
    for (const Operator& op : block.operators) {
      if (between_ranks(block, op)) continue;
      double before = std::numeric_limits<double>::infinity();
      for (const std::int64_t sms : {16, 64, 100, 112, 120, 132}) {
        const double now = cost_.time(block, op, {.sms = sms}).alone;
        EXPECT_LE(now, before) << block.name << " " << op.name << " on " << sms;
        before = now;
      }
      before = 0;
      for (const double rows : {0.8, 1.0, 1.1, 1.5}) {
        const double now = cost_.time(block, op, {.sms = 132, .row_scale = rows}).alone;
        EXPECT_GE(now, before) << block.name << " " << op.name << " at " << rows;
        before = now;
      }
    }
  }
}

TEST_P(Laws, NothingBeatsThePeaks) {
  const auto cluster = topologies::load_cluster(shipped("topologies/h800-rail-fat-tree.toml"),
                                                shipped("topologies/devices"), {.gpus = 2048});
  ASSERT_TRUE(cluster) << to_string(cluster.error());
  const Device& device = cluster->device;
  EXPECT_EQ(device.fp8_peak.value(), 1979e12);
  EXPECT_EQ(device.bf16_peak.value(), 989e12);
  EXPECT_EQ(device.memory_bandwidth.value(), 3.35e12);
  for (const Graph& block : all_blocks()) {
    for (const Operator& op : block.operators) {
      if (between_ranks(block, op)) continue;
      const double seconds = cost_.time(block, op, {.sms = 132}).alone;
      const DataType operand = block.tensor(op.reads[0]).type;
      const bool fp8 = operand == DataType::fp8_tile || operand == DataType::fp8_block;
      const FlopsPerSecond peak = fp8 ? device.fp8_peak : device.bf16_peak;
      EXPECT_GE(seconds, flops(block, op, 1, true) / peak / Seconds(1)) << block.name << " " << op.name;
      EXPECT_GE(seconds, bytes_moved(block, op, 1) / device.memory_bandwidth / Seconds(1))
          << block.name << " " << op.name << " moves " << bytes_moved(block, op, 1).value() / 1e6 << " MB";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Profiles, Laws, testing::ValuesIn(profile_names), [](const auto& parameter) {
  std::string name = parameter.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

TEST(KernelCost, NamesTheConstantThatIsMissing) {
  const Profile whole = profile("h800");
  std::vector<Parameter> parameters = whole.parameters();
  std::erase_if(parameters, [](const Parameter& p) { return p.name == "gemm.fp8.k_time"; });
  const auto cost = KernelCost::make(Profile("partial", "", parameters), 132);
  ASSERT_FALSE(cost);
  EXPECT_EQ(cost.error().key, "gemm.fp8.k_time");
}

}  // namespace
}  // namespace plumbline::model
