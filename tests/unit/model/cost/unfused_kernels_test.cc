// What software does beyond one fused kernel an operator: several kernels, another kernel of attention, rows that are
// not aligned, gradients that no GEMM accumulates, and casts to FP8 that are shared or not.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "model/cost/kernel_cost.h"
#include "model/cost/work.h"
#include "model/layers/blocks.h"
#include "model/memory/memory.h"
#include "model/plan/plan.h"
#include "model/profile/stack.h"
#include "model/program/data_parallel.h"
#include "model/program/program.h"
#include "tests/support/costs.h"
#include "tests/support/inputs.h"

namespace plumbline::model {
namespace {

using tests::find;
using tests::h800_device;
using tests::number;
using tests::profile;

// A layer with SwiGLU and grouped-query attention: 4096 tokens in two sequences, 8 heads, 512 columns.
LayerContext rank(std::int64_t head_dim = 64) {
  LayerContext c;
  c.architecture = {.hidden_size = 8 * head_dim,
                    .heads = 8,
                    .key_value_heads = 8,
                    .head_dim = head_dim,
                    .intermediate_size = 1024,
                    .vocabulary = 1000};
  c.tokens = 4096;
  c.sequence_length = 2048;
  return c;
}

KernelCost cost(std::vector<Parameter> more = {}, const SoftwareKernels& software = {}) {
  const Profile base = profile("h800");
  std::vector<Parameter> parameters = base.parameters();
  for (Parameter& constant : more) parameters.push_back(std::move(constant));
  return KernelCost::make(Profile("unfused", "", parameters), h800_device(), software).value();
}

struct Kernels {  // seconds with and without the gaps between launches
  double seconds = 0, work = 0;
};
Kernels time(const KernelCost& cost, const Graph& graph, const std::string& name, Phase phase = Phase::F) {
  const KernelTime time = cost.time(graph, find(graph, name, phase), {.sms = 132});
  return {time.seconds, time.seconds - time.gaps};
}

TEST(UnfusedKernels, MoveTheirBytesSeveralTimes) {
  const Graph layer = make_block(BlockKind::dense_layer, rank());
  const KernelCost fused = cost(),
                   unfused = cost({number("kernel.swiglu.passes", 5), number("kernel.swiglu.launches", 3)});
  const Kernels one = time(fused, layer, "swiglu"), several = time(unfused, layer, "swiglu");
  EXPECT_NEAR(several.work, 5 * one.work, 1e-12);
  EXPECT_NEAR(several.seconds - several.work, 3 * (one.seconds - one.work), 1e-12);
  EXPECT_NEAR(unfused.best(layer, find(layer, "swiglu")), 5 * fused.best(layer, find(layer, "swiglu")), 1e-12);
  // Other classes are as they were.
  EXPECT_EQ(time(unfused, layer, "swiglu_grad", Phase::I).seconds, time(fused, layer, "swiglu_grad", Phase::I).seconds);
}

TEST(UnfusedKernels, AnOperatorsConstantsComeBeforeThoseOfItsClass) {
  const Graph layer = make_block(BlockKind::dense_layer, rank());
  const KernelCost both = cost(
      {number("kernel.elementwise.passes", 4), number("kernel.split.passes", 0), number("kernel.split.launches", 0)});
  EXPECT_NEAR(time(both, layer, "attention_residual").work, 4 * time(cost(), layer, "attention_residual").work, 1e-12);
  EXPECT_EQ(time(both, layer, "split_qkv").seconds, 0);  // a view is no kernel
}

// 512 rows of 128,256 logits of 2 B are 131 MB, and 35 passes over them the copy of 32 bits, the temperature, softmax
// and the draw of an engine that calls PyTorch for each.
TEST(UnfusedKernels, ADrawnTokenPassesOverItsLogits) {
  LayerContext c = rank();
  c.architecture.vocabulary = 128256;
  c.tokens = 512;
  c.inference = {.kind = InferencePass::Kind::decode, .requests = 512, .new_tokens = 1, .cached_tokens = 1024};
  const Graph head = make_block(BlockKind::head, c);
  const KernelCost drawn = cost({number("kernel.sample.passes", 35), number("kernel.sample.launches", 10)});
  const Kernels largest = time(cost(), head, "sample"), several = time(drawn, head, "sample");
  EXPECT_NEAR(several.work, 35 * largest.work, 1e-12);
  EXPECT_NEAR(several.seconds - several.work, 10 * (largest.seconds - largest.work), 1e-12);
}

TEST(UnfusedKernels, ALossMovesWhatItsKernelDoes) {
  LayerContext c = rank();
  c.architecture.vocabulary = 128'000;
  const Graph head = make_block(BlockKind::head, c);
  const std::vector<Parameter> stated = {number("kernel.cross_entropy.passes", 15),
                                         number("kernel.cross_entropy.fused_in_place.passes", 3),
                                         number("kernel.cross_entropy.fused_in_place.launches", 4)};
  const KernelCost native = cost(stated, {.loss = "fused"}), in_place = cost(stated, {.loss = "fused_in_place"});
  EXPECT_NEAR(time(native, head, "cross_entropy").work, 5 * time(in_place, head, "cross_entropy").work, 1e-12);
  EXPECT_EQ(in_place.launches(head, find(head, "cross_entropy")), 4);
  EXPECT_EQ(native.launches(head, find(head, "cross_entropy")), 1);
}

// A fused loss reads logits of 2 B. Composer's two metrics of training each cast them to FP32, 6 B, and take a
// log_softmax of that, which reads a row for its maximum, its sum and its result and writes it, 16 B.
TEST(UnfusedKernels, MetricsOfTrainingReadTheLogitsAgain) {
  LayerContext c = rank();
  c.architecture.vocabulary = 128'000;
  const Graph head = make_block(BlockKind::head, c);
  std::vector<Parameter> of_loss;
  const Stack foundry = load_stack(tests::shipped("calibrate/stacks/llm-foundry.toml")).value();
  for (const Parameter& constant : foundry.parameters)
    if (constant.name.starts_with("kernel.cross_entropy.")) of_loss.push_back(constant);
  ASSERT_EQ(of_loss.size(), 2u);
  const KernelCost metrics = cost(of_loss, {.loss = "fused"});
  EXPECT_NEAR(time(metrics, head, "cross_entropy").work, (2 + 2 * 22) / 2 * time(cost(), head, "cross_entropy").work,
              1e-12);
  EXPECT_EQ(metrics.launches(head, find(head, "cross_entropy")), 1 + 2 * 3);
}

TEST(UnfusedKernels, AShortKernelTakesTheShortestTimePerLaunch) {
  LayerContext few = rank();
  few.tokens = few.sequence_length = 16;
  const Graph layer = make_block(BlockKind::dense_layer, few);
  const KernelCost unfused = cost({number("kernel.swiglu.launches", 3)});
  EXPECT_NEAR(time(unfused, layer, "swiglu").work, 3 * time(cost(), layer, "swiglu").work, 1e-12);
}

TEST(UnfusedKernels, RoutingLaunchesWhatItsSoftwareDoes) {
  LayerContext c = tests::deepseek_rank(Precision::fp8_tensor);
  const std::vector<Parameter> counted = {
      number("kernel.router.launches", 27),         number("kernel.router.sigmoid.launches", 40),
      number("kernel.router.fused.launches", 9),    number("kernel.permute.launches", 18),
      number("kernel.permute.deepep.launches", 47), number("kernel.permute.fused.launches", 5),
      number("kernel.cast.current.launches", 4),    number("kernel.experts_apart", 1)};
  const auto launches = [&](const std::string& name, const SoftwareKernels& software, Phase phase = Phase::F) {
    const Graph layer = make_block(BlockKind::moe_layer, c);
    return cost(counted, software).launches(layer, find(layer, name, phase));
  };
  EXPECT_EQ(launches("router_choice", {}), 40);  // of groups, for which nothing is stated
  EXPECT_EQ(launches("router_choice", {.fused_router = true}), 9);
  EXPECT_EQ(launches("router_choice", {.fused_permute = true}), 40);
  EXPECT_EQ(launches("router_choice", {.loss = "fused"}), 40);  // a loss of that name fuses no router
  EXPECT_EQ(launches("permute", {.dispatcher = "hybridep", .loss = "fused"}), 18);
  EXPECT_EQ(launches("permute", {.dispatcher = "hybridep"}), 18);
  EXPECT_EQ(launches("permute", {.dispatcher = "deepep"}), 47);
  EXPECT_EQ(launches("permute", {.dispatcher = "deepep", .fused_permute = true}), 5);
  EXPECT_EQ(launches("experts_down", {}), 4);  // experts of the rank
  EXPECT_EQ(launches("experts_down_dgrad", {}, Phase::I), 4);
  EXPECT_EQ(launches("experts_down_wgrad", {}, Phase::W), 4);
  EXPECT_EQ(launches("cast_experts_down", {}), 16);
  EXPECT_EQ(launches("cast_experts_down_weight", {}), 16);
  c.dispatcher = Dispatcher::allgather;
  EXPECT_EQ(launches("permute", {.dispatcher = "allgather"}), 18);
  // Rows that an all-to-all brought are sorted by chunks.
  c.dispatcher = Dispatcher::alltoall;
  EXPECT_EQ(launches("copy_tokens", {.dispatcher = "alltoall"}), 18);
  EXPECT_EQ(launches("permute", {.dispatcher = "alltoall"}), 1);
}

// Each is as short as kernels are, and all together take more by the scores, here of 4096 tokens and 256 experts. Where
// none are counted, the profile's router contains both.
TEST(UnfusedKernels, ARoutersKernelsAreShortButForItsScores) {
  const Graph layer = make_block(BlockKind::moe_layer, tests::deepseek_rank(Precision::bf16));
  const std::vector<Parameter> pairs = {number("router.forward_pair_time", 0.5, "ns"),
                                        number("router.fused.forward_pair_time", 0.25, "ns"),
                                        number("router.backward_pair_time", 1, "ns")};
  std::vector<Parameter> counted = pairs;
  for (const auto& [name, launches] :
       {std::pair("kernel.router.launches", 30), std::pair("kernel.router.fused.launches", 9),
        std::pair("kernel.router_grad.launches", 20)})
    counted.push_back(number(name, launches));
  const double shortest = 3e-6, gap = 2e-6, scores = 4096 * 256;  // of the H800
  const auto expect = [&](const Kernels& kernels, double launches, double score) {
    EXPECT_NEAR(kernels.work, launches * shortest + score * scores, 1e-12);
    EXPECT_NEAR(kernels.seconds - kernels.work, launches * gap, 1e-12);
  };
  expect(time(cost(counted), layer, "router_choice"), 30, 0.5e-9);
  expect(time(cost(counted, {.fused_router = true}), layer, "router_choice"), 9, 0.25e-9);
  expect(time(cost(counted), layer, "router_choice_grad", Phase::I), 20, 1e-9);
  EXPECT_NEAR(cost(counted).best(layer, find(layer, "router_choice")), 30 * shortest + 0.5e-9 * scores, 1e-12);
  EXPECT_EQ(time(cost(pairs), layer, "router_choice").seconds, time(cost(), layer, "router_choice").seconds);
}

// Rows of 16 bits are read and written by one kernel more on each way to and from the experts, where these are
// quantized.
TEST(UnfusedKernels, RowsOfQuantizedExpertsArePadded) {
  LayerContext c = tests::deepseek_rank(Precision::fp8_tensor);
  c.dispatch = Precision::bf16;
  c.dispatcher = Dispatcher::alltoall;
  const SoftwareKernels software{.dispatcher = "alltoall"};
  const KernelCost plain = cost({}, software), padding = cost({number("permute.alltoall.padding_passes", 1)}, software);
  const KernelCost of_another = cost({number("permute.deepep.padding_passes", 1)}, software);
  const std::vector<Parameter> unless_fused = {number("permute.alltoall.padding_passes", 1),
                                               number("permute.alltoall.fused.padding_passes", 0)};
  const auto added = [&](const KernelCost& to, const std::string& name, Phase phase = Phase::F) {
    const Graph layer = make_block(BlockKind::moe_layer, c);
    return time(to, layer, name, phase).work - time(plain, layer, name, phase).work;
  };
  const double copy = added(padding, "permute");
  EXPECT_GT(copy, 4096.0 * 8 * 7168 * 4 / 3.35e12);
  EXPECT_NEAR(added(padding, "unpermute"), copy, 1e-12);
  EXPECT_NEAR(added(padding, "unpermute_grad", Phase::I), copy, 1e-12);
  EXPECT_NEAR(added(padding, "permute_grad", Phase::I), copy, 1e-12);
  EXPECT_EQ(added(padding, "copy_tokens"), 0);
  EXPECT_EQ(added(padding, "sum_copies"), 0);
  EXPECT_EQ(added(of_another, "permute"), 0);
  EXPECT_EQ(added(cost(unless_fused, software), "permute"), copy);
  EXPECT_EQ(added(cost(unless_fused, {.dispatcher = "alltoall", .fused_permute = true}), "permute"), 0);
  const Graph layer = make_block(BlockKind::moe_layer, c);
  const Operator& permute = find(layer, "permute");
  EXPECT_EQ(padding.launches(layer, permute), plain.launches(layer, permute) + 1);
  const double copied = 4 * layer.tensor(permute.writes[0]).elements(), moved = bytes_moved(layer, permute, 1).value();
  EXPECT_NEAR(padding.time(layer, permute, {.sms = 132}).passes, 1 + copied / moved, 1e-12);
  c.even_rows = true;  // each as many as its capacity
  EXPECT_EQ(added(padding, "permute"), 0);
  c.even_rows = false;
  c.gemm = Precision::bf16;
  EXPECT_EQ(added(padding, "permute"), 0);
}

// HybridEP looks for a token's rows among those of all experts of the rank: of sums once and for every 1,024 columns,
// of copies meanwhile.
TEST(UnfusedKernels, RowsAreSearchedAmongTheExpertsOfTheRank) {
  LayerContext c = tests::deepseek_rank(Precision::bf16);
  c.dispatcher = Dispatcher::hybridep;
  const SoftwareKernels software{.dispatcher = "hybridep"};
  const Graph layer = make_block(BlockKind::moe_layer, c);
  const auto added = [&](double copy, const std::string& name, Phase phase = Phase::F) {
    const KernelCost search =
        cost({number("permute.hybridep.search_start", 2, "ns"), number("permute.hybridep.search_time", 1, "ns"),
              number("permute.hybridep.copy_search_time", copy, "ns")},
             software);
    return time(search, layer, name, phase).work - time(cost({}, software), layer, name, phase).work;
  };
  const auto received = static_cast<double>(layer.tensor(find(layer, "unpermute").writes[0]).shape[0].size);
  for (const auto& [sum, copy, backward] :
       {std::tuple("unpermute", "permute", false), std::tuple("permute_grad", "unpermute_grad", true)}) {
    const Phase phase = backward ? Phase::I : Phase::F;
    EXPECT_NEAR(added(1, sum, phase), received * 4 * (2 + 7) * 1e-9, 1e-12) << sum;
    EXPECT_EQ(added(0.01, copy, phase), 0) << copy;
    EXPECT_NEAR(added(200, copy, phase) - added(100, copy, phase), received * 4 * 100e-9, 1e-12) << copy;
  }
}

TEST(UnfusedKernels, APermutationMayRunAtTheRateOfCopies) {
  LayerContext c = tests::deepseek_rank(Precision::bf16);
  c.dispatcher = Dispatcher::hybridep;
  const Graph layer = make_block(BlockKind::moe_layer, c);
  const auto slower = [&](const std::string& name, Phase phase) {
    const SoftwareKernels software{.dispatcher = "hybridep"};
    const KernelCost copies = cost({number("permute.hybridep.at_copy_rate", 1)}, software);
    return time(cost({}, software), layer, name, phase).work / time(copies, layer, name, phase).work;
  };
  const Profile base = profile("h800");
  const auto rate = [&](const char* of) { return base.parameters()[*base.find(of)].value; };
  ASSERT_GT(rate("memory.default.bandwidth"), rate("memory.permute.bandwidth"));
  EXPECT_NEAR(slower("unpermute_grad", Phase::I), rate("memory.default.bandwidth") / rate("memory.permute.bandwidth"),
              1e-9);
  EXPECT_EQ(slower("unpermute", Phase::F), 1);  // a sum
}

TEST(UnfusedKernels, HybridEpsMapOfRowsIsBeforeItsDispatch) {
  const Graph layer = make_block(BlockKind::moe_layer, tests::deepseek_rank(Precision::bf16));
  const auto seconds = [&](const std::vector<Parameter>& more, const std::string& dispatcher) {
    return time(cost(more, {.dispatcher = dispatcher}), layer, "permute").work;
  };
  const std::vector<Parameter> mapped = {number("exchange.hybridep.map_expert_time", 0.1, "ns")};
  EXPECT_NEAR(seconds({}, "hybridep") - seconds(mapped, "hybridep"), 220e-6, 1e-12);  // permute.map of the H800
  EXPECT_EQ(seconds({}, "deepep"), seconds(mapped, "deepep"));
}

TEST(UnfusedKernels, AGradientOfARouterInFp32MovesMoreBytes) {
  const Graph layer = make_block(BlockKind::moe_layer, tests::deepseek_rank(Precision::bf16));
  const SoftwareKernels software{.dispatcher = "deepep"};
  const auto seconds = [&](double bytes, const std::string& name, Phase phase) {
    const std::vector<Parameter> constants = {number("router.deepep.gradient_bytes", bytes, "B"),
                                              number("router.hybridep.gradient_bytes", 100, "B")};
    return time(cost(constants, software), layer, name, phase).seconds;
  };
  const auto grad = [&](double bytes) { return seconds(bytes, "router_choice_grad", Phase::I); };
  EXPECT_GT(grad(16) - grad(1), 4096.0 * 7168 * 15 / 3.35e12);
  EXPECT_NEAR(grad(17) - grad(1), 2 * (grad(9) - grad(1)), 1e-12);
  EXPECT_EQ(seconds(16, "router_choice", Phase::F), seconds(1, "router_choice", Phase::F));
}

TEST(UnfusedKernels, AttentionTakesTheConstantsOfItsKernel) {
  LayerContext c = rank();
  const KernelCost own = cost(
      {number("attention.triton.forward_rate", 100, "TFLOP/s"), number("attention.triton.backward_rate", 50, "TFLOP/s"),
       number("attention.triton.forward.row_time", 1, "ns"), number("attention.triton.dim_block", 128)});
  const auto attention = [&](AttentionKernel kernel, const std::string& name, Phase phase) {
    c.attention = kernel;
    return time(own, make_block(BlockKind::dense_layer, c), name, phase).work;
  };
  // 64 columns are computed as 128; 8 heads of 4096 queries see 1024 keys on average. The rates hold on 112 SMs.
  const double rows = 4096.0 * 8, share = 112.0 / 132;
  EXPECT_NEAR(attention(AttentionKernel::triton, "attention", Phase::F),
              rows * share * (1024 * 2 * 256 / 100e12 + 1e-9), 1e-9);
  EXPECT_NEAR(attention(AttentionKernel::triton, "attention_grad", Phase::I), rows * share * 1024 * 2 * 640 / 50e12,
              1e-9);
  // A kernel without constants runs as the one that the profile was measured with.
  EXPECT_EQ(attention(AttentionKernel::flash3, "attention", Phase::F),
            attention(AttentionKernel::fused, "attention", Phase::F));
}

// Queries, keys and the result's gradient are cast along both of their directions, values along one. The backward
// kernel computes what the window of 128 tokens hides.
TEST(UnfusedKernels, AttentionInMxfp8ReadsCastsAndHasItsConstants) {
  LayerContext c = rank();
  const KernelCost own = cost({number("attention.mxfp8.forward_rate", 400, "TFLOP/s"),
                               number("attention.mxfp8.backward_rate", 200, "TFLOP/s"),
                               number("attention.mxfp8.backward.skips_window", 0)});
  EXPECT_TRUE(own.has_attention(Precision::mxfp8));
  EXPECT_FALSE(own.has_attention(Precision::fp8_tensor));
  c.attention_format = Precision::mxfp8;
  Graph layer = make_block(BlockKind::dense_layer, c);
  for (Operator& op : layer.operators)
    if (auto* attributes = std::get_if<AttentionAttributes>(&op.attributes)) attributes->window = 128;
  const Operator& forward = find(layer, "attention");
  EXPECT_EQ(layer.tensor(forward.reads[0]).type, DataType::mxfp8);
  EXPECT_EQ(layer.tensor(forward.writes[0]).type, DataType::bf16);
  EXPECT_EQ(find(layer, "cast_attention_query").writes.size(), 2u);
  EXPECT_EQ(find(layer, "cast_attention_value").writes.size(), 1u);
  EXPECT_EQ(find(layer, "cast_d_attention", Phase::I).writes.size(), 2u);
  const double rows = 4096.0 * 8, share = 112.0 / 132, seen = 128 - 128.0 * 128 / 4096;
  EXPECT_NEAR(time(own, layer, "attention").work, rows * share * seen * 2 * 128 / 400e12, 1e-9);
  EXPECT_NEAR(time(own, layer, "attention_grad", Phase::I).work, rows * share * 1024 * 2 * 320 / 200e12, 1e-9);
  c.attention_format = Precision::fp8_tensor;
  const Graph whole = make_block(BlockKind::dense_layer, c);
  EXPECT_EQ(find(whole, "cast_attention_query").writes.size(), 1u);
  EXPECT_TRUE(std::get<CastAttributes>(find(whole, "cast_attention_query").attributes).finds_scale);
}

// The weight of the head is stored in 16 bits, as the embedding's, and cast; logits and their gradient have 16 bits.
TEST(UnfusedKernels, AHeadInMxfp8ReadsCasts) {
  LayerContext c = rank();
  c.gemm = Precision::mxfp8;
  const auto operands = [&c](const std::string& name, Phase phase) {
    const Graph head = make_block(BlockKind::head, c);
    const Operator& op = find(head, name, phase);
    return std::pair(head.tensor(op.reads[0]).type, head.tensor(op.reads[1]).type);
  };
  const std::pair plain(DataType::bf16, DataType::bf16), cast(DataType::mxfp8, DataType::mxfp8);
  for (const bool stored : {false, true}) {
    c.quantized_weights = stored;
    for (const bool quantized : {false, true}) {
      c.quantized_head = quantized;
      EXPECT_EQ(operands("output", Phase::F), quantized ? cast : plain);
      EXPECT_EQ(operands("output_dgrad", Phase::I), quantized ? cast : plain);
      EXPECT_EQ(operands("output_wgrad", Phase::W), quantized ? cast : plain);
      const Graph head = make_block(BlockKind::head, c);
      EXPECT_EQ(check(head), "");
      const Operator& logits = find(head, "output");
      EXPECT_EQ(head.tensor(logits.writes[0]).type, DataType::bf16);
      for (const Tensor& tensor : head.tensors) {
        if (tensor.role != Role::parameter) continue;
        EXPECT_EQ(tensor.type, DataType::bf16) << tensor.name;
      }
    }
  }
}

TEST(UnfusedKernels, RowsThatAreNotAlignedSlowGemmsDown) {
  const KernelCost plain = cost(),
                   slow = cost({number("gemm.slowdown_aligned_8", 3), number("gemm.slowdown_aligned_4", 5)});
  const auto factor = [&](std::int64_t head_dim, const std::string& name) {
    LayerContext c = rank(head_dim);
    c.attention = AttentionKernel::unfused;
    const Graph layer = make_block(BlockKind::dense_layer, c);
    return time(slow, layer, name).work / time(plain, layer, name).work;
  };
  // Heads of 112 columns are 224 bytes, 14 times 16; those of 108 are 216, 27 times 8; of 110, 55 times 4.
  EXPECT_EQ(factor(112, "scores"), 1);
  EXPECT_GT(factor(108, "scores"), 1.2);
  EXPECT_GT(factor(110, "scores"), factor(108, "scores"));
  EXPECT_GT(factor(108, "weigh_values"), 1.2);
  // Rows of eight such heads are aligned.
  EXPECT_EQ(factor(108, "qkv"), 1);
}

TEST(UnfusedKernels, LogitsAreAlignedWhereTheVocabularyIsPadded) {
  LayerContext c = rank();
  c.architecture.vocabulary = 1001;
  const Graph head = make_block(BlockKind::head, c);
  const Parameter slower = number("gemm.slowdown_aligned_2", 3);
  EXPECT_GT(time(cost({slower}), head, "output").work, time(cost(), head, "output").work);
  EXPECT_EQ(time(cost({slower, number("gemm.pads_vocabulary", 1)}), head, "output").work,
            time(cost(), head, "output").work);
}

TEST(UnfusedKernels, GradientsThatNoGemmAccumulates) {
  const Graph layer = make_block(BlockKind::dense_layer, rank());
  // The GEMM writes 2 bytes an element in place of 8, and the other kernel moves 12.
  const KernelCost apart = cost({number("gemm.accumulation_bytes", 12, "B")});
  const Kernels with = time(cost(), layer, "down_wgrad", Phase::W),
                without = time(apart, layer, "down_wgrad", Phase::W);
  EXPECT_GT(without.work, with.work);
  EXPECT_NEAR(without.seconds - without.work, 2 * (with.seconds - with.work), 1e-12);
  EXPECT_EQ(time(apart, layer, "down").seconds, time(cost(), layer, "down").seconds);
}

double kernel_seconds(const Graph& graph) {
  const KernelCost kernels = cost();
  double sum = 0;
  for (const Operator& op : graph.operators) sum += kernels.time(graph, op, {.sms = 132}).seconds;
  return sum;
}

LayerContext quantized(Precision gemm, bool delayed = false, bool once = false) {
  LayerContext c = rank(128);
  c.architecture.intermediate_size = 4096;
  c.gemm = gemm;
  c.delayed_scaling = delayed;
  c.weights_cast_once = once;
  return c;
}

TEST(Fp8PerTensor, FewerCastsAreFaster) {
  const auto seconds = [](bool delayed, bool once) {
    return kernel_seconds(make_block(BlockKind::dense_layer, quantized(Precision::fp8_tensor, delayed, once)));
  };
  EXPECT_LT(seconds(true, false), seconds(false, false));
  EXPECT_LT(seconds(true, true), seconds(true, false));
  // With the same GEMMs it is not slower than one scale for each tile.
  EXPECT_LT(seconds(true, true), kernel_seconds(make_block(BlockKind::dense_layer, quantized(Precision::fp8))));
}

TEST(Fp8PerTensor, DelayedScalesLetNormsWriteFp8) {
  const Graph layer = make_block(BlockKind::dense_layer, quantized(Precision::fp8_tensor, true));
  const auto emitted = [&](const std::string& name) {
    return std::ranges::any_of(layer.operators, [&](const Operator& op) { return op.name == name; });
  };
  EXPECT_EQ(layer.tensor(find(layer, "attention_norm").writes[0]).type, DataType::fp8);
  EXPECT_FALSE(emitted("cast_qkv") || emitted("cast_gate_up"));
  // Other inputs are cast without a search for the largest entry; gradients are read once for both layouts.
  EXPECT_EQ(bytes_moved(layer, find(layer, "cast_down"), 1).value(), 4096 * 4096 * 3.0);
  EXPECT_EQ(bytes_moved(layer, find(layer, "cast_d_down", Phase::I), 1).value(), 4096 * 1024 * 4.0);
  EXPECT_FALSE(emitted("cast_transpose_d_down"));
}

// A scale for each row: casts read once (2 bytes and 1 of the result), the other direction is cast from 16 bits, which
// are gathered, so that every rank casts the tokens of all.
TEST(Fp8PerRow, CastsGatheredTokensOncePerDirection) {
  LayerContext c = quantized(Precision::fp8_tensor);
  c.row_scaling = true;
  const Graph layer = make_block(BlockKind::dense_layer, c);
  ASSERT_EQ(check(layer), "");
  EXPECT_EQ(bytes_moved(layer, find(layer, "cast_down"), 1).value(), 4096 * 4096 * 3.0);
  EXPECT_EQ(bytes_moved(layer, find(layer, "cast_d_down", Phase::I), 1).value(), 4096 * 1024 * 3.0);
  for (const char* other : {"cast_transpose_down_in", "cast_transpose_d_down"}) {
    const auto op = std::ranges::find_if(layer.operators, [&](const Operator& one) { return one.name == other; });
    ASSERT_NE(op, layer.operators.end()) << other;
    EXPECT_EQ(layer.tensor(op->reads[0]).type, DataType::bf16) << other;
  }
  c.tensor = 4;
  c.sequence = true;
  const Graph divided = make_block(BlockKind::dense_layer, c);
  ASSERT_EQ(check(divided), "");
  EXPECT_EQ(divided.tensor(find(divided, "gather_qkv_in").writes[0]).type, DataType::bf16);
  EXPECT_EQ(divided.tensor(find(divided, "cast_qkv").reads[0]).shape[0].size, 4096);
}

TEST(Fp8PerTensor, WeightsAreCastOnceAStep) {
  Plan plan;
  plan.cluster.gpus = 8;
  plan.precision.gemm = Precision::fp8_tensor;
  plan.precision.scaling = "delayed";
  plan.precision.weight_cast = "step";
  const Graph layer = make_block(BlockKind::dense_layer, quantized(Precision::fp8_tensor, true, true));
  const StageOptimizer optimizer = make_stage_optimizer(plan, {}, stage_units(plan, {layer}, {{0}}));
  // Weights of the projections: 4 x 1024^2 in attention, 3 x 1024 x 4096 in the MLP. BF16 is read, FP8 written twice.
  const double elements = 4 * 1024.0 * 1024 + 3 * 1024.0 * 4096;
  double bytes = 0;
  for (const Operator& op : optimizer.graph.operators)
    if (op.kind == OperatorKind::cast_transpose) bytes += bytes_moved(optimizer.graph, op, 1).value();
  EXPECT_EQ(bytes, 4 * elements);
  EXPECT_EQ(std::ranges::count(optimizer.graph.operators, "share_largest_entries", &Operator::name), 1);
  // Both copies stay in memory.
  const auto parameters = [&](bool once) {
    const Graph block = make_block(BlockKind::dense_layer, quantized(Precision::fp8_tensor, true, once));
    const StageKind kind{{0}};
    return training_state(plan, {}, {block}, {{&kind, nullptr}}).others.parameters.value();
  };
  EXPECT_EQ(parameters(true) - parameters(false), 2 * elements);
}

TEST(CastsOfWeights, AreOnceAStepInEveryFormatThatIsNotStored) {
  const auto casts = [](Precision precision, bool once) {
    const Graph layer = make_block(BlockKind::dense_layer, quantized(precision, false, once));
    return std::ranges::count_if(layer.operators, [](const Operator& op) { return op.name.ends_with("_weight"); });
  };
  for (const Precision precision : {Precision::fp8_tensor, Precision::mxfp8, Precision::nvfp4}) {
    EXPECT_EQ(casts(precision, false), 4);
    EXPECT_EQ(casts(precision, true), 0);
  }
  Plan plan;
  plan.cluster.gpus = 8;
  plan.precision.gemm = Precision::nvfp4;
  const auto parameters = [&](bool once) {
    const Graph block = make_block(BlockKind::dense_layer, quantized(Precision::nvfp4, false, once));
    const StageKind kind{{0}};
    return training_state(plan, {}, {block}, {{&kind, nullptr}}).others.parameters.value();
  };
  const double elements = 4 * 1024.0 * 1024 + 3 * 1024.0 * 4096;
  EXPECT_EQ(parameters(true) - parameters(false), 2 * elements * bytes_per_element(DataType::nvfp4));
}

TEST(QuantizedGathers, TokensAreCastBeforeTheyAreGathered) {
  LayerContext c = quantized(Precision::fp8_tensor);
  c.tensor = 4;
  c.sequence = true;
  const double rows = 4096.0 / 4;
  const auto gathered = [](const Graph& layer, const std::string& name, Phase phase) {
    return layer.tensor(find(layer, name, phase).writes[0]).bytes().value();
  };
  const Graph whole = make_block(BlockKind::dense_layer, c);
  ASSERT_EQ(check(whole), "");
  EXPECT_EQ(whole.tensor(find(whole, "cast_qkv").reads[0]).shape[0].size, rows);
  EXPECT_EQ(gathered(whole, "gather_qkv_in", Phase::F), 4096 * 1024.0);
  EXPECT_EQ(gathered(whole, "gather_d_down_fp8", Phase::I), 4096 * 1024.0);
  EXPECT_EQ(bytes_moved(whole, find(whole, "cast_d_down", Phase::I), 1).value(), rows * 1024 * 5);
  // Scales along one direction make the other layout a cast of its own, which is gathered too.
  c.gemm = Precision::mxfp8;
  const Graph blocks = make_block(BlockKind::dense_layer, c);
  ASSERT_EQ(check(blocks), "");
  EXPECT_EQ(gathered(blocks, "gather_d_down_t", Phase::I), gathered(blocks, "gather_d_down_mxfp8", Phase::I));
  EXPECT_FALSE(
      std::ranges::any_of(blocks.operators, [](const Operator& op) { return op.name == "cast_transpose_d_down"; }));
}

TEST(Fp8PerTensor, ParametersInFp8AreStoredOnceAndTransposed) {
  Plan plan;
  plan.cluster.gpus = 8;
  plan.precision = {.gemm = Precision::fp8_tensor, .weight_cast = "step", .parameters = "fp8"};
  const double elements = 4 * 1024.0 * 1024 + 3 * 1024.0 * 4096;
  LayerContext c = quantized(Precision::fp8_tensor, false, true);
  const auto parameters = [&] {
    const Graph block = make_block(BlockKind::dense_layer, c);
    const StageKind kind{{0}};
    return training_state(plan, {}, {block}, {{&kind, nullptr}}).others.parameters.value();
  };
  const double copied = parameters();  // 2 bytes in BF16, 1 in each layout
  c.quantized_weights = true;
  EXPECT_EQ(copied - parameters(), 2 * elements);
  const Graph layer = make_block(BlockKind::dense_layer, c);
  EXPECT_EQ(layer.tensor(find(layer, "gate_up").reads[1]).type, DataType::fp8);
  EXPECT_FALSE(std::ranges::any_of(layer.operators, [](const Operator& op) { return op.name.ends_with("_weight"); }));
  const StageOptimizer optimizer = make_stage_optimizer(plan, {}, stage_units(plan, {layer}, {{0}}));
  double bytes = 0;
  for (const Operator& op : optimizer.graph.operators)
    if (op.kind == OperatorKind::cast_transpose) bytes += bytes_moved(optimizer.graph, op, 1).value();
  EXPECT_EQ(bytes, 2 * elements);
}

// Once a step 2 bytes an element are gathered, and a kernel reads them and writes both layouts, 33/32 bytes each with
// the scales. Before each use the layout that is stored is gathered.
TEST(Mxfp8, ParametersAreGatheredOnceAStepIn16Bits) {
  Plan plan;
  plan.cluster.gpus = 8;
  plan.precision = {.gemm = Precision::mxfp8, .weight_cast = "step", .parameters = "fp8"};
  const double elements = 4 * 1024.0 * 1024 + 3 * 1024.0 * 4096, stored = 33.0 / 32;
  LayerContext c = quantized(Precision::mxfp8, false, true);
  c.quantized_weights = true;
  const Graph layer = make_block(BlockKind::dense_layer, c);
  EXPECT_EQ(layer.tensor(find(layer, "gate_up").reads[1]).type, DataType::mxfp8);
  const auto gathered_and_cast = [&](std::int64_t zero_stage) {
    plan.parallelism.zero_stage = zero_stage;
    const Graph graph = make_stage_optimizer(plan, {}, stage_units(plan, {layer}, {{0}})).graph;
    std::pair<double, double> bytes;
    for (const Operator& op : graph.operators) {
      if (op.kind == OperatorKind::all_gather) bytes.first += graph.tensor(op.writes[0]).bytes().value();
      if (op.kind == OperatorKind::cast_transpose) bytes.second += bytes_moved(graph, op, 1).value();
    }
    return bytes;
  };
  const auto once = gathered_and_cast(1), each_time = gathered_and_cast(3);
  EXPECT_DOUBLE_EQ(once.first - each_time.first, elements * (2 - stored));
  EXPECT_DOUBLE_EQ(once.second, elements * (2 + 2 * stored));
}

TEST(Fp8PerTensor, ExpertsAreGemmsInTheSameFormat) {
  LayerContext c = tests::deepseek_rank(Precision::bf16);
  c.gemm = Precision::fp8_tensor;
  const auto type = [&] {
    const Graph layer = make_block(BlockKind::moe_layer, c);
    EXPECT_EQ(check(layer), "");
    const auto read = [&](const char* name, Phase phase) {
      return layer.tensor(find(layer, name, phase).reads[0]).type;
    };
    EXPECT_EQ(read("experts_down", Phase::F), read("experts_gate_up_dgrad", Phase::I));
    EXPECT_EQ(read("experts_down", Phase::F), read("experts_gate_up_wgrad", Phase::W));
    return read("experts_gate_up", Phase::F);
  };
  EXPECT_EQ(type(), DataType::fp8);
  c.weights_cast_once = true;
  EXPECT_EQ(type(), DataType::fp8);
  c.dispatcher = Dispatcher::alltoall;
  c.expert_parallel = 256;
  EXPECT_EQ(type(), DataType::fp8);
  c.experts = Precision::bf16;
  EXPECT_EQ(type(), DataType::bf16);
}

// A layer of experts like GPT-OSS's: limits, biases and a factor of its rotary embedding.
LayerContext expert_rank(Precision gemm) {
  LayerContext c = rank();
  c.architecture.experts = {.routed_experts = 8, .experts_per_token = 2, .intermediate_size = 512};
  c.architecture.biases.experts = true;
  c.architecture.swiglu_limit = 7;
  c.architecture.rope_scaled = true;
  c.gemm = gemm;
  c.tokens = 65536;
  return c;
}

void expect_sound(const KernelCost& cost, const Graph& graph) {
  for (const Operator& op : graph.operators) {
    if (operator_class(graph, op) >= OperatorClass::exchange) continue;
    const KernelTime time = cost.time(graph, op, {.sms = 132});
    double sum = 0;
    for (const Share& share : time.shares) sum += share.seconds;
    EXPECT_NEAR(sum, time.seconds, 1e-12) << op.name;
    EXPECT_GE(time.seconds, cost.best(graph, op) * (1 - 1e-9)) << op.name;
  }
}

TEST(UnfusedKernels, SwizzleTheScalesOfBlocks) {
  const KernelCost none = cost(),
                   both = cost({number("gemm.weight_swizzles", 1), number("gemm.activation_swizzles", 1)}),
                   weights = cost({number("gemm.weight_swizzles", 1)});
  for (const auto& [gemm, swizzled] : {std::pair(Precision::mxfp8, true), {Precision::bf16, false}}) {
    LayerContext c = rank();
    c.gemm = gemm;
    const Graph layer = make_block(BlockKind::dense_layer, c);
    const auto more = [&](const KernelCost& with, const std::string& name, Phase phase) {
      const Operator& op = find(layer, name, phase);
      return with.launches(layer, op) - none.launches(layer, op);
    };
    EXPECT_EQ(more(both, "qkv", Phase::F), swizzled ? 2 : 0);
    EXPECT_EQ(more(both, "qkv_wgrad", Phase::W), swizzled ? 2 : 0);
    EXPECT_EQ(more(weights, "qkv", Phase::F), swizzled ? 1 : 0);
    EXPECT_EQ(more(weights, "qkv_wgrad", Phase::W), 0);
    EXPECT_EQ(time(both, layer, "qkv").seconds > time(none, layer, "qkv").seconds, swizzled);
    expect_sound(both, layer);
  }
}

TEST(UnfusedKernels, SwizzleTheScalesOfExpertsOneByOne) {
  const std::vector<Parameter> at_once = {number("gemm.weight_swizzles", 1), number("gemm.activation_swizzles", 1)};
  std::vector<Parameter> one_by_one = at_once;
  one_by_one.push_back(number("gemm.experts_swizzled_apart", 1));
  const KernelCost none = cost(), joined = cost(at_once), apart = cost(one_by_one);
  for (const auto& [gemm, swizzled] : {std::pair(Precision::mxfp8, 1), {Precision::bf16, 0}}) {
    const Graph layer = make_block(BlockKind::moe_layer, tests::deepseek_rank(gemm));
    const double experts = gemm_shape(layer, find(layer, "experts_down"), 1).groups;
    ASSERT_GT(experts, 1);
    const auto more = [&](const KernelCost& with, const std::string& name, Phase phase = Phase::F) {
      const Operator& op = find(layer, name, phase);
      return with.launches(layer, op) - none.launches(layer, op);
    };
    EXPECT_EQ(more(joined, "experts_down"), 2 * swizzled);
    EXPECT_EQ(more(apart, "experts_down"), 2 * swizzled * experts);
    EXPECT_EQ(more(apart, "experts_down_wgrad", Phase::W), 2 * swizzled * experts);
    EXPECT_EQ(more(apart, "o"), 2 * swizzled);  // of one matrix
    EXPECT_EQ(time(apart, layer, "experts_down").seconds > time(joined, layer, "experts_down").seconds, swizzled > 0);
    expect_sound(apart, layer);
  }
}

// Elements that are indexed one by one take the instructions of the SMs, whatever the memory's rate.
TEST(UnfusedKernels, StridedOperandsTakeTheTimeOfTheirIndices) {
  const Graph layer = make_block(BlockKind::moe_layer, expert_rank(Precision::bf16));
  const Operator& bias = find(layer, "experts_down_bias");
  const KernelCost streams = cost({number("kernel.add_expert_bias.passes", 2)}),
                   indexes = cost({number("kernel.add_expert_bias.passes", 2),
                                   number("kernel.add_expert_bias.indexed", 3), number("kernel.index_time", 5, "ns")});
  const double longer = 3 * elements(layer.tensor(bias.reads[0]), 1) * 5e-9;  // on one SM
  const auto difference = [&](const Conditions& conditions) {
    return indexes.time(layer, bias, conditions).seconds - streams.time(layer, bias, conditions).seconds;
  };
  EXPECT_NEAR(difference({.sms = 132}), longer / 132, 1e-12);
  const Conditions beside{.sms = 132, .held = 32, .co_runner = CoRunner::transferring};
  EXPECT_GT(difference(beside), 1.05 * longer / 132);
  EXPECT_LE(difference(beside), longer / 100 + 1e-12);
  EXPECT_NEAR(difference({.sms = 132, .clock = 0.5}), 2 * longer / 132, 1e-12);
  EXPECT_NEAR(difference({.sms = 132, .row_scale = 2}), 2 * longer / 132, 1e-12);
  EXPECT_NEAR(difference({.sms = 132, .bandwidth = 0.5}), longer / 132, 1e-12);
  // What they read and write costs energy.
  EXPECT_NEAR(indexes.time(layer, bias, {.sms = 132}).passes, 2 + 3, 0.1);
  for (const KernelCost* one : {&streams, &indexes}) expect_sound(*one, layer);
}

TEST(UnfusedKernels, ARotationWithAFactorIndexesWhatItsOwnKernelsDo) {
  const Graph scaled = make_block(BlockKind::moe_layer, expert_rank(Precision::bf16)),
              plain = make_block(BlockKind::dense_layer, rank());
  const KernelCost usual = cost(),
                   indexes = cost({number("kernel.rotary.scaled.indexed", 4), number("kernel.index_time", 1, "ns")});
  const double longer = 4 * elements(scaled.tensor(find(scaled, "rotary_query").reads[0]), 1) * 1e-9 / 132;
  EXPECT_NEAR(time(indexes, scaled, "rotary_query").work, time(usual, scaled, "rotary_query").work + longer, 1e-12);
  EXPECT_EQ(time(indexes, plain, "rotary_query").work, time(usual, plain, "rotary_query").work);
}

// What the software's operator moves is no property of copies that belong to no operator.
TEST(UnfusedKernels, ACopyMovesItsOwnBytes) {
  Graph graph;
  for (int i = 0; i < 2; ++i)
    graph.tensors.push_back({.name = "rows", .shape = {{1'000'000'000}}, .type = DataType::bf16});
  const Operator op{.kind = OperatorKind::concatenate, .name = "join", .reads = {0}, .writes = {1}};
  const Conditions alone{.sms = h800_device().sms};
  const KernelCost usual = cost(), eager = cost({number("kernel.concatenate.passes", 2)});
  const double once = usual.time(graph, op, alone).seconds;  // of 4 GB, read and written
  EXPECT_GT(eager.time(graph, op, alone).seconds, 1.9 * once);
  for (const KernelCost* each : {&usual, &eager}) EXPECT_DOUBLE_EQ(each->moving(Bytes(4e9), alone), once);
}

TEST(UnfusedKernels, OfExpertsLimitAndBias) {
  const std::vector<Parameter> eager = {number("kernel.experts_apart", 1),
                                        number("kernel.add_expert_bias.passes", 3),
                                        number("kernel.add_expert_bias.launches", 2),
                                        number("kernel.add_expert_bias.deepep.passes", 7),
                                        number("kernel.rotary.scaled.passes", 6),
                                        number("kernel.rotary.scaled.launches", 12)};
  const KernelCost gathers = cost(eager, {.dispatcher = "allgather"}), sends = cost(eager, {.dispatcher = "deepep"}),
                   fused = cost(eager, {.dispatcher = "deepep", .fused_experts = true}), usual = cost();
  LayerContext whole = expert_rank(Precision::mxfp8);
  whole.fused_experts = true;
  const Graph layer = make_block(BlockKind::moe_layer, expert_rank(Precision::mxfp8)),
              fused_layer = make_block(BlockKind::moe_layer, whole);
  const Operator& bias = find(layer, "experts_down_bias");
  EXPECT_EQ(gathers.launches(layer, bias), 8 * 2);
  EXPECT_NEAR(time(sends, layer, "experts_down_bias").work / time(usual, layer, "experts_down_bias").work, 7, 1e-9);
  EXPECT_NEAR(time(gathers, layer, "experts_down_bias").work / time(usual, layer, "experts_down_bias").work, 3, 1e-9);
  EXPECT_NEAR(time(gathers, layer, "rotary_query").work / time(usual, layer, "rotary_query").work, 6, 1e-9);
  EXPECT_EQ(gathers.launches(layer, find(layer, "rotary_query")), 12);
  for (const char* name : {"experts_down_bias", "experts_swiglu", "experts_swiglu_clamp", "cast_experts_down"}) {
    EXPECT_GT(time(sends, layer, name).seconds, 0) << name;
    EXPECT_EQ(time(fused, fused_layer, name).seconds, 0) << name;
    EXPECT_EQ(fused.launches(fused_layer, find(fused_layer, name)), 0) << name;
  }
  EXPECT_GT(time(fused, fused_layer, "experts_down_bias_grad", Phase::I).seconds, 0);
  EXPECT_EQ(sends.launches(layer, find(layer, "experts_down")), 8);
  EXPECT_EQ(fused.launches(fused_layer, find(fused_layer, "experts_down")), 1);
  for (const KernelCost* one : {&gathers, &sends, &usual}) expect_sound(*one, layer);
  expect_sound(fused, fused_layer);
}

// Of an expert's rows its kernels write the input of the activation, which the backward pass reads, both quantized
// layouts of its output, and the output of the expert with its bias.
TEST(UnfusedKernels, OfWholeExpertsWriteNoTensorsBetween) {
  LayerContext c = expert_rank(Precision::mxfp8);
  const auto within = [](const Graph& layer) {
    std::set<std::string> names;
    const std::vector<bool> found = within_kernels(layer);
    for (TensorId id = 0; id < layer.tensors.size(); ++id)
      if (found[id]) names.insert(layer.tensor(id).name);
    return names;
  };
  EXPECT_TRUE(within(make_block(BlockKind::moe_layer, c)).empty());
  c.fused_experts = true;
  EXPECT_EQ(within(make_block(BlockKind::moe_layer, c)),
            (std::set<std::string>{"experts_swiglu_limited", "experts_swiglu_out", "experts_down_out",
                                   "d_experts_down_in", "d_experts_swiglu_in", "d_experts_swiglu_limited"}));
  // What is computed again has no GEMM.
  c.recompute = {RecomputeGroup::moe};
  const Graph again = make_block(BlockKind::moe_layer, c);
  EXPECT_EQ(check(again), "");
  EXPECT_FALSE(within(again).contains("experts_swiglu_out_again"));
}

}  // namespace
}  // namespace plumbline::model
