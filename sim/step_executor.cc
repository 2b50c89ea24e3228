#include "sim/step_executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <optional>
#include <utility>

#include "sim/heap_loop.h"
#include "sim/lane.h"
#include "sim/messages.h"
#include "sim/recorder.h"
#include "sim/synchroniser.h"

namespace plumbline::sim {

namespace {

using model::Hop;
using model::PointToPoint;
using model::StepProgram;

constexpr std::uint32_t proceed_code = 1;

class Executor final : public LaneListener, public Handler {
 public:
  Executor(const ExecutionInput& input, Loop& loop)
      : input_(input),
        program_(*input.program),
        batched_(program_.schedule.point_to_point == PointToPoint::batched),
        loop_(loop),
        messages_(loop_, program_.schedule.ranks.size(), to_time(input.hop_latency),
                  {input.hop_bytes, input.hop_rate, input.links},
                  [this](const Messages::Arrival& arrival) { message_arrived(arrival); }),
        synchroniser_(loop_, program_, input.optimizers, input.synchronise,
                      {[this](std::int32_t rank, bool runs) { lanes_[rank].set_collective(runs); },
                       [this](const Collectives::Run& run) { collective_ended(run); }}) {
    const std::size_t ranks = program_.schedule.ranks.size();
    for (std::size_t r = 0; r < ranks; ++r) lanes_.emplace_back(loop_, *this, static_cast<std::int32_t>(r));
    next_.assign(ranks, 0);
    running_.assign(ranks, false);
    result_.ranks.resize(ranks);
    result_.template_seconds.assign(program_.templates.size(), 0);
    template_counts_.assign(program_.templates.size(), 0);
    waits_since_.assign(ranks, -1);
    if (input.record) recorder_.emplace(program_, input.template_times);
  }

  model::Result<Execution> run() {
    synchroniser_.step_started();
    for (std::size_t r = 0; r < lanes_.size(); ++r) post_batch(static_cast<std::int32_t>(r));
    result_.events = loop_.run();
    if (std::string stuck = who_waits(); !stuck.empty())
      return tl::unexpected(model::Error{model::ErrorKind::infeasible, "the schedule deadlocks: " + stuck, "", 0,
                                         "schedule.kind", "this is a defect of the schedule; choose another"});
    for (std::size_t t = 0; t < template_counts_.size(); ++t)
      if (template_counts_[t] > 0) result_.template_seconds[t] /= static_cast<double>(template_counts_[t]);
    for (const RankTimes& rank : result_.ranks) result_.pipeline_end = std::max(result_.pipeline_end, rank.end);
    result_.step_end = optimizer_step();
    if (recorder_) result_.timeline = recorder_->finish(to_time(result_.step_end));
    return std::move(result_);
  }

  void arrived(Lane& lane, std::uint32_t segment) override {
    const SegmentTime& time = input_.template_times[slot_template(lane.id())][segment];
    const std::uint64_t argument = (static_cast<std::uint64_t>(segment) << 32) | static_cast<std::uint32_t>(lane.id());
    loop_.at(loop_.now() + to_time(time.wait), {this, proceed_code, 0, argument});
  }

  void handle(std::uint32_t /*code*/, std::uint64_t argument) override {
    lanes_[argument & 0xffffffff].proceed(static_cast<std::uint32_t>(argument >> 32));
  }

  void segment_ended(const Lane& lane, std::uint32_t segment, const SegmentRun& run) override {
    if (recorder_) recorder_->segment(lane.id(), next_[lane.id()], segment, run);
    synchroniser_.ended(lane.id(), static_cast<std::int32_t>(next_[lane.id()]), static_cast<std::int32_t>(segment));
  }

  bool may_start(const Lane& lane, std::uint32_t segment) override {
    const std::int32_t rank = lane.id();
    const bool open =
        synchroniser_.open(rank, static_cast<std::int32_t>(next_[rank]), static_cast<std::int32_t>(segment));
    if (!open && waits_since_[rank] < 0) waits_since_[rank] = loop_.now();
    if (open && waits_since_[rank] >= 0)
      result_.ranks[rank].gather_wait += to_seconds(loop_.now() - std::exchange(waits_since_[rank], -1));
    return open;
  }

  void slot_ended(Lane& lane) override {
    const std::int32_t rank = lane.id();
    const model::ScheduleOp& op = program_.schedule.ranks[rank][next_[rank]];
    const double seconds = to_seconds(loop_.now() - lane.slot_start());
    RankTimes& times = result_.ranks[rank];
    times.slot_seconds[static_cast<std::size_t>(op.type)] += seconds;
    ++times.slot_counts[static_cast<std::size_t>(op.type)];
    times.end = to_seconds(loop_.now());
    times.exposed[static_cast<std::size_t>(op.type)] += seconds - to_seconds(lane.compute_busy() - busy_before_[rank]);
    busy_before_[rank] = lane.compute_busy();
    result_.template_seconds[slot_template(rank)] += seconds;
    ++template_counts_[slot_template(rank)];
    synchroniser_.ended(rank, static_cast<std::int32_t>(next_[rank]), -1);
    if (recorder_) recorder_->slot(rank, next_[rank], lane.slot_start(), loop_.now());
    running_[rank] = false;
    ++next_[rank];
    post_batch(rank);
  }

