#include "sim/step/step_executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <optional>
#include <utility>

#include "sim/engine/gpu_model.h"
#include "sim/engine/heap_loop.h"
#include "sim/step/detail/data_parallel_runner.h"
#include "sim/step/detail/messages.h"
#include "sim/step/detail/recorder.h"

namespace plumbline::sim {

namespace {

using model::PointToPoint;
using model::StepProgram;
using model::Transfer;

constexpr std::uint32_t proceed_code = 1, slot_code = 2, whole_slot_code = 3;

// A slot that no collective overlaps takes as long as on a GPU alone, and is one event. Others run segment by segment.
class Executor final : public GpuListener, public Handler {
 public:
  // shared: flows on the loop may slow each other down.
  Executor(const ExecutionInput& input, Loop& loop, bool shared)
      : input_(input),
        whole_slots_(!shared && !input.record),
        program_(*input.program),
        batched_(program_.schedule.point_to_point == PointToPoint::batched),
        loop_(loop),
        messages_(loop_, program_.schedule.ranks.size(), to_time(input.p2p_latency),
                  {input.stage_message_bytes, input.p2p_rate, input.links},
                  [this](const Messages::Arrival& arrival) { message_arrived(arrival); }),
        data_parallel_(loop_, program_, input.optimizers, input.synchronize, input.collective_slowdown, input.groups,
                       {[this](std::int32_t rank, bool runs) { gpus_[rank].set_collective(runs); },
                        [this](const Collectives::Run& run) { collective_ended(run); }}) {
    const std::size_t ranks = program_.schedule.ranks.size();
    for (std::size_t r = 0; r < ranks; ++r) gpus_.emplace_back(loop_, *this, static_cast<std::int32_t>(r));
    next_.assign(ranks, 0);
    running_.assign(ranks, false);
    result_.ranks.resize(ranks);
    result_.template_seconds.assign(program_.templates.size(), 0);
    template_counts_.assign(program_.templates.size(), 0);
    waits_since_.assign(ranks, -1);
    busy_before_.assign(ranks, 0);
    free_runs_.assign(input.links == nullptr ? 1 : ranks,
                      std::vector<std::optional<TemplateRun>>(program_.templates.size()));
    rank_groups_.resize(ranks);
    for (const GroupLinks& group : input.groups)
      for (std::size_t r = 0; r < ranks; ++r) rank_groups_[r].push_back(&(*group.ranks)[r]);
    if (input.record) recorder_.emplace(program_, input.template_times);
  }

  model::Result<Execution> run() {
    data_parallel_.step_started();
    for (std::size_t r = 0; r < gpus_.size(); ++r) post_batch(static_cast<std::int32_t>(r));
    result_.events = loop_.run();
    if (std::string stuck = waiting_ranks(); !stuck.empty())
      return model::infeasible("schedule.kind", "the schedule deadlocks: " + stuck,
                               "this is a defect of the schedule; choose another");
    for (std::size_t t = 0; t < template_counts_.size(); ++t)
      if (template_counts_[t] > 0) result_.template_seconds[t] /= static_cast<double>(template_counts_[t]);
    for (const RankTimes& rank : result_.ranks) result_.pipeline_end = std::max(result_.pipeline_end, rank.end);
    result_.step_end = optimizer_step();
    if (recorder_) result_.timeline = recorder_->finish(to_time(result_.step_end));
    return std::move(result_);
  }

  void arrived(GpuModel& gpu, std::uint32_t segment) override {
    const SegmentTime& time = input_.template_times[slot_template(gpu.id())][segment];
    const std::uint64_t argument = (static_cast<std::uint64_t>(segment) << 32) | static_cast<std::uint32_t>(gpu.id());
    loop_.at(loop_.now() + to_time(time.wait), {this, proceed_code, 0, argument});
  }

  void handle(std::uint32_t code, std::uint64_t argument) override {
    if (code == slot_code) return gpu_slot_ended(static_cast<std::int32_t>(argument));
    if (code == whole_slot_code) return whole_slot_ended(static_cast<std::int32_t>(argument));
    gpus_[argument & 0xffffffff].proceed(static_cast<std::uint32_t>(argument >> 32));
  }

  void segment_ended(const GpuModel& gpu, std::uint32_t segment, const SegmentRun& run) override {
    if (recorder_) recorder_->segment(gpu.id(), next_[gpu.id()], segment, run);
    data_parallel_.ended(gpu.id(), static_cast<std::int32_t>(next_[gpu.id()]), static_cast<std::int32_t>(segment));
  }

  void computing(const GpuModel& gpu, bool runs) override { data_parallel_.computing(gpu.id(), runs); }

