#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <tuple>
#include <vector>

#include "model/architecture/metrics.h"
#include "model/base/random.h"
#include "model/memory/memory.h"
#include "reports/json/json.h"
#include "sim/predict/simulate.h"
#include "sim/step/segment_time.h"
#include "sim/step/slot_host.h"
#include "tests/support/cost_models.h"
#include "tests/support/costs.h"
#include "tests/support/random_choice.h"
#include "tests/support/step_inputs.h"

namespace plumbline::sim {
namespace {

using Overrides = std::vector<std::string>;
using tests::choice;
using tests::deepseek_plan;
using tests::llama_plan;
using tests::step_inputs;

// Laws that every prediction obeys, over the shipped plans and the three profiles of the H800.

Simulation run(const Inputs& inputs, Fidelity fidelity = Fidelity::step) {
  return simulate(inputs, fidelity, false).value();
}
double seconds(const Inputs& inputs, Fidelity fidelity = Fidelity::step) {
  return run(inputs, fidelity).result.step.time_s;
}

class Laws : public testing::TestWithParam<std::tuple<std::string, std::string>> {
 protected:
  static std::string plan() { return std::get<0>(GetParam()); }
  static bool is_deepseek() { return plan() == deepseek_plan; }
  static Inputs inputs(const Overrides& overrides = {}) {
    return step_inputs(plan(), std::get<1>(GetParam()), overrides);
  }
  static double step(const Overrides& overrides = {}) { return seconds(inputs(overrides)); }
};

INSTANTIATE_TEST_SUITE_P(Shipped, Laws,
                         testing::Combine(testing::Values(deepseek_plan, llama_plan),
                                          testing::ValuesIn(tests::profile_names)),
                         [](const auto& test) {
                           std::string name = std::get<0>(test.param) + "_" + std::get<1>(test.param);
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

TEST_P(Laws, NoStepBeatsItsBoundOrThePeak) {
  const Inputs in = inputs();
  for (const Fidelity fidelity : {Fidelity::closed_form, Fidelity::step}) {
    const model::StepResult result = run(in, fidelity).result;
    ASSERT_TRUE(result.bound_s);
    EXPECT_GT(*result.bound_s, 0);
    EXPECT_GE(result.step.time_s, *result.bound_s);
    const bool fp8 = in.plan.precision.gemm == model::Precision::fp8;
    const model::FlopsPerSecond peak = fp8 ? in.cluster.device.fp8_peak : in.cluster.device.bf16_peak;
    EXPECT_LE(result.step.model_tflops_per_gpu_causal, peak.value() / 1e12);
  }
}

// One more layer on a middle stage of DeepSeek-V3, two more of Llama.
TEST_P(Laws, MoreLayersTakeLonger) {
  Inputs more =
      inputs(is_deepseek() ? Overrides{"schedule.layers_per_stage=[3,4,4,4,4,4,4,5,4,4,4,4,4,4,4,2]"} : Overrides{});
  more.architecture.layers += is_deepseek() ? 1 : 2;
  EXPECT_GT(seconds(more), step());
}

TEST_P(Laws, MoreWorkTakesLonger) {
  const double usual = step();
  // The two cases are as many micro-batches of twice the size, and twice as many micro-batches.
  const std::string twice = "batch.global_batch_size=" + std::to_string(2 * inputs().plan.batch.global_batch_size);
  EXPECT_GT(step({"batch.micro_batch_size=2", twice}), usual);
  const double twice_the_batches = step({twice});
  EXPECT_GT(twice_the_batches, usual);
  EXPECT_LT(twice_the_batches, 2 * usual);  // fill, drain and optimizer come once
}

TEST_P(Laws, FewerSmsAreNeverFaster) {
  double before = step();
  for (const std::int64_t sms : {120, 100, 66}) {
    Inputs fewer = inputs();
    fewer.cluster.device.sms = sms;
    const double now = seconds(fewer);
    EXPECT_GT(now, before) << sms;
    before = now;
  }
}

TEST_P(Laws, ASlowerNicIsNeverFaster) {
  for (const Fidelity fidelity : {Fidelity::closed_form, Fidelity::step}) {
    double before = 0;
    for (const char* gbps : {"800", "400", "200", "100"}) {
      const double now = seconds(inputs({std::string("cluster.nic_gbps=") + gbps}), fidelity);
      EXPECT_GT(now, before) << gbps << " Gb/s, " << to_string(fidelity);
      before = now;
    }
  }
}

TEST_P(Laws, ASlowerNicSlowsWhateverCrossesIt) {
  const Inputs usual = inputs(), slow = inputs({"cluster.nic_gbps=200"});  // of 400
  const model::StepProgram program = tests::program_of(usual);
  const CostModels fast_costs = tests::costs_of(usual), slow_costs = tests::costs_of(slow);
  int all_to_alls = 0;
  for (const model::SlotTemplate& slot : program.templates) {
    const std::vector<SegmentTime> fast = segment_times(program, slot, fast_costs);
    const std::vector<SegmentTime> slower = segment_times(program, slot, slow_costs);
    for (std::size_t i = 0; i < fast.size(); ++i) {
      const bool all_to_all = slot.segments[i].stream == model::Stream::communication;
      all_to_alls += all_to_all;
      if (all_to_all) {
        EXPECT_GT(slower[i].transfer, fast[i].transfer);
        EXPECT_GT(slower[i].transfer_overlapped, fast[i].transfer_overlapped);
      } else {
        EXPECT_EQ(slower[i].compute, fast[i].compute);
      }
    }
  }
  EXPECT_EQ(all_to_alls > 0, is_deepseek());
  const model::Bytes hop = program.stage_message;
  EXPECT_GT(slow_costs.communication.p2p(hop, 1), fast_costs.communication.p2p(hop, 1));
  // Reductions between ranks of which eight share a node are bound by NVLink, small ones by the protocol LL, until the
  // NICs fall below both.
  const CostModels slowest_costs = tests::costs_of(inputs({"cluster.nic_gbps=25"}));
  for (const model::Graph& optimizer : program.stage_optimizers)
    for (const model::Operator& op : optimizer.operators) {
      if (model::operator_class(optimizer, op) != model::OperatorClass::collective) continue;
      const double fast = fast_costs.communication.collective(optimizer, op);
      EXPECT_GE(slow_costs.communication.collective(optimizer, op), fast);
      EXPECT_GT(slowest_costs.communication.collective(optimizer, op), fast);
    }
}

TEST_P(Laws, ExpertParallelismTakesTimeWithoutTensorParallelism) {
  const auto all_to_all_seconds = [](const Inputs& in) {
    const model::StepProgram program = tests::program_of(in);
    const CostModels costs = tests::costs_of(in);
    double sum = 0;
    for (const model::SlotTemplate& slot : program.templates) {
      const std::vector<SegmentTime> times = segment_times(program, slot, costs);
      for (std::size_t i = 0; i < times.size(); ++i)
        if (slot.segments[i].stream == model::Stream::communication) sum += times[i].transfer;
    }
    return sum;
  };
  ASSERT_EQ(inputs().plan.parallelism.tensor, 1);
  if (!is_deepseek()) {  // a dense model has no all-to-all
    EXPECT_EQ(all_to_all_seconds(inputs()), 0);
    return;
  }
  EXPECT_GT(all_to_all_seconds(inputs({"parallelism.expert=8"})), 0);
  EXPECT_GT(all_to_all_seconds(inputs()), all_to_all_seconds(inputs({"parallelism.expert=8"})));  // leaves the node
  EXPECT_EQ(all_to_all_seconds(inputs({"parallelism.expert=1"})), 0);
}

// Returns the times of all segments of a plan, whose program is the same under all keys of [overlap].
std::vector<std::vector<SegmentTime>> all_times(const Inputs& in) {
  const model::StepProgram program = tests::program_of(in);
  const CostModels costs = tests::costs_of(in);
  std::vector<std::vector<SegmentTime>> times;
  for (const model::SlotTemplate& slot : program.templates) times.push_back(segment_times(program, slot, costs));
  return times;
}

TEST_P(Laws, MoreSmsForCommunicationNeverSlowATransferNorSpeedUpCompute) {
  for (const char* family : {"deepep-v1", "hybrid-ep"}) {
    const auto times = [&](std::int64_t sms) {
      return all_times(inputs({"overlap.communication_sms=" + std::to_string(sms),
                               std::string("overlap.communication_kernels=") + family, "overlap.sm_policy=static"}));
    };
    std::vector<std::vector<SegmentTime>> before = times(2);
    for (const std::int64_t sms : {4, 8, 20, 32}) {
      const std::vector<std::vector<SegmentTime>> now = times(sms);
      for (std::size_t t = 0; t < now.size(); ++t)
        for (std::size_t i = 0; i < now[t].size(); ++i) {
          EXPECT_LE(now[t][i].transfer, before[t][i].transfer) << family << " " << sms;
          EXPECT_LE(now[t][i].transfer_overlapped, before[t][i].transfer_overlapped) << family << " " << sms;
          for (std::size_t state = 0; state < model::communication_states; ++state)
            EXPECT_GE(now[t][i].compute[state], before[t][i].compute[state]) << family << " " << sms;
        }
      before = now;
    }
  }
}

TEST_P(Laws, PoliciesDifferAsDefined) {
  const auto times = [&](const char* policy) {
    return all_times(inputs({"overlap.communication_sms=20", std::string("overlap.sm_policy=") + policy}));
  };
  const auto fixed = times("static"), none = times("none"), dynamic = times("dynamic");
  for (std::size_t t = 0; t < fixed.size(); ++t)
    for (std::size_t i = 0; i < fixed[t].size(); ++i) {
      // Without communication both have the whole GPU; with it, both have what the static policy always leaves.
      EXPECT_EQ(dynamic[t][i].compute[0], none[t][i].compute[0]);
      EXPECT_EQ(dynamic[t][i].compute[1], fixed[t][i].compute[1]);
      EXPECT_EQ(dynamic[t][i].compute[2], fixed[t][i].compute[2]);
      EXPECT_EQ(dynamic[t][i].transfer, fixed[t][i].transfer);
      EXPECT_EQ(none[t][i].transfer, fixed[t][i].transfer);
    }
}

TEST_P(Laws, WithoutExpertsOnlyTheWidthOfTheStaticPolicyShows) {
  if (is_deepseek()) return;
  const auto with = [&](const char* policy, const char* sms) {
    return step({std::string("overlap.sm_policy=") + policy, std::string("overlap.communication_sms=") + sms,
                 "overlap.collective_sms=20"});
  };
  const double whole = with("none", "20");
  EXPECT_EQ(with("dynamic", "20"), whole);
  EXPECT_EQ(with("none", "0"), whole);
  EXPECT_EQ(with("static", "0"), whole);
  EXPECT_GT(with("static", "20"), whole);
}

TEST_P(Laws, StagesHoldTheWholeModel) {
  const Inputs in = inputs();
  const model::StepProgram program = tests::program_of(in);
  std::vector<int> seen(static_cast<std::size_t>(in.architecture.layers), 0);
  double parameters = 0;
  for (const model::Stage& stage : program.stages) {
    for (const std::int32_t layer : stage.layers)
      if (layer >= 0 && layer < in.architecture.layers) ++seen[static_cast<std::size_t>(layer)];
    for (const std::uint16_t block : program.stage_kinds[stage.kind].blocks)
      for (const model::Tensor& tensor : program.blocks[block].tensors)
        if (tensor.role == model::Role::parameter && !tensor.shared)
          parameters += tensor.elements() * static_cast<double>(tensor.expert ? in.plan.parallelism.expert : 1);
  }
  EXPECT_EQ(seen, std::vector<int>(seen.size(), 1));
  const model::ModelMetrics metrics = model::model_metrics(in.architecture, in.plan.batch.sequence_length);
  EXPECT_DOUBLE_EQ(parameters, metrics.parameters + metrics.prediction_parameters);
}

TEST_P(Laws, ZeroSavesMemory) {
  const auto memory = [](const Inputs& in) {
    const model::Layout layout = model::make_layout(in.plan, in.architecture).value();
    return model::memory(in.plan, layout, tests::program_of(in), in.cluster.device);
  };
  const model::Memory sharded = memory(inputs({"parallelism.zero_stage=1"}));
  const model::Memory whole = memory(inputs({"parallelism.zero_stage=0"}));
  EXPECT_LT(sharded.peak_bytes, whole.peak_bytes);
  for (std::size_t rank = 0; rank < whole.ranks.size(); ++rank) {
    EXPECT_LT(sharded.ranks[rank].optimizer_bytes, whole.ranks[rank].optimizer_bytes);
    EXPECT_EQ(sharded.ranks[rank].parameters_bytes, whole.ranks[rank].parameters_bytes);
    EXPECT_EQ(sharded.ranks[rank].activations_bytes, whole.ranks[rank].activations_bytes);
  }
}

TEST_P(Laws, GigabytesArePowersOfTen) {
  const Inputs in = inputs();
  EXPECT_EQ(in.cluster.nic_bandwidth.value(), 400e9 / 8);         // 400 Gb/s
  EXPECT_EQ(in.cluster.intra_node_bandwidth.value(), 200e9);      // 200 GB/s
  EXPECT_EQ(in.cluster.device.memory.value(), 84'943'110'144.0);  // as the device reports it
  // The bytes of a transfer are elements of two bytes each; it takes them over the profile's rate in GB/s.
  const model::StepProgram program = tests::program_of(in);
  const double elements = static_cast<double>(in.plan.batch.sequence_length * in.architecture.hidden_size);
  EXPECT_EQ(program.stage_message.value(), 2 * elements);
  const model::Profile& profile = in.profile;
  const model::Parameter& rate = profile.parameters()[profile.find("network.nic_rate").value()];
  ASSERT_EQ(rate.unit, "GB/s");
  const model::CommunicationCost& all_to_alls = tests::costs_of(in).communication;
  EXPECT_NEAR(all_to_alls.p2p(program.stage_message, 1) - all_to_alls.p2p(model::Bytes(0), 1),
              2 * elements / (rate.value * 1e9), 1e-12);
}

TEST_P(Laws, TheSameInputsGiveTheSameBits) {
  const Inputs in = inputs();
  const Simulation once = simulate(in, Fidelity::step, true).value();
  const Simulation again = simulate(in, Fidelity::step, true).value();
  // Numbers in the JSON are read back as the same double.
  EXPECT_EQ(reports::to_json(once.result, in.plan), reports::to_json(again.result, in.plan));
  EXPECT_EQ(once.events, again.events);
  EXPECT_EQ(once.timeline.names, again.timeline.names);
  EXPECT_EQ(once.timeline.end_ps, again.timeline.end_ps);
  const auto key = [](const model::Span& s) {
    return std::tie(s.name, s.rank, s.stream, s.layer, s.micro_batch, s.start_ps, s.duration_ps, s.depth);
  };
  EXPECT_TRUE(std::ranges::equal(once.timeline.spans, again.timeline.spans, {}, key, key));
  // Recording changes only the number of events: without it, slots that nothing disturbs are not simulated in detail.
  const Simulation unwatched = run(in);
  EXPECT_EQ(reports::to_json(unwatched.result, in.plan), reports::to_json(once.result, in.plan));
  EXPECT_LT(unwatched.events, once.events);
  EXPECT_TRUE(unwatched.timeline.spans.empty());
}

// The closed form treats every stage as a middle stage. DeepSeek-V3's outer ranks (dense layers, heads) and Llama's
// last stage differ from those: DeepSeek-V3 15.40 and 16.67 s (datasheet), 15.46 and 16.48 s (public), 17.68 and 17.65
// s (h800); Llama 3 8B 6.42 and 6.36 s (h800).
TEST_P(Laws, ClosedFormAndStepAgree) {
  const Inputs in = inputs();
  EXPECT_NEAR(seconds(in, Fidelity::closed_form) / seconds(in), 1, 0.1);
}

TEST_P(Laws, RankZerosTimeAddsUp) {
  const model::StepTimes step = run(inputs()).result.step;
  double slots = 0, breakdown = 0;
  for (const auto& slot : step.slots_s) slots += slot.value_or(0);
  for (const auto& part : step.breakdown) {
    EXPECT_GE(part.seconds, 0) << part.name;
    breakdown += part.seconds;
  }
  EXPECT_NEAR(slots + step.bubble_s.value() + step.optimizer_s.value(), step.time_s, 1e-9);
  EXPECT_NEAR(breakdown, step.time_s, 1e-9);
}

// MXFP8 takes the constants of FP8. Its weights are BF16 and cast for every GEMM.
TEST(Formats, MxFp8IsLikeFp8ButForItsCasts) {
  const model::StepResult fp8 = run(step_inputs(deepseek_plan, "h800")).result;
  for (const Fidelity fidelity : {Fidelity::step, Fidelity::closed_form}) {
    Inputs in = step_inputs(deepseek_plan, "h800", {"precision.gemm=mxfp8", "precision.dispatch=mxfp8"});
    in.cluster.device.lacks.clear();
    const model::StepResult result = run(in, fidelity).result;
    EXPECT_GE(result.step.time_s, *result.bound_s);
    EXPECT_NEAR(result.step.time_s / fp8.step.time_s, 1, 0.15);
  }
}

// Nothing stands in for formats of four bits. With constants of their own, half the time of FP8's tiles, they are
// faster.
TEST(Formats, FourBitsNeedAProfileThatKnowsThem) {
  for (const std::string format : {"nvfp4", "mxfp4"}) {
    Inputs in = step_inputs(deepseek_plan, "h800", {"precision.gemm=" + format});
    in.cluster.device.nvfp4_peak = in.cluster.device.fp8_peak * 2;
    in.cluster.device.lacks.clear();
    const auto refused = simulate(in, Fidelity::step, false);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().kind, model::ErrorKind::infeasible);
    EXPECT_EQ(refused.error().key, "precision.gemm");
    EXPECT_NE(refused.error().message.find("gemm." + format + ".k_time"), std::string::npos) << refused.error().message;
    std::vector<model::Parameter> parameters = in.profile.parameters();
    parameters.push_back({.name = "gemm." + format + ".k_time", .value = 1.6, .unit = "ns"});
    parameters.push_back({.name = "gemm." + format + ".wave_overhead", .value = 0.3, .unit = "us"});
    in.profile = model::Profile("four bits", "", parameters);
    Inputs eight = in;
    eight.plan.precision.gemm = model::Precision::mxfp8;
    EXPECT_LT(seconds(in), seconds(eight)) << format;
  }
}

// The closed form and the event simulation evaluate one step program: they agree where nothing contends for SMs or
// links.

// Expert groups of one GPU need no all-to-all, so that no rank waits for tokens of another.
std::vector<std::string> random_settings(model::Random& random) {
  const std::string tensor = choice(random, {"1", "2", "4", "8"});
  return {"parallelism.tensor=" + tensor,
          std::string("parallelism.sequence=") + (tensor == "1" ? "false" : "true"),
          "parallelism.context=" + choice(random, {"1", "2"}),
          "parallelism.context_method=" + choice(random, {"ring", "all-gather", "all-to-all"}),
          "parallelism.pipeline=" + choice(random, {"1", "2", "4", "8"}),
          "parallelism.zero_stage=" + choice(random, {"0", "1"}),
          "schedule.kind=" + choice(random, {"gpipe", "1f1b", "zb-h1", "zb-h2", "zb-v", "dualpipe", "dualpipev"}),
          "recompute.policy=" + choice(random, {"none", "full"}),
          "precision.gemm=" + choice(random, {"bf16", "fp8", "fp8_tensor", "fp16", "tf32", "mxfp8"}),
          "attention.kernel=" + choice(random, {"fused", "unfused"}),
          "cluster.topology=h100-dgx"};
}

void expect_agreement(const std::vector<std::string>& common, std::uint64_t seed) {
  model::Random random(seed);
  int agreed = 0;
  for (int tried = 0; tried < 80; ++tried) {
    std::vector<std::string> settings = common;
    std::string text;
    for (std::string& setting : random_settings(random)) {
      text += setting + " ";
      settings.push_back(std::move(setting));
    }
    const Inputs inputs = tests::step_inputs("llama-3-8b-64xh800", "h100-public", settings);
    const auto events = simulate(inputs, Fidelity::step, false);
    if (!events) {
      EXPECT_EQ(events.error().kind, model::ErrorKind::infeasible) << text << to_string(events.error());
      continue;
    }
    const auto closed = simulate(inputs, Fidelity::closed_form, false);
    ASSERT_TRUE(closed) << text;
    const double expected = events->result.step.time_s;
    EXPECT_NEAR(closed->result.step.time_s, expected, 0.01 * expected) << text;
    ++agreed;
  }
  EXPECT_GE(agreed, 40) << "too few valid plans to say anything";
}

TEST(Fidelities, AgreeOnDenseModels) { expect_agreement({}, 11); }

TEST(Fidelities, AgreeOnOffloadedActivations) { expect_agreement({"offload.activations=0.5"}, 13); }

// Layers of Mamba-2 next to attention, whose context ranks send each other heads whatever attention does.
TEST(Fidelities, AgreeOnHybrids) {
  expect_agreement({"model.config=models/nemotron-3-nano-30b-a3b.json", "parallelism.expert=1"}, 14);
}

TEST(Fidelities, AgreeOnMixturesOfExperts) {
  expect_agreement({"model.config=models/mixtral-8x7b.json", "parallelism.expert=1"}, 12);
}

}  // namespace
}  // namespace plumbline::sim
