// Invariants of memory over all plans: a step ends with the bytes with which it began, no count is negative, and the
// peak is the sum of its parts at one moment.
#include "model/memory/memory.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "model/architecture/load_architecture.h"
#include "model/memory/slot_memory.h"
#include "model/plan/plan.h"
#include "model/program/compile.h"
#include "tests/support/inputs.h"

namespace plumbline::model {
namespace {

using tests::shipped;

struct Case {
  Plan plan;
  Layout layout;
  StepProgram program;
};

// Returns a plan that the layout accepts, with few GPUs and small batches, or nothing where the random numbers do not
// divide.
std::optional<Case> build(const std::string& config, const std::vector<std::string>& overrides) {
  static const std::string text = R"([model]
config = "models/x.json"
[cluster]
topology = "h800-rail-fat-tree"
gpus = 64
[batch]
sequence_length = 512
micro_batch_size = 1
global_batch_size = 128
)";
  auto plan = read_plan(text, "plan.toml", overrides);
  if (!plan) return std::nullopt;
  const Architecture architecture = load_architecture(shipped("examples/models/" + config + ".json")).value();
  auto layout = make_layout(*plan, architecture);
  if (!layout) return std::nullopt;
  // The spread of tokens does not matter here and takes long to estimate, so it is set to half of the ranks.
  const RoutingSpread spread{0.5 + static_cast<double>(plan->parallelism.expert) / 2, 1};
  auto program = compile(*plan, architecture, *layout, spread);
  if (!program) return std::nullopt;
  return Case{std::move(*plan), std::move(*layout), std::move(*program)};
}

std::string drawn(const std::string& key, const std::vector<std::string>& values) {
  return key + "=" + *rc::gen::elementOf(values).as(key);
}

std::string model_of(const std::vector<std::string>& names) { return *rc::gen::elementOf(names).as("model"); }

Case random_case() {
  std::vector<std::string> kinds;
  for (const ScheduleKind* kind : schedule_kinds()) kinds.emplace_back(kind->name());
  while (true) {
    const std::string config = model_of({"llama-3-8b", "deepseek-v2", "deepseek-v3"});
    const auto found = build(
        config, {drawn("schedule.kind", kinds), drawn("parallelism.pipeline", {"1", "2", "4", "8"}),
                 drawn("parallelism.expert", {"1", "4", "8"}), drawn("parallelism.zero_stage", {"0", "1"}),
                 drawn("schedule.virtual_stages", {"1", "2"}), drawn("batch.micro_batch_size", {"1", "2"}),
                 drawn("batch.global_batch_size", {"64", "128", "256"}), drawn("precision.gemm", {"bf16", "fp8"}),
                 drawn("recompute.policy", {"none", "full", "selective"}),
                 drawn("offload.activations", {"0", "0.3", "1"}), "recompute.operators=[\"rmsnorm\", \"swiglu\"]"});
    if (found) return *found;
  }
}

ClusterShape cluster() {
  ClusterShape shape;
  shape.device.memory = Bytes(80e9);
  shape.device.reserve = {Bytes(5e8), Bytes(3e7), Bytes(3e8), Bytes(5e8), 0.05};
  return shape;
}

// A device as it is, or under software that holds more.
Device drawn_device() {
  Device device = cluster().device;
  if (!*rc::gen::arbitrary<bool>().as("software")) return device;
  device.reserve.fragmentation = 0.3;
  device.reserve.fragmentation_low = 0.1;
  device.reserve.fragmentation_high = 0.5;
  device.reserve.reduction_buffers = Bytes(1e9);
  device.reserve.update_copies = Bytes(6);
  device.reserve.separate_gradients = device.reserve.shape_gradients = device.reserve.stage_outputs = true;
  return device;
}

RC_GTEST_PROP(MemoryOverAStep, EndsWhereItBegan, ()) {
  const Case c = random_case();
  const std::vector<SlotMemory> slots = slot_memories(c.program);
  for (std::size_t rank = 0; rank < c.program.schedule.ranks.size(); ++rank)
    RC_ASSERT(memory_timeline(c.program, slots, rank).left == Bytes(0));
}

RC_GTEST_PROP(MemoryOverAStep, NeverFallsBelowNothing, ()) {
  const Case c = random_case();
  const std::vector<SlotMemory> slots = slot_memories(c.program);
  const auto rank = *rc::gen::inRange<std::size_t>(0, c.program.schedule.ranks.size()).as("rank");
  const auto ops = static_cast<std::int32_t>(c.program.schedule.ranks[rank].size());
  const MemoryTimeline timeline = memory_timeline(c.program, slots, rank);
  RC_ASSERT(timeline.ops.size() == static_cast<std::size_t>(ops) + 1);
  const auto op = *rc::gen::inRange<std::int32_t>(0, ops + 1).as("op");
  Bytes fullest;
  for (const MemoryMoment& moment : memory_within(c.program, slots, rank, op)) {
    RC_ASSERT(moment.activations >= Bytes(0));
    RC_ASSERT(moment.temporary >= Bytes(0));
    RC_ASSERT(moment.communication >= Bytes(0));
    RC_ASSERT(moment.activations <= timeline.activations_peak);
    fullest = std::max(fullest, moment.sum());
  }
  // The counts by operator and by op agree.
  RC_ASSERT(timeline.ops[static_cast<std::size_t>(op)].sum() == fullest);
  RC_ASSERT(fullest <= timeline.ops[timeline.fullest].sum());
}

RC_GTEST_PROP(MemoryOverAStep, ThePeakIsTheSumOfItsParts, ()) {
  const Case c = random_case();
  const Memory result = memory(c.plan, c.layout, c.program, drawn_device());
  for (const RankMemory& rank : result.ranks) {
    double sum = 0;
    for (const double part : {rank.parameters_bytes, rank.gradients_bytes, rank.optimizer_bytes, rank.activations_bytes,
                              rank.temporary_bytes, rank.communication_bytes, rank.reserve_bytes}) {
      RC_ASSERT(part >= 0);
      RC_ASSERT(rank.peak_bytes >= part);
      sum += part;
    }
    RC_ASSERT(std::abs(sum - rank.peak_bytes) <= 1e-9 * rank.peak_bytes);
    RC_ASSERT(rank.low_bytes <= rank.peak_bytes);
    RC_ASSERT(rank.peak_bytes <= rank.high_bytes);
    RC_ASSERT(rank.allocated_bytes <= rank.segments_bytes);
    RC_ASSERT(rank.segments_bytes <= rank.peak_bytes);
    RC_ASSERT(rank.activations_peak_bytes >= rank.activations_bytes);
    RC_ASSERT(result.peak_bytes >= rank.peak_bytes);
    RC_ASSERT(!rank.peak_operator.empty());
  }
}

RC_GTEST_PROP(MemoryOverAStep, RecomputationNeverKeepsMore, ()) {
  const std::string config = model_of({"llama-3-8b", "deepseek-v2", "deepseek-v3"});
  const std::string gemm = drawn("precision.gemm", {"bf16", "fp8"});
  const std::string kind = drawn("schedule.kind", {"1f1b", "dualpipe", "zb-h1"});
  double before = 0;
  for (const std::string policy : {"full", "selective", "none"}) {
    const auto c = build(config, {gemm, kind, "parallelism.pipeline=4", "parallelism.expert=4",
                                  "recompute.policy=" + policy, "recompute.operators=[\"rmsnorm\", \"swiglu\"]"});
    if (!c) RC_DISCARD("no experts to spread");
    const Memory result = memory(c->plan, c->layout, c->program, cluster().device);
    RC_ASSERT(result.ranks[1].activations_peak_bytes >= before);
    before = result.ranks[1].activations_peak_bytes;
  }
}

}  // namespace
}  // namespace plumbline::model