 private:
  std::uint16_t slot_template(std::int32_t rank) const { return program_.slot_templates[rank][next_[rank]]; }

  const std::vector<Hop>& batch(std::int32_t rank) const { return program_.batches[rank][next_[rank]]; }

  void post_batch(std::int32_t rank) {
    for (const Hop& hop : batch(rank)) {
      if (hop.send)
        messages_.post_send(rank, hop, batched_);
      else
        messages_.post_receive(rank, hop);
    }
    try_start(rank);
  }

  // A batch blocks until all of it has arrived; an eager send does not block.
  bool batch_complete(std::int32_t rank) const {
    return std::ranges::all_of(batch(rank),
                               [this](const Hop& hop) { return (hop.send && !batched_) || messages_.arrived(hop); });
  }

  void try_start(std::int32_t rank) {
    if (running_[rank] || next_[rank] >= program_.schedule.ranks[rank].size() || !batch_complete(rank)) return;
    running_[rank] = true;
    const std::uint16_t slot = slot_template(rank);
    lanes_[rank].start({.segments = &program_.templates[slot].segments,
                        .times = &input_.template_times[slot],
                        .device_sms = input_.device_sms,
                        .collective_sms = input_.collective_sms,
                        .links = input_.links == nullptr ? nullptr : &input_.links->exchange(rank)});
  }

  void message_arrived(const Messages::Arrival& arrival) {
    if (recorder_) recorder_->message(arrival.sender, arrival.forward, arrival.micro_batch, arrival.start, arrival.end);
    try_start(arrival.receiver);
    try_start(arrival.sender);
  }

  std::string who_waits() const {
    std::string text;
    for (std::size_t r = 0; r < lanes_.size(); ++r) {
      const auto rank = static_cast<std::int32_t>(r);
      if (next_[r] >= program_.schedule.ranks[r].size()) continue;
      for (const Hop& hop : batch(rank))
        if (!messages_.arrived(hop))
          text += fmt::format("rank {} waits before its op {} to {} rank {}; ", r, next_[r],
                              hop.send ? "send to" : "receive from", hop.peer);
    }
    return text;
  }

  void collective_ended(const Collectives::Run& run) {
    for (const std::int32_t rank : run.ranks) {
      const bool reduces = run.kind == Collectives::Kind::reduce;
      if (recorder_) recorder_->optimizer(rank, reduces ? "reduce gradients" : "gather parameters", run.start, run.end);
      lanes_[static_cast<std::size_t>(rank)].wake();
    }
  }

  double optimizer_step() {
    std::vector<GradientsReady> ranks;
    for (std::size_t rank = 0; rank < lanes_.size(); ++rank) {
      ranks.push_back(synchroniser_.ready(static_cast<std::int32_t>(rank), result_.ranks[rank].end));
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
  const StepProgram& program_;
  bool batched_;
  Loop& loop_;
  Messages messages_;
  Synchroniser synchroniser_;
  std::deque<Lane> lanes_;
  std::vector<std::size_t> next_;
  std::vector<bool> running_;
  std::vector<std::int64_t> template_counts_;
  std::vector<Time> waits_since_;  // per rank: compute waits for its parameters; -1: it does not
  std::map<std::int32_t, Time> busy_before_;
  std::optional<Recorder> recorder_;
  Execution result_;
};

class LoneLane final : public LaneListener, public Handler {
 public:
  explicit LoneLane(const std::vector<SegmentTime>& times) : times_(times), lane_(loop_, *this, 0) {}
  TemplateRun run(const model::SlotTemplate& slot, std::int64_t device_sms) {
    result_.segments.resize(slot.segments.size());
    lane_.start({.segments = &slot.segments, .times = &times_, .device_sms = device_sms});
    loop_.run();
    return std::move(result_);
  }
  void arrived(Lane& /*lane*/, std::uint32_t segment) override {
    loop_.at(loop_.now() + to_time(times_[segment].wait), {this, proceed_code, 0, segment});
  }
  void handle(std::uint32_t /*code*/, std::uint64_t argument) override {
    lane_.proceed(static_cast<std::uint32_t>(argument));
  }
  // Not when the loop runs dry: what a lane scheduled before a change of rate comes due later and is void.
  void slot_ended(Lane& /*lane*/) override { result_.seconds = to_seconds(loop_.now()); }
  void segment_ended(const Lane&, std::uint32_t segment, const SegmentRun& run) override {
    result_.segments[segment] = run;
  }

 private:
  const std::vector<SegmentTime>& times_;
  HeapLoop loop_;
  Lane lane_;
  TemplateRun result_;
};

}  // namespace

model::Result<Execution> execute(const ExecutionInput& input, Loop& loop) { return Executor(input, loop).run(); }

model::Result<Execution> execute(const ExecutionInput& input) {
  if (input.links == nullptr) {
    HeapLoop loop;
    return execute(input, loop);
  }
  HeapLoop loop(input.links->fabric().links());
  return execute(input, loop);
}

TemplateRun run_template(const model::SlotTemplate& slot, const std::vector<SegmentTime>& times,
                         std::int64_t device_sms) {
  return LoneLane(times).run(slot, device_sms);
}

double template_seconds(const model::SlotTemplate& slot, const std::vector<SegmentTime>& times,
                        std::int64_t device_sms) {
  return run_template(slot, times, device_sms).seconds;
}

}  // namespace plumbline::sim
