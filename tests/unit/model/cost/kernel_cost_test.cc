#include "model/cost/kernel_cost.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "model/architecture/load_architecture.h"
#include "model/cost/work.h"
#include "model/layers/blocks.h"
#include "tests/support/costs.h"
#include "tests/support/load_cluster.h"

namespace plumbline::model {
namespace {

using tests::between_ranks;
using tests::deepseek_rank;
using tests::find;
using tests::h800_device;
using tests::number;
using tests::profile;
using tests::profile_names;
using tests::profile_with;
using tests::shipped;

// Times on an H800 of 132 SMs, of which a transfer holds 20 by default.
class KernelTimes : public testing::Test {
 protected:
  const Graph layer_ = make_block(BlockKind::moe_layer, deepseek_rank(Precision::fp8));
  const KernelCost cost_ = make({});

  // `terms`: constants that the base profile lacks.
  static KernelCost make(std::map<std::string, double> more, const std::vector<Parameter>& terms = {},
                         const SoftwareKernels& software = {}) {
    more.merge(std::map<std::string, double>{{"gemm.ramp", 5},
                                             {"gemm.fp8.wave_overhead", 2},
                                             {"gemm.fp8.k_time", 3},
                                             {"gemm.fp8_weight_gradient.wave_overhead", 4},
                                             {"gemm.fp8_weight_gradient.k_time", 4},
                                             {"gemm.bf16.wave_overhead", 1},
                                             {"gemm.bf16.k_time", 6},
                                             {"gemm.slowdown_beside_transfer", 1.1},
                                             {"attention.forward_rate", 600},
                                             {"attention.backward_rate", 400},
                                             {"attention.reference_sms", 132},
                                             {"attention.slowdown_beside_transfer", 1.2},
                                             {"memory.default.bandwidth", 2},
                                             {"memory.norm.bandwidth", 2},
                                             {"memory.norm.blocks_per_sm", 3},
                                             {"memory.swiglu.bandwidth", 2},
                                             {"memory.swiglu.saturation_sms", 120},
                                             {"kernel.latency_share", 0.5},
                                             {"kernel.shortest", 3},
                                             {"kernel.launch_gap", 1}});
    std::vector<Parameter> parameters = profile_with(more).parameters();
    parameters.insert(parameters.end(), terms.begin(), terms.end());
    return KernelCost::make(Profile("round", "", parameters), h800_device(), software).value();
  }
  double microseconds(const KernelCost& cost, const std::string& name, Phase phase,
                      const Conditions& conditions = {.sms = 132}) const {
    return cost.time(layer_, find(layer_, name, phase), conditions).seconds * 1e6;
  }
  double microseconds(const std::string& name, Phase phase, const Conditions& conditions) const {
    return cost_.time(layer_, find(layer_, name, phase), conditions).seconds * 1e6;
  }
  double microseconds(const std::string& name, Phase phase, std::int64_t sms) const {
    return microseconds(name, phase, {.sms = sms});
  }
};

// Returns the us in which tiles of 128 x 128 with so many bytes an element are written at 2 TB/s.
double written(int tiles, int bytes) { return tiles * 128.0 * 128 * bytes / 2e6; }

constexpr Conditions overlapped_transfer{.sms = 112, .held = 20, .co_runner = CoRunner::transferring};
constexpr Conditions overlapped_waiting{.sms = 112, .held = 20, .co_runner = CoRunner::waiting};

TEST_F(KernelTimes, AGemmTakesWholeWaves) {
  // [4096, 1536] is 32 * 12 = 384 tiles: 4 waves on 112 SMs, 3 on 132. A wave takes 2 us + 7168 * 3 ns; every tile
  // is written once in BF16; the kernel begins and ends in 5 us, its gap is 1 us.
  const double wave = 2 + 7168 * 0.003;
  EXPECT_NEAR(microseconds("q_a", Phase::F, 112), 5 + 4 * wave + written(384, 2) + 1, 1e-9);
  EXPECT_NEAR(microseconds("q_a", Phase::F, 132), 5 + 3 * wave + written(384, 2) + 1, 1e-9);
}

TEST_F(KernelTimes, AGemmReadsTheInnerDimensionInWholeBlocks) {
  // The input gradient of kv_a reduces over 576 columns, 4.5 blocks of 128: five are read. [4096, 7168] has
  // 32 * 56 = 1792 tiles, 16 waves on 112 SMs.
  EXPECT_NEAR(microseconds("kv_a_dgrad", Phase::I, 112), 5 + 16 * (2 + 640 * 0.003) + written(1792, 2) + 1, 1e-9);
}

TEST_F(KernelTimes, FewTilesLeaveSmsIdle) {
  // The router's 4096 x 256 are 64 tiles in BF16, which are one wave on 112 as on 132 SMs.
  const double expected = 5 + (1 + 7168 * 0.006 + written(64, 2)) + 1;
  EXPECT_NEAR(microseconds("router", Phase::F, 112), expected, 1e-9);
  EXPECT_NEAR(microseconds("router", Phase::F, 132), expected, 1e-9);
}

TEST_F(KernelTimes, GroupsShareWavesForwardAndNotInTheWeightGradient) {
  // Four experts of 8192 rows, half a tile more on average since their rows differ: 4 * 64.5 * 32 = 8256 tiles in 63
  // waves of 132.
  EXPECT_NEAR(microseconds("experts_gate_up", Phase::F, 132), 5 + 63 * (2 + 7168 * 0.003) + written(8256, 2) + 1, 1e-6);
  // Gradients of 7168 x 4096: 56 * 32 = 1792 tiles, 14 waves for each of the four experts, a launch each. FP32
  // is read and written.
  EXPECT_NEAR(microseconds("experts_gate_up_wgrad", Phase::W, 132),
              4 * 5 + 4 * 14 * (4 + 8256 * 0.004) + 4 * written(1792, 8) + 4, 1e-6);
}

// Software that launches experts one by one has a GEMM of a dense layer for each, which no other shares a wave with:
// 64.5 * 32 = 2064 tiles in 16 waves of 132.
TEST_F(KernelTimes, ExpertsLaunchedOneByOneShareNoWaves) {
  const KernelCost apart = make({}, {number("kernel.experts_apart", 1), number("gemm.fp8.grouped_slowdown", 1.5)});
  EXPECT_NEAR(microseconds(apart, "experts_gate_up", Phase::F),
              4 * (5 + 16 * (2 + 7168 * 0.003) + written(2064, 2) + 1), 1e-6);
  EXPECT_EQ(microseconds(apart, "experts_gate_up_wgrad", Phase::W),
            microseconds("experts_gate_up_wgrad", Phase::W, 132));
  EXPECT_EQ(apart.launches(layer_, find(layer_, "experts_gate_up", Phase::F)), 4);
}

TEST_F(KernelTimes, ChunksOfTokensAreGemmsOneAfterAnother) {
  // 512 tokens of 8 chunks by 129,280 words are 4 * 1010 = 4040 tiles in 31 waves of 132; the gradient of 129,280 x
  // 7168 has 56,560 tiles in 429 waves, and is read and written in FP32 by each chunk.
  LayerContext context = deepseek_rank(Precision::bf16);
  context.loss_chunks = 8;
  const Graph head = make_block(BlockKind::head, context);
  const KernelCost cost =
      make({{"gemm.bf16_weight_gradient.wave_overhead", 1}, {"gemm.bf16_weight_gradient.k_time", 6}});
  const auto times = [&](const char* name, Phase phase) {
    return cost.time(head, find(head, name, phase), {.sms = 132}).seconds * 1e6;
  };
  EXPECT_NEAR(times("output", Phase::F), 8 * (5 + 31 * (1 + 7168 * 0.006) + written(4040, 2) + 1), 1e-6);
  EXPECT_NEAR(times("output_wgrad", Phase::W), 8 * (5 + 429 * (1 + 512 * 0.006) + written(56560, 8) + 1), 1e-6);
  EXPECT_EQ(cost.launches(head, find(head, "output", Phase::F)), 8);
}

TEST_F(KernelTimes, FusedExpertsTakeTheirTilesAsSmsComeFree) {
  const KernelCost fused = make({}, {}, {.fused_experts = true});
  const auto gradients = [](int waves) { return 5 + waves * (4 + 8256 * 0.004) + written(7168, 8); };
  const auto forward = [](int waves) { return 5 + waves * (2 + 7168 * 0.003) + written(8256, 2); };
  EXPECT_EQ(fused.kernels(layer_, find(layer_, "experts_gate_up_wgrad", Phase::W)), 1);
  EXPECT_EQ(cost_.kernels(layer_, find(layer_, "experts_gate_up_wgrad", Phase::W)), 4);
  EXPECT_NEAR(microseconds(fused, "experts_gate_up_wgrad", Phase::W), gradients(55) + 1, 1e-6);
  EXPECT_NEAR(microseconds(fused, "experts_gate_up", Phase::F), forward(63) + 1, 1e-6);
  // With 20 SMs held the tiles fill waves of 112 (8256 are 74), whether the kernel was launched on those or on all.
  for (const std::int64_t sms : {112, 132}) {
    const Conditions beside{.sms = sms, .held = 20, .co_runner = CoRunner::transferring};
    EXPECT_NEAR(microseconds(fused, "experts_gate_up_wgrad", Phase::W, beside), 1.1 * gradients(64) + 1, 1e-6);
    EXPECT_NEAR(microseconds(fused, "experts_gate_up", Phase::F, beside), 1.1 * forward(74) + 1, 1e-6);
    EXPECT_EQ(microseconds(fused, "q_a", Phase::F, beside), microseconds("q_a", Phase::F, beside));
  }
}

TEST_F(KernelTimes, AGemmWithACoRunner) {
  // On the remaining SMs it takes the same time as alone. With a transfer it is slower by the shared resources, with
  // waiting ranks it is not.
  const double alone = 5 + 4 * (2 + 7168 * 0.003) + written(384, 2);
  EXPECT_NEAR(microseconds("q_a", Phase::F, overlapped_transfer), 1.1 * alone + 1, 1e-9);
  EXPECT_NEAR(microseconds("q_a", Phase::F, overlapped_waiting), alone + 1, 1e-9);
  // Launched on all 132 SMs, its 20 blocks without an SM run when the others are done.
  const double whole = 5 + 3 * (2 + 7168 * 0.003) + written(384, 2);
  EXPECT_NEAR(microseconds("q_a", Phase::F, {.sms = 132, .held = 20, .co_runner = CoRunner::transferring}),
              1.1 * 2 * whole + 1, 1e-9);
  EXPECT_NEAR(microseconds("q_a", Phase::F, {.sms = 132, .held = 20, .co_runner = CoRunner::waiting}), 2 * whole + 1,
              1e-9);
  // All 64 blocks of the router find an SM.
  EXPECT_NEAR(microseconds("router", Phase::F, {.sms = 132, .held = 20, .co_runner = CoRunner::waiting}),
              microseconds("router", Phase::F, 132), 1e-9);
}

TEST_F(KernelTimes, AttentionFollowsTheFreeSms) {
  // 687.19 causal GFLOP at 600 TFLOP/s on 132 SMs; with 66 of them held it takes twice as long.
  const double pairs = 4096.0 * 4096 * 128;
  const double whole = pairs * 320 / 600e12 * 1e6;
  EXPECT_NEAR(microseconds("attention", Phase::F, 132), whole + 1, 1e-6);
  EXPECT_NEAR(microseconds("attention", Phase::F, {.sms = 132, .held = 66, .co_runner = CoRunner::waiting}),
              2 * whole + 1, 1e-6);
  EXPECT_NEAR(microseconds("attention", Phase::F, overlapped_transfer), 1.2 * whole * 132 / 112 + 1, 1e-6);
  // The backward has five GEMMs at 400 TFLOP/s, in three kernels.
  EXPECT_NEAR(microseconds("attention_grad", Phase::I, 132), pairs * 832 / 400e12 * 1e6 + 3, 1e-6);
}

TEST_F(KernelTimes, AGridOfTheWholeGpuTakesAnotherRound) {
  // 117.45 MB at 2 TB/s, by 396 blocks, three on an SM.
  const double whole = (2 * 2.0 * 4096 * 7168 + 2 * 7168) / 2e12 * 1e6;
  EXPECT_NEAR(microseconds("attention_norm", Phase::F, 132), whole + 1, 1e-9);
  // With a transfer, 112 SMs hold 336 of them. The other 60 run one to an SM: half of the round that they would take
  // alone, and half of the third of it for which they load an SM.
  EXPECT_NEAR(microseconds("attention_norm", Phase::F, overlapped_transfer), (1 + 0.5 + 0.5 / 3) * whole + 1, 1e-9);
  // Waiting ranks leave 0.727 of an SM, two of three blocks: 336 + 40, and again a round of one to an SM.
  EXPECT_NEAR(microseconds("attention_norm", Phase::F, overlapped_waiting), (1 + 0.5 + 0.5 / 3) * whole + 1, 1e-9);
}

TEST_F(KernelTimes, SmallBlocksFillWhatIsLeft) {
  // 32768 rows read 4096 BF16 and a weight and write 2048 FP8 with scales, at 2 TB/s from 120 SMs on.
  const double whole = 32768 * (4096 * 2.0 + 4 + 2048 * 33 / 32.0) / 2e12 * 1e6;
  EXPECT_NEAR(microseconds("experts_swiglu", Phase::F, 132), whole + 1, 1e-6);
  // An SM holds 8 of its blocks (256 threads of 32 registers). A transfer (800 threads of 72 registers) leaves 1 -
  // 57600 / 65536 of one, too little for any.
  EXPECT_NEAR(microseconds("experts_swiglu", Phase::F, overlapped_transfer), whole * 120 / 112 + 1, 1e-6);
  // Waiting ranks (320 threads of 56) leave 0.727: five of eight, 112 + 20 * 5 / 8 = 124.5 SMs, enough.
  EXPECT_NEAR(microseconds("experts_swiglu", Phase::F, overlapped_waiting), whole + 1, 1e-6);
  // 120 of them held leave 12 + 120 * 5 / 8 = 87.
  EXPECT_NEAR(microseconds("experts_swiglu", Phase::F, {.sms = 132, .held = 120, .co_runner = CoRunner::waiting}),
              whole * 120 / 87 + 1, 1e-6);
  // A GEMM's block leaves 1 - 64512 / 65536 of the registers, so only the 20 SMs without one are free.
  EXPECT_NEAR(microseconds("experts_swiglu", Phase::F, {.sms = 132, .held = 112, .co_runner = CoRunner::computing}),
              whole * 120 / 20 + 1, 1e-6);
}

// All but the launch gap of 1 us takes 1 / 0.8 as long.
TEST_F(KernelTimes, MemoryBoundKernelsHaveTheBandwidthThatACollectiveLeaves) {
  const Conditions left{.sms = 132, .co_runner = CoRunner::collective, .bandwidth = 0.8};
  EXPECT_NEAR(microseconds("experts_swiglu", Phase::F, left) - 1,
              (microseconds("experts_swiglu", Phase::F, 132) - 1) / 0.8, 1e-9);
}

TEST_F(KernelTimes, NoKernelIsShorterThanTheShortest) {
  // 4096 x 64 rotary keys move 1 MB, below the shortest kernel of 3 us.
  EXPECT_NEAR(microseconds("rotary_key", Phase::F, 132), 3 + 1, 1e-9);
}

TEST_F(KernelTimes, EachKindOfGemmMayHaveItsTiles) {
  // [4096, 1536] is 16 * 12 = 192 tiles of 256 x 128, two waves of 132; half of the second is rounded up: 1.7273 waves.
  const KernelCost cost =
      make({}, {number("gemm.fp8.tile_m", 256), number("gemm.fp8.ramp", 3, "us"), number("gemm.fp8.wave_share", 0.5)});
  const double waves = 192 / 132.0 + 0.5 * (2 - 192 / 132.0);
  const double results = 192 * 256 * 128 * 2 / 2e6;
  EXPECT_NEAR(microseconds(cost, "q_a", Phase::F), 3 + waves * (2 + 7168 * 0.003) + results + 1, 1e-9);
  // Weight gradients have the same tiles and their own times: [1536, 7168] over 4096, 6 * 56 = 336 tiles.
  const double gradient_waves = 336 / 132.0 + 0.5 * (3 - 336 / 132.0);
  EXPECT_NEAR(microseconds(cost, "q_a_wgrad", Phase::W),
              3 + gradient_waves * (4 + 4096 * 0.004) + 336 * 256 * 128 * 8 / 2e6 + 1, 1e-9);
  // Other formats keep those of all.
  EXPECT_EQ(microseconds(cost, "router", Phase::F), microseconds("router", Phase::F, 132));
}

TEST_F(KernelTimes, OperandsAndResultsStreamWithTheTiles) {
  const KernelCost cost = make({}, {number("gemm.fp8.memory_bandwidth", 1, "TB/s")});
  // FP8 rows with scales and blocks of weights are read, BF16 is written, in 1 MB/us.
  const double tiles = 3 * (2 + 7168 * 0.003);
  const double megabytes = (4096 * 7168 * 33 / 32.0 + 1536 * 7168 * (1 + 4 / 16384.0) + 4096 * 1536 * 2) / 1e6;
  const double together = std::pow(std::pow(tiles, 4) + std::pow(megabytes, 4), 0.25);
  EXPECT_NEAR(microseconds(cost, "q_a", Phase::F), 5 + together + 1, 1e-9);
}

TEST_F(KernelTimes, WeightGradientsMayHideLessOfTheirMemory) {
  // [1536, 7168] over 4096 is 672 tiles, six waves of 132; the FP32 sum is read and written.
  const double tiles = 6 * (4 + 4096 * 0.004);
  const double megabytes = (4096 * (1536 + 7168) * 33 / 32.0 + 1536 * 7168 * 8) / 1e6;
  const auto rate = number("gemm.fp8_weight_gradient.memory_bandwidth", 1, "TB/s");
  const auto by = [&](double exponent) {
    return microseconds(make({}, {rate, number("gemm.fp8_weight_gradient.memory_exponent", exponent)}), "q_a_wgrad",
                        Phase::W);
  };
  EXPECT_NEAR(by(1), 5 + tiles + megabytes + 1, 1e-9);
  EXPECT_NEAR(by(2), 5 + std::hypot(tiles, megabytes) + 1, 1e-9);
  // Without one they are like the forward pass.
  const KernelCost as_forward = make({}, {rate, number("gemm.fp8.memory_exponent", 1)});
  EXPECT_NEAR(microseconds(as_forward, "q_a_wgrad", Phase::W), by(1), 1e-9);
  EXPECT_NEAR(microseconds(make({}, {rate}), "q_a_wgrad", Phase::W), by(4), 1e-9);
  EXPECT_EQ(microseconds(make({}, {rate}), "q_a", Phase::F), microseconds("q_a", Phase::F, 132));
}

TEST_F(KernelTimes, LongGemmsDroopAndGroupedOnesAreSlower) {
  const KernelCost cost = make({}, {number("gemm.fp8.memory_bandwidth", 1e6, "TB/s"), number("gemm.fp8.droop", 0.3),
                                    number("gemm.fp8.droop_time", 1, "ms"), number("gemm.fp8.grouped_slowdown", 1.5)});
  const auto drooped = [](double core) { return core * (1 + 0.3 * core / (core + 1000)); };
  EXPECT_NEAR(microseconds(cost, "q_a", Phase::F), 5 + drooped(3 * (2 + 7168 * 0.003)) + 1, 1e-6);
  EXPECT_NEAR(microseconds(cost, "experts_gate_up", Phase::F), 5 + 1.5 * drooped(63 * (2 + 7168 * 0.003)) + 1, 1e-6);
  // A weight gradient is a kernel of its own for each expert.
  EXPECT_NEAR(microseconds(cost, "experts_gate_up_wgrad", Phase::W), 4 * (5 + drooped(14 * (4 + 8256 * 0.004)) + 1),
              1e-6);
}

TEST_F(KernelTimes, FormatsFallBackOnFp8OrAreUnknown) {
  const Graph tensor = make_block(BlockKind::dense_layer, deepseek_rank(Precision::fp8_tensor));
  const Graph microscaled = make_block(BlockKind::dense_layer, deepseek_rank(Precision::mxfp8));
  const auto q_a = [](const KernelCost& cost, const Graph& graph, Phase phase) {
    const char* name = phase == Phase::W ? "q_a_wgrad" : "q_a";
    return cost.time(graph, find(graph, name, phase), {.sms = 132}).seconds * 1e6;
  };
  for (const Phase phase : {Phase::F, Phase::W}) {
    EXPECT_EQ(q_a(cost_, tensor, phase), q_a(cost_, layer_, phase));
    EXPECT_EQ(q_a(cost_, microscaled, phase), q_a(cost_, layer_, phase));
  }
  EXPECT_TRUE(cost_.has_gemm(Precision::mxfp8) && cost_.has_gemm(Precision::fp8_tensor) &&
              cost_.has_gemm(Precision::fp16));
  EXPECT_FALSE(cost_.has_gemm(Precision::nvfp4) || cost_.has_gemm(Precision::mxfp4));
  // With constants of its own a format takes them in both directions, but for a weight gradient's own.
  const KernelCost own =
      make({}, {number("gemm.fp8_tensor.wave_overhead", 1, "us"), number("gemm.fp8_tensor.k_time", 2, "ns"),
                number("gemm.nvfp4.wave_overhead", 1, "us"), number("gemm.nvfp4.k_time", 1, "ns"),
                number("gemm.nvfp4_weight_gradient.k_time", 1.5, "ns")});
  EXPECT_NEAR(q_a(own, tensor, Phase::F), 5 + 3 * (1 + 7168 * 0.002) + written(384, 2) + 1, 1e-9);
  EXPECT_NEAR(q_a(own, tensor, Phase::W), 5 + 6 * (1 + 4096 * 0.002) + written(672, 8) + 1, 1e-9);
  EXPECT_TRUE(own.has_gemm(Precision::nvfp4) && !own.has_gemm(Precision::mxfp4));
  const Graph four_bits = make_block(BlockKind::dense_layer, deepseek_rank(Precision::nvfp4));
  EXPECT_NEAR(q_a(own, four_bits, Phase::F), 5 + 3 * (1 + 7168 * 0.001) + written(384, 2) + 1, 1e-9);
  EXPECT_NEAR(q_a(own, four_bits, Phase::W), 5 + 6 * (1 + 4096 * 0.0015) + written(672, 8) + 1, 1e-9);
}

TEST_F(KernelTimes, Tf32TakesTheTimesOfBf16ByTheRatioOfThePeaks) {
  const Graph layer = make_block(BlockKind::dense_layer, deepseek_rank(Precision::tf32));
  Device device = h800_device();
  device.bf16_peak = FlopsPerSecond(990e12);
  device.tf32_peak = FlopsPerSecond(495e12);
  const Profile round = profile_with({{"gemm.ramp", 5},
                                      {"gemm.bf16.wave_overhead", 1},
                                      {"gemm.bf16.k_time", 6},
                                      {"memory.default.bandwidth", 2},
                                      {"kernel.launch_gap", 1}});
  const KernelCost cost = KernelCost::make(round, device).value();
  EXPECT_NEAR(cost.time(layer, find(layer, "q_a"), {.sms = 132}).seconds * 1e6,
              5 + 3 * (1 + 7168 * 0.012) + written(384, 4) + 1, 1e-9);
}

TEST_F(KernelTimes, CastsIntoFourBitsWriteFewerBytes) {
  const Graph layer = make_block(BlockKind::dense_layer, deepseek_rank(Precision::nvfp4));
  // The largest entry is found first: the rows are read twice.
  EXPECT_DOUBLE_EQ(bytes_moved(layer, find(layer, "cast_q_a"), 1).value(),
                   (4096 * 7168 * 2.0 + 4096 * 7168 * 0.5625) + 4096 * 7168 * 2.0);
}

TEST_F(KernelTimes, AttentionHasPairsRowsATailAndKeys) {
  const KernelCost cost =
      make({}, {number("attention.forward.pair_time", 1e-4, "ns"), number("attention.forward.row_time", 0.2, "ns"),
                number("attention.forward.tail", 0.5), number("attention.backward.row_time", 1, "ns"),
                number("attention.kv_bandwidth", 2, "TB/s"), number("attention.dim_block", 128)});
  // 192 / 128 are computed as 256 / 128; 128 heads of 4096 queries that see 2048 keys on average.
  const double rows = 4096.0 * 128, pair = 1e-13 + 2 * 384 / 600e12;
  const double tail = 0.5 * 128 * 4096 * pair * 132, keys = rows * 320 * 2 / 2e12;
  const double scaled = rows * (2048 * pair + 0.2e-9);
  EXPECT_NEAR(microseconds(cost, "attention", Phase::F), (scaled + tail + keys) * 1e6 + 1, 1e-6);
  const Operator& attention = find(layer_, "attention");
  const Conditions half{.sms = 66, .held = 66, .co_runner = CoRunner::waiting};
  EXPECT_NEAR(cost.time(layer_, attention, half).seconds * 1e6, (2 * scaled + tail + keys) * 1e6 + 1, 1e-6);
  // The bound has the pairs of the dimensions as they are, and nothing else.
  EXPECT_NEAR(cost.best(layer_, attention), rows * 2048 * (1e-13 + 2 * 320 / 600e12), 1e-12);
  // Backward 3 x 256 + 2 x 128; keys and values are read, their gradients written.
  EXPECT_NEAR(microseconds(cost, "attention_grad", Phase::I),
              (rows * (2048 * 2 * 1024 / 400e12 + 1e-9) + 2 * keys) * 1e6 + 3, 1e-6);
}

TEST_F(KernelTimes, ALowerClockSlowsTensorCoresOnly) {
  const KernelCost slow = make({{"kernel.sustained_clock", 0.8}});
  const auto ratio = [&](const std::string& name, Phase phase) {
    const Operator& op = find(layer_, name, phase);
    const double gaps = cost_.kernels(layer_, op) * 1e-6;
    const Conditions whole{.sms = 132};
    return (slow.time(layer_, op, whole).seconds - gaps) / (cost_.time(layer_, op, whole).seconds - gaps);
  };
  EXPECT_NEAR(ratio("q_a", Phase::F), 1.25, 1e-9);
  EXPECT_NEAR(ratio("attention_grad", Phase::I), 1.25, 1e-9);
  EXPECT_NEAR(ratio("attention_norm", Phase::F), 1, 1e-9);
}

std::vector<Conditions> all_conditions() {
  std::vector<Conditions> all = {{.sms = 112}, {.sms = 132}};
  for (const CoRunner co_runner : {CoRunner::waiting, CoRunner::transferring})
    for (const std::int64_t sms : {112, 132}) all.push_back({.sms = sms, .held = 20, .co_runner = co_runner});
  return all;
}

// Returns the constants that operators of the graph cost time by; expects that their shares add up to it.
std::set<std::int32_t> charged_constants(const KernelCost& cost, const Graph& graph) {
  std::set<std::int32_t> charged;
  for (const Operator& op : graph.operators) {
    if (between_ranks(graph, op)) continue;
    for (const Conditions& conditions : all_conditions()) {
      const KernelTime time = cost.time(graph, op, conditions);
      double shares = 0;
      for (const Share& share : time.shares) {
        shares += share.seconds;
        if (share.seconds > 0) charged.insert(share.index);
      }
      EXPECT_NEAR(shares, time.seconds, 1e-12) << op.name;
    }
  }
  return charged;
}

TEST_F(KernelTimes, SharesAddUpToTheTime) {
  charged_constants(cost_, layer_);
  const Profile profile = tests::with_every_term(tests::profile("h800"));
  const auto charged = charged_constants(KernelCost::make(profile, h800_device()).value(), layer_);
  EXPECT_FALSE(charged.contains(-1));
  for (const char* name : {"gemm.fp8.memory_bandwidth", "gemm.fp8.droop", "gemm.fp8.ramp", "attention.forward.tail",
                           "attention.forward.pair_time", "attention.backward.row_time", "attention.kv_bandwidth"})
    EXPECT_TRUE(charged.contains(static_cast<std::int32_t>(profile.find(name).value()))) << name;
}

// Returns the forward GEMMs of the block as those of a pass of inference.
Graph for_inference(Graph block) {
  std::erase_if(block.operators, [&](const Operator& op) {
    return op.phase != Phase::F || operator_class(block, op) != OperatorClass::gemm;
  });
  block.inference = true;
  return block;
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
  for (const std::int64_t tokens : {16, 256, 4096}) {
    LayerContext pass = deepseek_rank(Precision::fp8);
    pass.tokens = pass.sequence_length = tokens;
    blocks.push_back(for_inference(make_block(BlockKind::moe_layer, pass)));
  }
  return blocks;
}

constexpr const char* every_term = "every-term";

std::vector<std::string> law_profiles() {
  std::vector<std::string> names = profile_names;
  names.emplace_back(every_term);
  return names;
}
Profile profile_of(const std::string& name) {
  return name == every_term ? tests::with_every_term(profile("h800")) : profile(name);
}

class Laws : public testing::TestWithParam<std::string> {
 protected:
  const KernelCost cost_ = KernelCost::make(profile_of(GetParam()), h800_device()).value();

