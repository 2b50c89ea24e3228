#include "sim/predict/detail/memory_power_counters.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "model/memory/memory.h"
#include "sim/engine/loop.h"

namespace plumbline::sim {
namespace {

using model::Span;
using Spans = std::vector<const Span*>;

struct RankSpans {
  Spans slots, updates;  // in order of time; updates: kernels after the slots, no collectives
};

std::vector<RankSpans> spans_by_rank(const model::Timeline& timeline) {
  std::vector<RankSpans> ranks(static_cast<std::size_t>(timeline.ranks));
  for (const Span& span : timeline.spans) {
    RankSpans& rank = ranks[static_cast<std::size_t>(span.rank)];
    if (span.depth == model::slot_depth) rank.slots.push_back(&span);
    if (span.stream == model::Stream::optimizer && span.work < 0) rank.updates.push_back(&span);
  }
  return ranks;
}

model::Counter memory_counter(std::int32_t rank, const Spans& slots, const model::RankLevels& levels) {
  model::Counter counter{rank, "memory (bytes)", {"state", "activations", "temporary", "communication"}, {}};
  for (std::size_t op = 0; op < levels.ops.size(); ++op) {
    const model::MemoryLevel& level = levels.ops[op];
    const double state =
        level.total_bytes - level.activations_bytes - level.temporary_bytes - level.communication_bytes;
    counter.samples.push_back({op < slots.size() ? slots[op]->start_ps : slots.back()->end_ps(),
                               {state, level.activations_bytes, level.temporary_bytes, level.communication_bytes}});
  }
  return counter;
}

class PowerCounter {
 public:
  PowerCounter(std::int32_t rank, const model::PowerModel& power) : power_(power) {
    counter_ = {rank, "power (W)", {"GPU"}, {{0, {power.idle()}}}};
  }

  // Adds work of so many joules above an idle GPU's; the calls are in order of time.
  void add(const Span& span, double joules) {
    if (span.duration_ps == 0) return;
    note(span.start_ps, std::min(power_.idle() + joules / to_seconds(span.duration_ps), power_.drawn_at_limit()));
    note(span.end_ps(), power_.idle());
  }
  model::Counter take() { return std::move(counter_); }

 private:
  void note(std::int64_t time_ps, double watts) {
    if (counter_.samples.back().time_ps == time_ps) counter_.samples.pop_back();
    counter_.samples.push_back({time_ps, {watts}});
  }

  const model::PowerModel& power_;
  model::Counter counter_;
};

}  // namespace

void add_memory_and_power(PlanWork& work, const model::StepProgram& program, const model::Memory& memory,
                          model::Timeline& timeline) {
  const std::vector<model::SlotMemory> slot_memories = model::slot_memories(program);
  const std::vector<std::int32_t> templates = distinct_slots(work);
  const std::vector<RankSpans> spans = spans_by_rank(timeline);
  for (std::int32_t rank = 0; rank < timeline.ranks; ++rank) {
    const auto& [slots, updates] = spans[static_cast<std::size_t>(rank)];
    if (slots.empty()) continue;
    const std::int32_t gpu = timeline.gpus.empty() ? rank : timeline.gpus[static_cast<std::size_t>(rank)];
    const auto pipeline = static_cast<std::size_t>(gpu / timeline.replicas);
    timeline.counters.push_back(
        memory_counter(rank, slots, model::rank_levels(memory, program, slot_memories, pipeline)));
    if (!work.costs->power) continue;
    PowerCounter power(rank, *work.costs->power);
    for (std::size_t op = 0; op < slots.size(); ++op)
      power.add(*slots[op], work.timed->power(templates[program.slot_templates[pipeline][op]]).joules);
    double updating = 0;
    for (const Span* update : updates) updating += to_seconds(update->duration_ps);
    for (const Span* update : updates)
      power.add(*update, work.updates[pipeline]->joules * to_seconds(update->duration_ps) / updating);
    timeline.counters.push_back(power.take());
  }
}

}  // namespace plumbline::sim