  bool may_start(const GpuModel& gpu, std::uint32_t segment) override {
    const std::int32_t rank = gpu.id();
    const bool open =
        data_parallel_.open(rank, static_cast<std::int32_t>(next_[rank]), static_cast<std::int32_t>(segment));
    if (!open && waits_since_[rank] < 0) waits_since_[rank] = loop_.now();
    if (open && waits_since_[rank] >= 0)
      result_.ranks[rank].gather_wait += to_seconds(loop_.now() - std::exchange(waits_since_[rank], -1));
    return open;
  }

  void slot_ended(GpuModel& gpu) override { at_end(gpu.id(), loop_.now(), slot_code); }

 private:
  // Of slots that end at the same time, the one of the lower rank ends first, whether it ran whole or by segments.
  void at_end(std::int32_t rank, Time time, std::uint32_t code) {
    loop_.at(time, {this, code, static_cast<std::uint16_t>(rank + 1), static_cast<std::uint64_t>(rank)});
  }

  void gpu_slot_ended(std::int32_t rank) {
    const GpuModel& gpu = gpus_[static_cast<std::size_t>(rank)];
    const Time busy_before = std::exchange(busy_before_[static_cast<std::size_t>(rank)], gpu.compute_busy());
    if (recorder_) recorder_->slot(rank, next_[rank], gpu.slot_start(), loop_.now());
    end_slot(rank, loop_.now() - gpu.slot_start(), gpu.compute_busy() - busy_before);
  }

  void whole_slot_ended(std::int32_t rank) {
    const TemplateRun& run = free_run(rank);
    end_slot(rank, run.duration, run.compute_busy);
  }

  void end_slot(std::int32_t rank, Time duration, Time compute_busy) {
    const model::ScheduleOp& op = program_.schedule.ranks[rank][next_[rank]];
    const double seconds = to_seconds(duration);
    RankTimes& times = result_.ranks[rank];
    times.slot_seconds[static_cast<std::size_t>(op.type)] += seconds;
    ++times.slot_counts[static_cast<std::size_t>(op.type)];
    times.end = to_seconds(loop_.now());
    times.exposed[static_cast<std::size_t>(op.type)] += seconds - to_seconds(compute_busy);
    result_.template_seconds[slot_template(rank)] += seconds;
    ++template_counts_[slot_template(rank)];
    data_parallel_.ended(rank, static_cast<std::int32_t>(next_[rank]), -1);
    running_[rank] = false;
    ++next_[rank];
    post_batch(rank);
  }

  // Returns the run of the rank's present slot on a GPU alone. With links each rank has a run of its own.
  const TemplateRun& free_run(std::int32_t rank) {
    const std::uint16_t slot = slot_template(rank);
    const std::int32_t links_of = input_.links == nullptr ? 0 : rank;
    std::optional<TemplateRun>& run = free_runs_[static_cast<std::size_t>(links_of)][slot];
    if (run) return *run;
    const model::SlotTemplate& whole = program_.templates[slot];
    const std::vector<SegmentTime>& times = input_.template_times[slot];
    run = input_.links == nullptr
              ? run_template(whole, times, input_.device_sms)
              : run_template(whole, times, input_.device_sms, *input_.links, rank_groups_[rank], rank);
    return *run;
  }

  std::uint16_t slot_template(std::int32_t rank) const { return program_.slot_templates[rank][next_[rank]]; }

  const std::vector<Transfer>& batch(std::int32_t rank) const { return program_.batches[rank][next_[rank]]; }

  void post_batch(std::int32_t rank) {
    for (const Transfer& transfer : batch(rank)) {
      if (transfer.send)
        messages_.post_send(rank, transfer, batched_);
      else
        messages_.post_receive(rank, transfer);
    }
    try_start(rank);
  }

  // A batch blocks until all of it has arrived, except for eager sends.
  bool batch_complete(std::int32_t rank) const {
    return std::ranges::all_of(batch(rank), [this](const Transfer& transfer) {
      return (transfer.send && !batched_) || messages_.arrived(transfer);
    });
  }

  void try_start(std::int32_t rank) {
    if (running_[rank] || next_[rank] >= program_.schedule.ranks[rank].size() || !batch_complete(rank)) return;
    running_[rank] = true;
    if (whole_slots_ && data_parallel_.quiet(rank, static_cast<std::int32_t>(next_[rank]))) {
      return at_end(rank, loop_.now() + free_run(rank).duration, whole_slot_code);
    }
    const std::uint16_t slot = slot_template(rank);
    gpus_[rank].start({.segments = &program_.templates[slot].segments,
                       .times = &input_.template_times[slot],
                       .device_sms = input_.device_sms,
                       .collective_sms = input_.collective_sms,
                       .links = input_.links == nullptr ? nullptr : &input_.links->expert_all_to_all(rank),
                       .groups = input_.links == nullptr ? nullptr : &rank_groups_[rank]});
  }

  void message_arrived(const Messages::Arrival& arrival) {
    if (recorder_) recorder_->message(arrival.sender, arrival.forward, arrival.micro_batch, arrival.start, arrival.end);
    try_start(arrival.receiver);
    try_start(arrival.sender);
  }

