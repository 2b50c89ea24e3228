// Data parallelism over time: the closed form against the event simulation, bytes on the wire, and laws.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <map>
#include <string>
#include <type_traits>
#include <vector>

#include "model/cost/collective_cost.h"
#include "model/memory/memory.h"
#include "tests/support/cost_models.h"
#include "tests/support/costs.h"
#include "tests/support/step_inputs.h"

namespace plumbline::sim {
namespace {

using Overrides = std::vector<std::string>;
using Kind = model::DataParallelCollectives::Kind;

const std::string plan_name = "llama-3-8b-fsdp-64xh100";

Inputs inputs(const Overrides& overrides = {}) { return tests::step_inputs(plan_name, "generic-datasheet", overrides); }

model::StepTimes times(const Overrides& overrides, Fidelity fidelity = Fidelity::step) {
  return simulate(inputs(overrides), fidelity, false).value().result.step;
}
double seconds(const Overrides& overrides) { return times(overrides).time_s; }

std::string key(const std::string& name, auto value) {
  if constexpr (std::is_same_v<decltype(value), bool>) return name + (value ? "=true" : "=false");
  return name + "=" + std::to_string(value);
}

Overrides random_plan() {
  const int nodes = *rc::gen::element(1, 2, 3, 8);
  const int gpus = 8 * nodes;
  const int zero = *rc::gen::inRange(0, 4);
  Overrides plan = {key("cluster.gpus", gpus),
                    key("parallelism.zero_stage", zero),
                    key("batch.global_batch_size", gpus * *rc::gen::inRange(1, 5)),
                    key("overlap.gradient_bucket_bytes", *rc::gen::element(1e6, 40e6, 500e6, 1e11)),
                    key("cluster.nic_gbps", *rc::gen::element(50, 100, 400)),
                    key("overlap.gradient_reduce", *rc::gen::arbitrary<bool>()),
                    key("overlap.parameter_gather", *rc::gen::arbitrary<bool>()),
                    key("overlap.prefetch", *rc::gen::inRange(0, 4)),
                    key("parallelism.reshard_after_forward", *rc::gen::arbitrary<bool>()),
                    std::string("parallelism.reduce_after=") + *rc::gen::element("pass", "run", "step"),
                    key("optimizer.gradient_clipping", *rc::gen::arbitrary<bool>()),
                    key("offload.optimizer", *rc::gen::arbitrary<bool>())};
  const bool group = zero > 0 && nodes > 1 && *rc::gen::arbitrary<bool>();
  if (group) plan.push_back(key("parallelism.shard_group", 8));
  if (zero == 0 || group) plan.push_back(key("parallelism.synchronisation_interval", *rc::gen::inRange(1, 5)));
  return plan;
}

RC_GTEST_PROP(DataParallel, ClosedFormAndEventsAgreeWhereNothingContends, ()) {
  Overrides plan = random_plan();
  plan.push_back("overlap.collective_sms=0");  // so that no kernels contend
  const model::StepTimes events = times(plan), formula = times(plan, Fidelity::closed_form);
  RC_ASSERT(std::abs(formula.time_s / events.time_s - 1) < 0.001);
  for (const model::StepTimes& step : {events, formula}) {
    RC_ASSERT(step.exposed_gradient_reduce_s.value() >= 0);
    RC_ASSERT(step.exposed_parameter_gather_s.value() >= 0);
    RC_ASSERT(step.optimizer_s.value() >= step.exposed_gradient_reduce_s.value() - 1e-9);
  }
}

// Software under which compute and collectives slow each other down, and which copies what it gathers and reduces.
Inputs with_software(Inputs inputs) {
  inputs.profile = tests::with_constants(inputs.profile, {{"overlap.collective_slowdown", 1.3},
                                                          {"overlap.compute_slowdown", 1.1},
                                                          {"sharding.gather_passes", 2},
                                                          {"sharding.reduce_passes", 3}});
  return inputs;
}

// A slot takes longer by the part of it that collectives overlap, times the mean factor of the slot: events have a
// factor for each segment.
RC_GTEST_PROP(DataParallel, ClosedFormAndEventsAgreeWhereCollectivesHoldSms, ()) {
  Inputs in = inputs(random_plan());
  if (*rc::gen::arbitrary<bool>()) in = with_software(std::move(in));
  const double events = simulate(in, Fidelity::step, false).value().result.step.time_s;
  const double formula = simulate(in, Fidelity::closed_form, false).value().result.step.time_s;
  RC_ASSERT(std::abs(formula / events - 1) < 0.01);
}

// What is copied takes what a kernel takes that moves as much, and the list of losses names it.
TEST(DataParallel, CopiesOfShardsTakeTimeAndAreNamed) {
  const auto lost_to_copies = [](const model::StepResult& result) {
    double seconds = 0;
    for (const model::LostTime& lost : result.lost) seconds += lost.cause == "copies of shards" ? lost.seconds : 0;
    return seconds;
  };
  const Inputs plain = inputs({"overlap.collective_sms=0"});
  const auto without = simulate(plain, Fidelity::step, false).value().result;
  const auto with = simulate(with_software(plain), Fidelity::step, false).value().result;
  EXPECT_EQ(lost_to_copies(without), 0);
  EXPECT_GT(lost_to_copies(with), 0);
  EXPECT_GT(with.step.time_s, without.step.time_s + 0.9 * lost_to_copies(with));
}

// Returns the bytes that a rank sends in a step, by the factor of a ring: (n-1)/n of the whole for a gather or scatter.
double wire_bytes(const Overrides& overrides) {
  const model::StepProgram program = tests::program_of(inputs(overrides));
  const model::Graph& graph = program.stage_optimizers[0];
  double sum = 0;
  for (const model::DataParallelCollectives& s : program.data_parallel[0]) {
    const model::ShardUnit& unit = program.stage_units[0][static_cast<std::size_t>(s.unit)];
    for (const std::uint16_t index : s.kind == Kind::gather ? unit.gather : unit.reduce) {
      const model::Operator& op = graph.operators[index];
      if (op.kind == model::OperatorKind::cast) continue;
      const bool gather = op.kind == model::OperatorKind::all_gather;
      const auto ranks = std::get<model::CollectiveAttributes>(op.attributes).ranks;
      const double factor =
          model::bus_factor(gather                                       ? model::Collective::all_gather
                            : op.kind == model::OperatorKind::all_reduce ? model::Collective::all_reduce
                                                                         : model::Collective::reduce_scatter,
                            ranks);
      sum += factor * graph.tensor(gather ? op.writes[0] : op.reads[0]).bytes().value();
    }
  }
  return sum;
}

// Llama 3 8B has a vocabulary of 128256 and 4096 hidden channels. A layer has q and o of 2 * 4096^2 parameters, k and v
// of 2 * 4096 * 1024, three matrices of 4096 * 14336 and two norms of 4096.
constexpr double ends = 128256.0 * 4096;  // of the embedding, and of the head
constexpr double layers = 32 * (2 * 4096.0 * 4096 + 2 * 4096.0 * 1024 + 3 * 4096.0 * 14336 + 2 * 4096);
constexpr double all = layers + 2 * ends + 4096;  // with the last norm
constexpr double share = 63.0 / 64;               // factor of a ring of 64 ranks

TEST(DataParallel, BytesOnTheWireAreThoseOfTheLiterature) {
  const Overrides one = {"batch.global_batch_size=64"};  // one micro-batch
  const auto with = [&one](int zero, Overrides more = {}) {
    more.insert(more.end(), one.begin(), one.end());
    more.push_back(key("parallelism.zero_stage", zero));
    return wire_bytes(more);
  };
  // Both formats on the wire, of gradients and of parameters, have two bytes an element. An all-reduce counts as two
  // passes, a scatter and a gather as one each.
  for (const int zero : {0, 1, 2}) EXPECT_NEAR(with(zero), 2 * share * 2 * all, 1e3) << zero;
  // Two gathers and a scatter. The head's parameters are still there when its backward begins, and the backward of an
  // embedding reads none.
  EXPECT_NEAR(with(3), 2 * share * (3 * layers + 2 * 2 * ends + 2 * 4096), 1e3);
  // Parameters are kept between forward and backward: one gather.
  EXPECT_NEAR(with(3, {"parallelism.reshard_after_forward=false"}), 2 * share * 2 * all, 1e3);
  // Shards lie inside a node of 8: gather and scatter there, and an all-reduce of an eighth over 8 nodes.
  EXPECT_NEAR(with(1, {"parallelism.shard_group=8"}), 2 * all * (2 * 7.0 / 8 + 2 * 7.0 / 8 / 8), 1e3);
}

TEST(DataParallel, ReductionsAreWorthAsManyMicroBatchesAsTheyAreDone) {
  const auto reductions = [](int zero) {
    const model::StepProgram program =
        tests::program_of(inputs({"batch.global_batch_size=192", key("parallelism.zero_stage", zero)}));
    std::size_t count = 0;
    for (const model::DataParallelCollectives& s : program.data_parallel[0]) count += s.kind == Kind::reduce;
    return static_cast<double>(count) / static_cast<double>(program.stage_units[0].size());
  };
  for (const int zero : {0, 1}) EXPECT_EQ(reductions(zero), 1) << zero;
  for (const int zero : {2, 3}) EXPECT_EQ(reductions(zero), 3) << zero;  // 192 sequences on 64 ranks
}

// Interleaved, a rank's backward passes are of each of its two stages in turn, as many as the pipeline has ranks: of
// eight micro-batches four and four. After the last of a step each stage is reduced once.
TEST(DataParallel, ARunOfBackwardPassesIsReducedOnce) {
  const auto reductions = [](const std::string& after, Overrides more) {
    more.push_back("parallelism.reduce_after=" + after);
    const model::StepProgram program = tests::program_of(inputs(more));
    std::map<std::int32_t, double> of_stage;
    for (const model::DataParallelCollectives& s : program.data_parallel[0])
      if (s.kind == Kind::reduce)
        of_stage[s.stage] += 1 / static_cast<double>(program.stage_units[static_cast<std::size_t>(s.stage)].size());
    return of_stage;
  };
  const auto each = [](double times) {
    return testing::Each(testing::Pair(testing::_, testing::DoubleNear(times, 1e-9)));
  };
  const Overrides interleaved = {"parallelism.zero_stage=2", "parallelism.pipeline=4", "schedule.kind=interleaved",
                                 "schedule.virtual_stages=2", "batch.global_batch_size=128"};
  EXPECT_THAT(reductions("pass", interleaved), testing::AllOf(testing::SizeIs(2), each(8)));
  EXPECT_THAT(reductions("run", interleaved), testing::AllOf(testing::SizeIs(2), each(2)));
  EXPECT_THAT(reductions("step", interleaved), testing::AllOf(testing::SizeIs(2), each(1)));
  for (const int zero : {2, 3})
    for (const char* after : {"run", "step"})  // without a pipeline the step is one run
      EXPECT_THAT(reductions(after, {"batch.global_batch_size=192", key("parallelism.zero_stage", zero)}), each(1))
          << zero << after;
}

// Each pass of a run adds its BF16 gradients to FP32 sums: 10 bytes a parameter. The first two of three micro-batches
// reduce nothing that could hide them.
TEST(DataParallel, GradientsOfARunAreAddedUp) {
  const auto step = [](const std::string& after, double passes) {
    Inputs in = inputs({"parallelism.zero_stage=2", "batch.global_batch_size=192", "precision.gradients=fp32",
                        "overlap.collective_sms=0", "parallelism.reduce_after=" + after});
    in.profile = tests::with_constants(in.profile, {{"sharding.run_passes", passes}});
    return simulate(in, Fidelity::closed_form, false).value().result.step.time_s;
  };
  EXPECT_GT(step("run", 5) - step("run", 0), 2 * 10 * all / inputs().cluster.device.memory_bandwidth.value());
  EXPECT_EQ(step("pass", 5), step("pass", 0));
}

// Reductions in between hide behind the next stage's passes, and unsharded gradients take memory.
TEST(DataParallel, FewerReductionsAreFasterAndTakeMoreMemory) {
  const auto with = [](const char* after) {
    return inputs({"parallelism.zero_stage=2", "parallelism.pipeline=4", "schedule.kind=interleaved",
                   "schedule.virtual_stages=2", "batch.global_batch_size=128", "cluster.nic_gbps=50", after});
  };
  const Inputs pass = with("parallelism.reduce_after=pass"), run = with("parallelism.reduce_after=run"),
               once = with("parallelism.reduce_after=step");
  const auto bytes = [](const Inputs& in) {
    const model::Layout layout = model::make_layout(in.plan, in.architecture).value();
    return model::memory(in.plan, layout, tests::program_of(in), in.cluster.device).peak_bytes;
  };
  for (const Fidelity fidelity : {Fidelity::closed_form, Fidelity::step}) {
    const auto seconds_of = [fidelity](const Inputs& in) {
      return simulate(in, fidelity, false).value().result.step.time_s;
    };
    EXPECT_LT(seconds_of(run), seconds_of(pass));
    EXPECT_LE(seconds_of(once), seconds_of(run));  // the last reductions start as early, after fewer others
  }
  EXPECT_GT(bytes(run), bytes(pass));
  EXPECT_GT(bytes(once), bytes(run));  // the sums of both stages of a rank
}

class ZeroStages : public testing::TestWithParam<int> {
 protected:
  static Overrides with(Overrides more) {
    more.push_back(key("parallelism.zero_stage", GetParam()));
    return more;
  }
};
INSTANTIATE_TEST_SUITE_P(All, ZeroStages, testing::Values(0, 1, 2, 3));

TEST_P(ZeroStages, ASlowerNicIsNeverFaster) {
  double before = 0;
  for (const int gbps : {400, 200, 100, 50}) {
    const double now = seconds(with({key("cluster.nic_gbps", gbps)}));
    EXPECT_GE(now, before) << gbps;
    before = now;
  }
}

TEST_P(ZeroStages, OverlapIsNeverSlowerWhereNothingContends) {
  const double overlapped = seconds(with({"overlap.collective_sms=0"}));
  for (const char* off : {"overlap.gradient_reduce=false", "overlap.parameter_gather=false", "overlap.prefetch=0"})
    EXPECT_LE(overlapped, seconds(with({"overlap.collective_sms=0", off})) + 1e-9) << off;
}

TEST_P(ZeroStages, CollectivesThatHoldSmsSlowComputeDown) {
  EXPECT_LT(seconds(with({"overlap.collective_sms=0"})), seconds(with({"overlap.collective_sms=32"})));
}

TEST(DataParallel, TheMoreIsShardedTheLessMemoryIsNeeded) {
  for (const std::string& name : {plan_name, std::string("deepseek-67b-512xh800"), tests::llama_plan}) {
    double before = 1e18;
    for (const int zero : {0, 1, 2, 3}) {
      const Inputs in = tests::step_inputs(name, "generic-datasheet", {key("parallelism.zero_stage", zero)});
      const model::Layout layout = model::make_layout(in.plan, in.architecture).value();
      const double bytes = model::memory(in.plan, layout, tests::program_of(in), in.cluster.device).peak_bytes;
      EXPECT_LT(bytes, before) << name << " " << zero;
      before = bytes;
    }
  }
}

TEST(DataParallel, OneBucketHidesNothing) {
  const Overrides small = {"parallelism.zero_stage=1", "overlap.collective_sms=0"};
  Overrides whole = small;
  whole.push_back("overlap.gradient_bucket_bytes=1e12");
  EXPECT_LT(times(small).exposed_gradient_reduce_s.value(), times(whole).exposed_gradient_reduce_s.value());
}

// The mean of n steps of which one reduces is local + (reducing - local) / n.
TEST(DataParallel, AnIntervalSpreadsTheReduction) {
  const auto mean = [](int interval) {
    return seconds({"parallelism.zero_stage=0", key("parallelism.synchronisation_interval", interval)});
  };
  const double reducing = mean(1), local = 2 * mean(2) - reducing;
  EXPECT_LT(local, reducing);
  EXPECT_NEAR(mean(4), local + (reducing - local) / 4, 1e-9);
}

// With states sharded within a node, the shards of eight nodes are summed once in n steps: the reductions within the
// node and the gathers stay.
TEST(DataParallel, AnIntervalLeavesTheReductionsOfAShardGroup) {
  for (const int zero : {1, 2, 3}) {
    const auto step = [zero](int interval) {
      return times({key("parallelism.zero_stage", zero), "parallelism.shard_group=8", "cluster.nic_gbps=25",
                    key("parallelism.synchronisation_interval", interval)});
    };
    const double reducing = step(1).time_s, local = 2 * step(2).time_s - reducing;
    EXPECT_LT(local, reducing) << zero;
    EXPECT_NEAR(step(4).time_s, local + (reducing - local) / 4, 1e-9) << zero;
    // On one node there is nothing to sum: as long as with a fast network between the nodes.
    const double node =
        times({key("parallelism.zero_stage", zero), "cluster.gpus=8", "batch.global_batch_size=64"}).time_s;
    EXPECT_NEAR(local, node, 0.01 * node) << zero;
  }
}

TEST(DataParallel, TokensAreWaitedForWhereTheLoaderIsSlowerThanTheStep) {
  EXPECT_EQ(times({}).exposed_input_s.value(), 0);
  // 512 sequences of 8192 tokens of 4 B through 8 nodes of 0.001 Gb/s: 16.777 MB over 1 MB/s.
  const model::StepTimes slow = times({"input.loader_gbps=0.001"});
  EXPECT_NEAR(slow.time_s, 512 * 8192 * 4 / (8 * 0.001e9 / 8), 1e-6);
  EXPECT_NEAR(slow.exposed_input_s.value(), slow.time_s - times({}).time_s, 1e-6);
  // Without prefetching, data are loaded before the step: 512 / 64 sequences of the rank at 87 % of 64 GB/s.
  EXPECT_NEAR(times({"input.prefetch=false"}).exposed_input_s.value(), 8 * 8192 * 4 / (0.87 * 64e9), 1e-9);
}

TEST(DataParallel, OffloadedStatesCostTimeAndFreeMemory) {
  const Simulation on = simulate(inputs({}), Fidelity::step, false).value();
  const Simulation off = simulate(inputs({"offload.optimizer=true"}), Fidelity::step, false).value();
  EXPECT_GT(off.result.step.time_s, on.result.step.time_s);
  EXPECT_EQ(off.result.memory.ranks[0].optimizer_bytes, 0);
  // Master weights and moments have 12 bytes an element, over 64 ranks.
  EXPECT_NEAR(on.result.memory.ranks[0].optimizer_bytes, 12 * all / 64, 1e3);
}

TEST(DataParallel, AMovingAverageOnTheHostHidesBehindTheStep) {
  EXPECT_NEAR(seconds({"optimizer.ema=host"}), seconds({}), 1e-9);
  // One rank's shard of the whole model's FP32 masters, 4 * 8.03e9 / 64 B over 55.68 GB/s, takes 9 ms, less than any
  // step.
  EXPECT_EQ(times({"optimizer.ema=host"}).exposed_host_s.value(), 0);
}

// Every rank of a tensor group that divides the tokens has a part of the gradients of the parameters that all of them
// hold: norms, of 2 * 4096 parameters in each of 32 layers, and the final one. They are summed over the group, in FP32.
TEST(SequenceParallelism, SumsTheGradientsOfWhatEveryRankHolds) {
  const auto summed = [](const std::vector<std::string>& settings) {
    const Inputs inputs = tests::step_inputs("llama-3-8b-64xh800", "h800", settings);
    const model::StepProgram program = tests::program_of(inputs);
    double bytes = 0;
    for (const model::Graph& graph : program.stage_optimizers)
      for (const model::Operator& op : graph.operators)
        if (op.name.starts_with("sum_dense")) bytes += graph.tensor(op.reads[0]).bytes().value();
    return bytes;
  };
  EXPECT_EQ(summed({"parallelism.tensor=2", "parallelism.sequence=true"}), 4.0 * (32 * 2 * 4096 + 4096));
  EXPECT_EQ(summed({"parallelism.tensor=2"}), 0);
}

}  // namespace
}  // namespace plumbline::sim