  double seconds(const Graph& block, const Operator& op, const Conditions& conditions) const {
    return cost_.time(block, op, conditions).seconds;
  }
};

TEST_P(Laws, EveryOperatorTakesTimeAndCoRunnersNeverHelp) {
  for (const Graph& block : all_blocks()) {
    for (const Operator& op : block.operators) {
      if (between_ranks(block, op)) continue;
      for (const std::int64_t sms : {112, 132}) {
        SCOPED_TRACE(block.name + " " + op.name + " on " + std::to_string(sms));
        const double alone = seconds(block, op, {.sms = sms});
        const double waiting = seconds(block, op, {.sms = sms, .held = 20, .co_runner = CoRunner::waiting});
        EXPECT_GT(alone, 0);
        EXPECT_GE(waiting, alone);
        EXPECT_GE(seconds(block, op, {.sms = sms, .held = 20, .co_runner = CoRunner::transferring}), waiting);
      }
    }
  }
}

TEST_P(Laws, FewerSmsNeverSpeedUp) {
  for (const Graph& block : all_blocks()) {
    for (const Operator& op : block.operators) {
      if (between_ranks(block, op)) continue;
      for (const CoRunner co_runner : {CoRunner::waiting, CoRunner::transferring}) {
        double before = std::numeric_limits<double>::infinity();
        for (const std::int64_t sms : {16, 64, 100, 112, 120, 131}) {
          const double now = seconds(block, op, {.sms = sms, .held = 132 - sms, .co_runner = co_runner});
          EXPECT_LE(now, before) << block.name << " " << op.name << " on " << sms;
          before = now;
        }
        EXPECT_LE(seconds(block, op, {.sms = 132}), before) << block.name << " " << op.name << " on all";
      }
    }
  }
}

TEST_P(Laws, MoreRowsNeverSpeedUp) {
  for (const Graph& block : all_blocks()) {
    for (const Operator& op : block.operators) {
      if (between_ranks(block, op)) continue;
      double before = 0;
      for (const double rows : {0.8, 1.0, 1.1, 1.5}) {
        const double now = seconds(block, op, {.sms = 132, .row_scale = rows});
        EXPECT_GE(now, before) << block.name << " " << op.name << " at " << rows;
        before = now;
      }
    }
  }
}

TEST_P(Laws, RowsOfExpertsMoveOnlyWhatVariesWithThem) {
  for (const Graph& block : all_blocks()) {
    for (const Operator& op : block.operators) {
      if (between_ranks(block, op) || varies_with_rows(block, op)) continue;
      for (Conditions conditions : all_conditions()) {
        const double expected = seconds(block, op, conditions);
        conditions.row_scale = 2;
        EXPECT_EQ(seconds(block, op, conditions), expected) << block.name << " " << op.name;
      }
    }
  }
}

TEST_P(Laws, NothingIsBelowTheBestOnItsSms) {
  for (const Graph& block : all_blocks()) {
    for (const Operator& op : block.operators) {
      if (between_ranks(block, op)) continue;
      const double best = cost_.best(block, op);
      EXPECT_GT(best, 0) << block.name << " " << op.name;
      for (const Conditions& conditions : all_conditions()) {
        const double seconds = this->seconds(block, op, conditions);
        const double share = is_gemm(operator_class(block, op)) ? static_cast<double>(conditions.sms) / 132 : 1;
        EXPECT_GE(seconds * share, best) << block.name << " " << op.name;
      }
    }
  }
}

TEST_P(Laws, NothingBeatsThePeaks) {
  const auto cluster =
      tests::load_cluster(shipped("topologies/h800-rail-fat-tree.toml"), shipped("topologies/devices"), {.gpus = 2048});
  ASSERT_TRUE(cluster) << to_string(cluster.error());
  const Device& device = cluster->device;
  EXPECT_EQ(device.fp8_peak.value(), 1979e12);
  EXPECT_EQ(device.bf16_peak.value(), 989e12);
  EXPECT_EQ(device.memory_bandwidth.value(), 3.35e12);
  for (const Graph& block : all_blocks()) {
    for (const Operator& op : block.operators) {
      if (between_ranks(block, op)) continue;
      const double seconds = this->seconds(block, op, {.sms = 132});
      const DataType operand = block.tensor(op.reads[0]).type;
      const bool fp8 = operand == DataType::fp8_tile || operand == DataType::fp8_block;
      const FlopsPerSecond peak = fp8 ? device.fp8_peak : device.bf16_peak;
      EXPECT_GE(seconds, flops(block, op, 1, true) / peak / Seconds(1)) << block.name << " " << op.name;
      EXPECT_GE(seconds, bytes_moved(block, op, 1) / device.memory_bandwidth / Seconds(1))
          << block.name << " " << op.name << " moves " << bytes_moved(block, op, 1).value() / 1e6 << " MB";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Profiles, Laws, testing::ValuesIn(law_profiles()), [](const auto& parameter) {
  std::string name = parameter.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

TEST(KernelCost, NamesTheConstantThatIsMissing) {
  const Profile whole = profile("h800");
  std::vector<Parameter> parameters = whole.parameters();
  std::erase_if(parameters, [](const Parameter& p) { return p.name == "gemm.fp8.k_time"; });
  const auto cost = KernelCost::make(Profile("partial", "", parameters), h800_device());
  ASSERT_FALSE(cost);
  EXPECT_EQ(cost.error().key, "gemm.fp8.k_time");
}

// q_a: 384 tiles of 7168 * 3 ns on 132 SMs. Attention is only reduced by its gap. experts_swiglu and the rotary keys (1
// MB, below the shortest kernel) take their bytes at 2 and 3.3 TB/s.
TEST_F(KernelTimes, BestIsTheRateWithoutRampsWavesAndGaps) {
  const auto best = [this](const char* name) { return cost_.best(layer_, find(layer_, name)) * 1e6; };
  EXPECT_NEAR(best("q_a"), 384 * 7168 * 0.003 / 132, 1e-9);
  EXPECT_NEAR(best("attention"), microseconds("attention", Phase::F, 132) - 1, 1e-9);
  EXPECT_NEAR(best("experts_swiglu"), microseconds("experts_swiglu", Phase::F, 132) - 1, 1e-9);
  const Operator& rotary = find(layer_, "rotary_key");
  EXPECT_NEAR(best("rotary_key"), bytes_moved(layer_, rotary, 1).value() / 3.3e6, 1e-9);
  EXPECT_EQ(cost_.time(layer_, rotary, {.sms = 132}).gaps, 1e-6);
}

// One GEMM of M x 7168 by 7168 x 1536 of a pass of inference, with constants for few rows.
TEST_F(KernelTimes, GemmsOfFewRowsJoinThoseOfManyRows) {
  const KernelCost cost = make({{"gemm.fp8.small_m_start", 2},
                                {"gemm.fp8.small_m_bandwidth", 2.8},
                                {"gemm.fp8.small_m_k_time", 0.5},
                                {"gemm.fp8.small_m_rate", 1200}});
  Graph graph = for_inference(layer_);
  const Operator op = find(graph, "q_a");
  const auto at = [&](std::int64_t rows) {
    for (const TensorId id : {op.reads[0], op.writes[0]}) graph.tensors[id].shape[0].size = rows;
    return cost.time(graph, op, {.sms = 132});
  };
  const double n = static_cast<double>(graph.tensor(op.writes[0]).shape[1].size);
  // One row: 2 us, the gap of 1 us, and the weights of 128 x 128 scales.
  const double bytes = n * 7168 * (1 + 4.0 / 16384) + 7168 * (1 + 4.0 / 128) + 2 * n;
  const double compute = 7168 * 0.5e-9 + 2 * 64 * n * 7168 / 1200e12, memory = bytes / 2.8e12;
  EXPECT_NEAR(at(1).seconds, 3e-6 + std::cbrt(std::pow(compute, 3) + std::pow(memory, 3)), 1e-12);
  double before = 0;
  for (const std::int64_t rows : {1, 8, 64, 65, 128, 500, 512, 513, 514, 600, 1024, 2048, 16384, 262144}) {
    const KernelTime time = at(rows);
    EXPECT_GE(time.seconds, before) << rows;
    EXPECT_GE(time.seconds, cost.best(graph, op)) << rows;
    double shares = 0;
    for (const Share& share : time.shares) shares += share.seconds;
    EXPECT_NEAR(shares, time.seconds, 1e-15);
    before = time.seconds;
  }
  EXPECT_NEAR(at(513).seconds / at(512).seconds, 1, 0.15);  // the tiles of large GEMMs are whole ones
  const double many = at(262144).seconds;
  Graph training = graph;
  training.inference = false;
  EXPECT_NEAR(many / cost.time(training, op, {.sms = 132}).seconds, 1, 0.01);
}

// Where the GPU multiplies 16 rows at a time, a row takes a quarter of a tile of 64.
TEST_F(KernelTimes, TheLeastTileOfFewRowsIsTheProfiles) {
  const std::map<std::string, double> hopper = {{"gemm.fp8.small_m_start", 2},
                                                {"gemm.fp8.small_m_bandwidth", 1e6},
                                                {"gemm.fp8.small_m_k_time", 1e-9},
                                                {"gemm.fp8.small_m_rate", 1200}};
  Graph graph = for_inference(layer_);
  const Operator op = find(graph, "q_a");
  for (const TensorId id : {op.reads[0], op.writes[0]}) graph.tensors[id].shape[0].size = 1;
  const auto product = [&](const std::vector<Parameter>& more) {
    return make(hopper, more).time(graph, op, {.sms = 132}).seconds - 3e-6;  // less the start and the gap
  };
  EXPECT_NEAR(product({}) / product({number("gemm.small_m_tile", 16)}), 4, 0.01);
}

// Experts without rows are not read: 4 of them in half the time of 8, and less their start.
TEST_F(KernelTimes, OnlyExpertsWithRowsAreRead) {
  LayerContext pass = deepseek_rank(Precision::fp8);
  pass.tokens = pass.sequence_length = 16;
  Graph graph = for_inference(make_block(BlockKind::moe_layer, pass));
  Operator op = *std::ranges::find(graph.operators, OperatorKind::grouped_matmul, &Operator::kind);
  const KernelCost cost = make({{"gemm.fp8.grouped_small_m_start", 5}});
  const auto hit = [&](double experts) {
    std::get<MatmulAttributes>(op.attributes).groups_hit = experts;
    return cost.time(graph, op, {.sms = 132}).seconds;
  };
  const double fixed = 6e-6;                                 // the start and the gap
  EXPECT_NEAR((hit(4) - fixed) / (hit(2) - fixed), 2, 0.1);  // the rows are the same
  EXPECT_EQ(hit(0), hit(static_cast<double>(graph.tensor(op.reads[1]).shape[0].size)));
}

// 2,048 rows of one expert, by constants that hold up to 4,096: its products at 800 TFLOP/s over up to a tile of 64
// rows more, and 2 ps for each element of the rows. Kernels with an index have half the rate and no time of rows; an
// engine that has them takes them where no dispatch brings the rows.
TEST_F(KernelTimes, ExpertsRunInTheKernelOfTheEngine) {
  Graph graph = layer_;
  graph.inference = true;
  Operator op = find(graph, "experts_gate_up");
  std::get<MatmulAttributes>(op.attributes).groups_hit = 1;
  for (const TensorId id : {op.reads[0], op.writes[0]}) graph.tensors[id].shape[0].size = 2048;
  const auto k = static_cast<double>(graph.tensor(op.reads[0]).shape[1].size);
  const auto n = static_cast<double>(graph.tensor(op.writes[0]).shape[1].size);
  std::vector<Parameter> constants = {number("gemm.fp8.grouped_small_m_row_time", 2, "ps"),
                                      number("gemm.fp8.grouped_small_m_rows", 4096, "1"),
                                      number("gemm.fp8.indexed_small_m_start", 5, "us"),
                                      number("gemm.fp8.indexed_small_m_bandwidth", 1e6, "TB/s"),
                                      number("gemm.fp8.indexed_small_m_rate", 400, "TFLOP/s"),
                                      number("gemm.fp8.indexed_small_m_rows", 4096, "1")};
  const double fixed = 6e-6;  // the start and the gap
  const auto seconds = [&] {
    const KernelCost cost = make({{"gemm.fp8.grouped_small_m_start", 5},
                                  {"gemm.fp8.grouped_small_m_bandwidth", 1e6},
                                  {"gemm.fp8.grouped_small_m_rate", 800}},
                                 constants);
    const double time = cost.time(graph, op, {.sms = 132}).seconds;
    EXPECT_GE(time, cost.best(graph, op));
    return time - fixed;
  };
  const double own = seconds(), rows = 2048 * (k + n) * 2e-12, products = 2 * 2048 * n * k / 800e12;
  EXPECT_GE(own, (products + rows) * (1 - 1e-9));
  EXPECT_LE(own, products * 2112 / 2048 + rows + 1e-8);
  constants.push_back(number("serving.indexed_experts", 1, "1"));
  EXPECT_EQ(seconds(), own);  // a dispatch brings the rows
  std::erase_if(graph.operators, [](const Operator& other) { return other.kind == OperatorKind::dispatch; });
  const double indexed = seconds();
  EXPECT_NEAR(indexed, 2 * (own - rows), 1e-8);
  graph.tensors[op.reads[1]].type = DataType::mxfp4;
  EXPECT_NEAR(seconds(), own, 1e-8) << "kernels that widen weights have no index";
  graph.tensors[op.reads[1]].type = DataType::fp8_block;
  // Beyond the rows that they were measured with, such kernels are as much slower than large GEMMs as there.
  for (const TensorId id : {op.reads[0], op.writes[0]}) graph.tensors[id].shape[0].size = 16384;
  EXPECT_GT(seconds(), 0.9 * 8 * indexed);
}

// Four ranks share 4,096 tokens: each runs four kernels of 1,024 queries and 128 heads, so that the time of rows counts
// four times; a kernel has two more that merge its result.
TEST_F(KernelTimes, ARingIsAKernelForTheKeysOfEachRank) {
  LayerContext context = deepseek_rank(Precision::fp8);
  context.context = 4;
  context.tokens = 1024;
  const Graph ring = make_block(BlockKind::moe_layer, context);
  const Operator& op = find(ring, "attention");
  const KernelCost with_rows = make({}, {{.name = "attention.forward.row_time", .value = 0.1, .unit = "ns"}});
  const KernelTime without = cost_.time(ring, op, {.sms = 132});
  EXPECT_NEAR(with_rows.time(ring, op, {.sms = 132}).seconds - without.seconds, 4 * 1024 * 128 * 0.1e-9, 1e-12);
  EXPECT_EQ(cost_.kernels(ring, op), 12);
  EXPECT_NEAR(without.gaps, 12e-6, 1e-12);
  // The pairs of query and key are those of a quarter of the whole; merging moves 3 * 4 * 1,024 * 128 * 128 values.
  const double pairs = cost_.time(layer_, find(layer_, "attention"), {.sms = 132}).seconds - 1e-6;
  const double merging = without.seconds - without.gaps - pairs / 4;
  EXPECT_GT(merging, 0);
  EXPECT_LT(merging, 12 * 1024.0 * 128 * 128 * 2 / 1e12);  // at 1 TB/s
  EXPECT_GE(without.seconds, cost_.best(ring, op));
  EXPECT_EQ(cost_.kernels(ring, find(ring, "attention_grad", Phase::I)), 3 * 4 + 2 * 3);
}

}  // namespace
}  // namespace plumbline::model