  std::string waiting_ranks() const {
    std::string text;
    for (std::size_t r = 0; r < gpus_.size(); ++r) {
      const auto rank = static_cast<std::int32_t>(r);
      if (next_[r] >= program_.schedule.ranks[r].size()) continue;
      for (const Transfer& transfer : batch(rank))
        if (!messages_.arrived(transfer))
          text += fmt::format("rank {} waits before its op {} to {} rank {}; ", r, next_[r],
                              transfer.send ? "send to" : "receive from", transfer.peer);
    }
    return text;
  }

  void collective_ended(const Collectives::Run& run) {
    for (const std::int32_t rank : run.ranks) {
      const bool reduces = run.kind == Collectives::Kind::reduce;
      if (recorder_) recorder_->optimizer(rank, reduces ? "reduce gradients" : "gather parameters", run.start, run.end);
      gpus_[static_cast<std::size_t>(rank)].wake();
    }
  }

  double optimizer_step() {
    std::vector<GradientsReady> ranks;
    for (std::size_t rank = 0; rank < gpus_.size(); ++rank) {
      ranks.push_back(data_parallel_.ready(static_cast<std::int32_t>(rank), result_.ranks[rank].end));
      result_.ranks[rank].reduced = ranks.back().reduced;
      result_.exposed_reduce = std::max(result_.exposed_reduce, ranks.back().reduced - result_.pipeline_end);
    }
    const auto part = [this](std::int32_t rank, const std::string& name, double start, double end) {
      if (recorder_) recorder_->optimizer(rank, name, to_time(start), to_time(end));
    };
    const std::vector<RankWork> works = rank_works(program_.schedule, input_.optimizers, program_.gather_after_update);
    result_.tail = step_tail(works, ranks);
    return step_end(works, ranks, part);
  }

  const ExecutionInput& input_;
  bool whole_slots_;
  const StepProgram& program_;
  bool batched_;
  Loop& loop_;
  Messages messages_;
  DataParallelRunner data_parallel_;
  std::deque<GpuModel> gpus_;
  std::vector<std::size_t> next_;
  std::vector<bool> running_;
  std::vector<std::int64_t> template_counts_;
  std::vector<Time> waits_since_;  // per rank: since when compute waits for its parameters; -1: it does not
  std::vector<Time> busy_before_;  // per rank: its GPU's busy time at the end of its last slot
  std::vector<std::vector<std::optional<TemplateRun>>> free_runs_;  // [rank; one entry without links][template]
  std::vector<std::vector<const RankLinks*>> rank_groups_;          // [rank][WireLoad::group]
  std::optional<Recorder> recorder_;
  Execution result_;
};

void blend(double& value, double other, double share) { value = share * value + (1 - share) * other; }

void blend(RankTimes& times, const RankTimes& others, double share) {
  blend(times.end, others.end, share);
  blend(times.gather_wait, others.gather_wait, share);
  blend(times.slowed, others.slowed, share);
  for (std::size_t type = 0; type < times.slot_seconds.size(); ++type) {
    blend(times.slot_seconds[type], others.slot_seconds[type], share);
    blend(times.exposed[type], others.exposed[type], share);
  }
}

}  // namespace

Execution mean_of(Execution first, const Execution& second, double share) {
  for (double Execution::*const part : {&Execution::pipeline_end, &Execution::step_end, &Execution::exposed_reduce})
    blend(first.*part, second.*part, share);
  for (double StepTail::*const part :
       {&StepTail::step, &StepTail::gather, &StepTail::host, &StepTail::agree, &StepTail::reduce})
    blend(first.tail.*part, second.tail.*part, share);
  for (std::size_t rank = 0; rank < first.ranks.size(); ++rank) blend(first.ranks[rank], second.ranks[rank], share);
  return first;
}

Execution by_pipeline_rank(Execution execution, std::int64_t replicas) {
  const auto of_rank = static_cast<std::size_t>(replicas);
  std::vector<RankTimes> means;
  for (std::size_t gpu = 0; gpu < execution.ranks.size(); ++gpu) {
    const auto before = static_cast<double>(gpu % of_rank);
    if (before == 0) means.push_back(execution.ranks[gpu]);
    blend(means.back(), execution.ranks[gpu], before / (before + 1));
  }
  execution.ranks = std::move(means);
  return execution;
}

model::Result<Execution> execute(const ExecutionInput& input, Loop& loop) { return Executor(input, loop, true).run(); }

model::Result<Execution> execute(const ExecutionInput& input) {
  if (input.links == nullptr) {
    HeapLoop loop;
    return Executor(input, loop, false).run();
  }
  HeapLoop loop(input.links->fabric().links());
  return Executor(input, loop, false).run();
}

}  // namespace plumbline::sim
