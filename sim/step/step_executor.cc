#include "sim/step/step_executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>

#include "model/base/random.h"
#include "model/cost/operator_class.h"
#include "sim/engine/heap_loop.h"
#include "sim/step/detail/data_parallel_runner.h"
#include "sim/step/detail/gpu_groups.h"
#include "sim/step/detail/recorder.h"

namespace plumbline::sim {
namespace {

using model::PointToPoint;
using model::StepProgram;
using model::Transfer;

constexpr std::uint32_t proceed_code = 1, slot_code = 2, whole_slot_code = 3;

const Fleet& one_gpu_per_rank() {
  static const Fleet fleet;
  return fleet;
}

// By how much the compute of a GPU in one slot differs from the expected: its speed, jitter, expert rows and attention.
class SlotFactors {
 public:
  // All arguments must outlive the object.
  SlotFactors(const model::StepProgram& program, const std::vector<std::vector<SegmentTime>>& times, const Fleet& fleet)
      : program_(program),
        fleet_(fleet),
        even_(fleet.slowness.empty() && fleet.jitter == 0 && fleet.work == nullptr),
        micro_batches_(program.schedule.micro_batches_per_direction()) {
    if (even_) return;
    for (std::size_t t = 0; t < program.templates.size(); ++t) {
      std::vector<Part>& parts = parts_.emplace_back();
      for (std::size_t s = 0; s < times[t].size(); ++s) {
        const model::Segment& segment = program.templates[t].segments[s];
        const SegmentTime& time = times[t][s];
        Part& part = parts.emplace_back();
        if (!(time.compute[0] > 0)) continue;  // it does not compute
        part.rows = static_cast<float>(time.compute_per_row[0] / time.compute[0]);
        double sum = 0, squares = 0, attention = 0;
        const model::Graph& graph = program.blocks[segment.block];
        for (std::size_t k = 0; k < time.kernels.size(); ++k) {
          sum += time.kernels[k];
          squares += time.kernels[k] * time.kernels[k];
          const model::Operator& op = graph.operators[segment.operators[k]];
          if (model::operator_class(graph, op) == model::OperatorClass::attention) attention += time.kernels[k];
        }
        if (!(sum > 0)) continue;
        part.deviation = static_cast<float>(fleet.jitter * std::sqrt(squares) / sum);
        part.attention = static_cast<float>(attention / sum);
      }
    }
  }

  bool even() const { return even_; }  // every factor is 1
  double slowness(std::int32_t gpu) const {
    return fleet_.slowness.empty() ? 1 : fleet_.slowness[static_cast<std::size_t>(gpu)];
  }
  // Writes the factor on the compute time of each segment of a GPU's slot. The same GPU and slot always have the same.
  // The exponential is taken to the second order, which keeps it above 0.
  void fill(std::int32_t gpu, std::size_t slot, std::vector<double>& factors) const {
    const auto rank = static_cast<std::size_t>(gpu / fleet_.replicas);
    const std::uint16_t index = program_.slot_templates[rank][slot];
    const std::vector<Part>& parts = parts_[index];
    const std::vector<model::Segment>& segments = program_.templates[index].segments;
    const model::ScheduleOp& op = program_.schedule.ranks[rank][slot];
    const std::uint64_t draws =
        model::mixed(model::mixed(model::mixed(fleet_.seed) + static_cast<std::uint64_t>(gpu)) + slot);
    const double slow = slowness(gpu);
    factors.resize(parts.size());
    for (std::size_t s = 0; s < parts.size(); ++s) {
      const double deviation = parts[s].deviation;
      const double x = deviation * model::nearly_normal(model::mixed(draws + s)) - deviation * deviation / 2;
      factors[s] = slow * (1 + x + x * x / 2);
    }
    if (fleet_.work == nullptr) return;
    const std::int64_t replica = gpu % fleet_.replicas;
    for (std::size_t s = 0; s < parts.size(); ++s)
      if (parts[s].rows > 0 || parts[s].attention > 0) factors[s] *= work(op, segments[s], parts[s], replica);
  }

 private:
  struct Part {           // of a segment
    float deviation = 0;  // of the logarithm of its time
    float rows = 0;       // share of its time that grows with the expert rows
    float attention = 0;  // share of its time that is attention
  };

  double work(const model::ScheduleOp& op, const model::Segment& segment, const Part& part,
              std::int64_t replica) const {
    const bool forward = segment.forward_side;
    const std::int32_t stage = forward ? op.f_stage : op.b_stage;
    const std::int32_t micro_batch =
        forward ? op.f_dir * micro_batches_ + op.f_mb : op.b_dir * micro_batches_ + op.b_mb;
    const std::int32_t layer = program_.stages[static_cast<std::size_t>(stage)].layers[segment.block_of_stage];
    double factor = 1;
    if (part.rows > 0 && layer >= 0) factor += part.rows * (fleet_.work->expert_rows(replica, layer, micro_batch) - 1);
    if (part.attention > 0) factor += part.attention * (fleet_.work->attention(replica, micro_batch) - 1);
    return std::max(0.0, factor);
  }

  const model::StepProgram& program_;
  const Fleet& fleet_;
  bool even_;
  std::int32_t micro_batches_ = 0;        // of one direction
  std::vector<std::vector<Part>> parts_;  // [template][segment]
};

// A slot of GPUs that wait for each other at barriers, without events: the ends of its segments follow from those that
// they wait for. A segment takes what it takes on a GPU alone, where streams slow each other down, times the factor of
// its GPU. With factors of 1 and equal starts the slot is that of a GPU alone, to the picosecond, and no end moves
// earlier when a factor grows or a GPU starts later. Where two streams share the SMs, factors that differ cost as much
// as the larger of them; on a GPU they cost about their mean.
class SlotPath {
 public:
  // `barriers` must outlive the object.
  SlotPath(const model::StepProgram& program, std::uint16_t slot_template, const TemplateRun& alone,
           const SlotBarriers& barriers)
      : barriers_(barriers), duration_(alone.duration), compute_busy_(alone.compute_busy) {
    const std::vector<model::Segment>& segments = program.templates[slot_template].segments;
    std::array<std::vector<std::uint32_t>, GpuModel::streams> queues;
    for (std::uint32_t s = 0; s < segments.size(); ++s)
      queues[static_cast<std::size_t>(segments[s].stream)].push_back(s);
    std::array<std::size_t, GpuModel::streams> next{};
    std::vector<bool> done(segments.size(), false);
    while (steps_.size() < segments.size()) {
      for (std::size_t stream = 0; stream < queues.size(); ++stream) {
        if (next[stream] == queues[stream].size()) continue;
        const std::uint32_t s = queues[stream][next[stream]];
        const model::Segment& segment = segments[s];
        if (!std::ranges::all_of(segment.waits, [&](std::uint16_t wait) { return done[wait]; })) continue;
        Step& step = steps_.emplace_back();
        step.segment = s;
        step.kind = barriers.kind(slot_template, s);
        step.computes = segment.stream == model::Stream::compute || segment.stream == model::Stream::weight_gradient;
        const SegmentRun& run = alone.segments[s];
        const Time barrier = segment.stream == model::Stream::communication ? run.arrival
                             : segment.stream == model::Stream::collective  ? run.start
                                                                            : run.end;
        step.before = static_cast<double>(barrier - run.start);
        step.after = static_cast<double>(run.end - barrier);
        step.follows.assign(segment.waits.begin(), segment.waits.end());
        if (next[stream] > 0) step.follows.push_back(queues[stream][next[stream] - 1]);
        ++next[stream];
        done[s] = true;
      }
    }
  }

  struct Member {
    std::int32_t gpu = 0, replica = 0;
    Time start = 0;
    Time end = 0, compute_busy = 0, waited = 0;  // results; waited: at barriers for others
  };
  // Runs the template as slot `slot` of the members, which are a group of SlotBarriers::together() in ascending order.
  void run(std::vector<Member>& members, std::size_t slot, const SlotFactors& factors) {
    const std::size_t n = members.size();
    Time first = members.front().start, last = first;
    for (const Member& member : members) {
      first = std::min(first, member.start);
      last = std::max(last, member.start);
    }
    if (factors.even() && first == last) {
      for (Member& member : members) {
        member.end = first + duration_;
        member.compute_busy = compute_busy_;
        member.waited = 0;
      }
      return;
    }
    ends_.resize(steps_.size() * n);
    for (std::vector<double>* values : {&first_, &starts_, &waited_, &longer_, &last_}) values->assign(n, 0);
    factors_.assign(steps_.size() * n, 1);
    for (std::size_t m = 0; m < n; ++m) {
      first_[m] = static_cast<double>(members[m].start - first);
      if (factors.even()) continue;
      factors.fill(members[m].gpu, slot, own_);
      for (std::size_t s = 0; s < own_.size(); ++s) factors_[s * n + m] = own_[s];
    }
    last_ = first_;
    for (const Step& step : steps_) {
      start(step);
      const double* factor = &factors_[step.segment * n];
      if (step.computes)
        for (std::size_t m = 0; m < n; ++m) {
          const double seconds = step.before * factor[m];
          starts_[m] += seconds;
          longer_[m] += seconds - step.before;
        }
      else
        for (std::size_t m = 0; m < n; ++m) starts_[m] += step.before;
      if (step.kind >= 0) pass(barriers_.kinds()[static_cast<std::size_t>(step.kind)], members);
      double* ends = &ends_[step.segment * n];
      for (std::size_t m = 0; m < n; ++m) {
        ends[m] = starts_[m] + step.after;
        last_[m] = std::max(last_[m], ends[m]);
      }
    }
    for (std::size_t m = 0; m < n; ++m) {
      members[m].end = first + std::llround(last_[m]);
      members[m].compute_busy = compute_busy_ + std::llround(longer_[m]);
      members[m].waited = std::llround(waited_[m]);
    }
  }

 private:
  struct Step {
    std::uint32_t segment = 0;
    std::int32_t kind = -1;  // of the barrier; -1: none
    bool computes = false;
    double before = 0, after = 0;        // ps until the barrier, and from it to the end
    std::vector<std::uint32_t> follows;  // segments that must have ended
  };
  // Fills starts_ with the time at which each member may begin the step.
  void start(const Step& step) {
    const std::size_t n = first_.size();
    std::ranges::copy(first_, starts_.begin());
    for (const std::uint32_t before : step.follows) {
      const double* ends = &ends_[before * n];
      for (std::size_t m = 0; m < n; ++m) starts_[m] = std::max(starts_[m], ends[m]);
    }
  }

  // Moves every member to the last one of its group.
  void pass(const GpuGroups& groups, const std::vector<Member>& members) {
    latest_.resize(groups.members.size());
    const auto latest = [&](std::size_t m) -> double& {
      return latest_[static_cast<std::size_t>(groups.of[static_cast<std::size_t>(members[m].replica)])];
    };
    for (std::size_t m = 0; m < members.size(); ++m) latest(m) = 0;
    for (std::size_t m = 0; m < members.size(); ++m) latest(m) = std::max(latest(m), starts_[m]);
    for (std::size_t m = 0; m < members.size(); ++m) {
      waited_[m] += latest(m) - starts_[m];
      starts_[m] = latest(m);
    }
  }

  const SlotBarriers& barriers_;
  std::vector<Step> steps_;  // each after all that it follows
  Time duration_ = 0, compute_busy_ = 0;
  // Of the present run, in ps since the first start of a member.
  std::vector<double> ends_;                                     // [segment][member]
  std::vector<double> factors_, own_;                            // [segment][member], [segment] of one member
  std::vector<double> first_, starts_, waited_, longer_, last_;  // [member]
  std::vector<double> latest_;                                   // [group of a barrier]
};

// A slot that no collective overlaps follows from that of a GPU alone, and is one event for each GPU. Others run
// segment by segment. With a fleet, a group of GPUs that wait for each other starts such a slot together.
class Executor final : public GpuListener, public Handler {
 public:
  // shared: flows on the loop may slow each other down.
  Executor(const ExecutionInput& input, Loop& loop, bool shared)
      : input_(input),
        fleet_(input.fleet == nullptr ? one_gpu_per_rank() : *input.fleet),
        replicas_(static_cast<std::int32_t>(fleet_.replicas)),
        whole_slots_(!shared && !input.record.on && !fleet_.by_kernels),
        program_(*input.program),
        batched_(program_.schedule.point_to_point == PointToPoint::batched),
        loop_(loop),
        messages_(loop_, program_.schedule, fleet_.replicas, to_time(input.p2p_latency),
                  {input.stage_message_bytes, input.p2p_rate, input.links},
                  [this](const Messages::Arrival& arrival) { message_arrived(arrival); }),
        data_parallel_(loop_, program_, input.optimizers, fleet_.replicas, input.synchronize, input.collective_slowdown,
                       input.groups,
                       {[this](std::int32_t gpu, bool runs) { gpus_[gpu].model.set_collective(runs); },
                        [this](const Collectives::Run& run) { collective_ended(run); }}),
        factors_(program_, input.template_times, fleet_),
        barriers_(program_, fleet_.exchange, fleet_.replicas) {
    const std::size_t ranks = program_.schedule.ranks.size(), gpus = ranks * static_cast<std::size_t>(replicas_);
    gpus_.reserve(gpus);
    for (std::size_t g = 0; g < gpus; ++g) gpus_.emplace_back(loop_, *this, static_cast<std::int32_t>(g));
    for (const GpuGroups& groups : barriers_.kinds()) arrived_.emplace_back(ranks * groups.members.size(), 0);
    for (const GpuGroups& groups : barriers_.joins()) ready_.emplace_back(ranks * groups.members.size(), 0);
    result_.ranks.resize(gpus);
    result_.template_seconds.assign(program_.templates.size(), 0);
    template_counts_.assign(program_.templates.size(), 0);
    paths_.resize(input.links == nullptr ? 1 : ranks);
    for (auto& paths : paths_) paths.resize(program_.templates.size());
    for (std::size_t r = 0; r < ranks; ++r) rank_groups_.push_back(links_of_groups(input, r));
    if (input.record.on)
      recorder_.emplace(
          program_, input.template_times, input.record, input.fleet,
          Recorder::Hardware{input.device_sms, input.collective_sms, input.links, input.stage_message_bytes});
  }

  model::Result<Execution> run() {
    data_parallel_.step_started();
    for (std::size_t g = 0; g < gpus_.size(); ++g) post_batch(static_cast<std::int32_t>(g));
    result_.events = loop_.run();
    if (std::string stuck = waiting_ranks(); !stuck.empty())
      return model::infeasible("schedule.kind", "the schedule deadlocks: " + stuck,
                               "this is a defect of the schedule; choose another");
    for (std::size_t t = 0; t < template_counts_.size(); ++t)
      if (template_counts_[t] > 0) result_.template_seconds[t] /= static_cast<double>(template_counts_[t]);
    for (const RankTimes& times : result_.ranks) result_.pipeline_end = std::max(result_.pipeline_end, times.end);
    result_.step_end = optimizer_step();
    if (recorder_) result_.timeline = recorder_->finish(to_time(result_.step_end));
    return std::move(result_);
  }

  // Without a fleet the wait for the slowest GPU of the group was predicted.
  void arrived(GpuModel& gpu, std::uint32_t segment) override {
    if (input_.fleet != nullptr) return meet(gpu.id(), segment);
    const SegmentTime& time = input_.template_times[slot_template(gpu.id())][segment];
    const std::uint64_t argument = (static_cast<std::uint64_t>(segment) << 32) | static_cast<std::uint32_t>(gpu.id());
    loop_.at(loop_.now() + to_time(time.wait), {this, proceed_code, 0, argument});
  }

  void handle(std::uint32_t code, std::uint64_t argument) override {
    if (code == slot_code) return gpu_slot_ended(static_cast<std::int32_t>(argument));
    if (code == whole_slot_code) return whole_slot_ended(static_cast<std::int32_t>(argument));
    gpus_[argument & 0xffffffff].model.proceed(static_cast<std::uint32_t>(argument >> 32));
  }

  void segment_ended(const GpuModel& gpu, std::uint32_t segment, const SegmentRun& run) override {
    const std::size_t slot = gpus_[gpu.id()].next;
    if (recorder_) recorder_->segment(gpu.id(), slot, segment, run);
    data_parallel_.ended(gpu.id(), static_cast<std::int32_t>(slot), static_cast<std::int32_t>(segment));
  }

  void computing(const GpuModel& gpu, bool runs) override { data_parallel_.computing(gpu.id(), runs); }

  bool may_start(const GpuModel& model, std::uint32_t segment) override {
    Gpu& gpu = gpus_[model.id()];
    const bool open =
        data_parallel_.open(model.id(), static_cast<std::int32_t>(gpu.next), static_cast<std::int32_t>(segment));
    if (!open && gpu.waits_since < 0) gpu.waits_since = loop_.now();
    if (open && gpu.waits_since >= 0)
      result_.ranks[model.id()].gather_wait += to_seconds(loop_.now() - std::exchange(gpu.waits_since, -1));
    return open;
  }

  void slot_ended(GpuModel& gpu) override { at_end(gpu.id(), loop_.now(), slot_code); }

 private:
  struct Gpu {
    Gpu(Loop& loop, GpuListener& listener, std::int32_t id) : model(loop, listener, id) {}

    GpuModel model;
    std::size_t next = 0;  // slot
    bool running = false;
    Time waits_since = -1;                // since when compute waits for its parameters; -1: it does not
    Time busy_before = 0;                 // the model's busy time at the end of its last slot
    Time ready = 0;                       // since when the present slot could run
    Time duration = 0, busy = 0;          // of the present slot, where it runs whole
    std::vector<double> factors;          // of the present slot, where it runs by segments
    std::array<Time, 2> barrier_since{};  // of communication, of collectives
  };

  std::int32_t rank_of(std::int32_t gpu) const { return gpu / replicas_; }
  std::int32_t replica_of(std::int32_t gpu) const { return gpu % replicas_; }

  std::size_t& counter(std::vector<std::size_t>& counters, const GpuGroups& groups, std::int32_t gpu) const {
    const auto group = static_cast<std::size_t>(groups.of[static_cast<std::size_t>(replica_of(gpu))]);
    return counters[static_cast<std::size_t>(rank_of(gpu)) * groups.members.size() + group];
  }
  static const std::vector<std::int32_t>& members(const GpuGroups& groups, std::int32_t replica) {
    return groups.members[static_cast<std::size_t>(groups.of[static_cast<std::size_t>(replica)])];
  }

  // The last GPU of a group that arrives at a barrier lets all of them go on.
  void meet(std::int32_t gpu, std::uint32_t segment) {
    const std::uint16_t slot = slot_template(gpu);
    const std::int32_t kind = barriers_.kind(slot, segment);
    if (kind < 0) return gpus_[gpu].model.proceed(segment);
    const std::size_t stream =
        program_.templates[slot].segments[segment].stream == model::Stream::communication ? 0 : 1;
    gpus_[gpu].barrier_since[stream] = loop_.now();
    const GpuGroups& groups = barriers_.kinds()[static_cast<std::size_t>(kind)];
    const std::vector<std::int32_t>& replicas = members(groups, replica_of(gpu));
    std::size_t& arrived = counter(arrived_[static_cast<std::size_t>(kind)], groups, gpu);
    if (++arrived < replicas.size()) return;
    arrived = 0;
    for (const std::int32_t replica : replicas) {
      const std::int32_t member = gpu - replica_of(gpu) + replica;
      result_.ranks[member].barrier_wait += to_seconds(loop_.now() - gpus_[member].barrier_since[stream]);
      gpus_[member].model.proceed(segment);
    }
  }

  // Of slots that end at the same time, the one of the lower GPU ends first, whether it ran whole or by segments.
  void at_end(std::int32_t gpu, Time time, std::uint32_t code) {
    constexpr std::int32_t last_priority = 0xffff;
    const auto priority = static_cast<std::uint16_t>(std::min(gpu + 1, last_priority));
    loop_.at(time, {this, code, priority, static_cast<std::uint64_t>(gpu)});
  }

  void gpu_slot_ended(std::int32_t index) {
    Gpu& gpu = gpus_[static_cast<std::size_t>(index)];
    const Time busy_before = std::exchange(gpu.busy_before, gpu.model.compute_busy());
    if (recorder_) recorder_->slot(index, gpu.next, gpu.model.slot_start(), loop_.now());
    end_slot(index, loop_.now() - gpu.ready, gpu.model.compute_busy() - busy_before);
  }

  void whole_slot_ended(std::int32_t index) {
    const Gpu& gpu = gpus_[static_cast<std::size_t>(index)];
    end_slot(index, gpu.duration, gpu.busy);
  }

  void end_slot(std::int32_t index, Time duration, Time compute_busy) {
    Gpu& gpu = gpus_[static_cast<std::size_t>(index)];
    const model::ScheduleOp& op = program_.schedule.ranks[rank_of(index)][gpu.next];
    const double seconds = to_seconds(duration);
    RankTimes& times = result_.ranks[index];
    times.slot_seconds[static_cast<std::size_t>(op.type)] += seconds;
    ++times.slot_counts[static_cast<std::size_t>(op.type)];
    times.end = to_seconds(loop_.now());
    times.exposed[static_cast<std::size_t>(op.type)] += seconds - to_seconds(compute_busy);
    result_.template_seconds[slot_template(index)] += seconds;
    ++template_counts_[slot_template(index)];
    data_parallel_.ended(index, static_cast<std::int32_t>(gpu.next), -1);
    gpu.running = false;
    ++gpu.next;
    post_batch(index);
  }

  // Returns the present slot's template on GPUs without collectives. With links each pipeline rank has its own.
  SlotPath& path(std::int32_t gpu) {
    const std::uint16_t slot = slot_template(gpu);
    const std::int32_t rank = input_.links == nullptr ? 0 : rank_of(gpu);
    std::optional<SlotPath>& path = paths_[static_cast<std::size_t>(rank)][slot];
    if (path) return *path;
    const model::SlotTemplate& whole = program_.templates[slot];
    const std::vector<SegmentTime>& times = input_.template_times[slot];
    path.emplace(program_, slot,
                 input_.links == nullptr
                     ? run_template(whole, times, input_.device_sms)
                     : run_template(whole, times, input_.device_sms, *input_.links, rank_groups_[rank], rank),
                 barriers_);
    return *path;
  }

  std::uint16_t slot_template(std::int32_t gpu) const { return program_.slot_templates[rank_of(gpu)][gpus_[gpu].next]; }

  const std::vector<Transfer>& batch(std::int32_t gpu) const { return program_.batches[rank_of(gpu)][gpus_[gpu].next]; }

  void post_batch(std::int32_t gpu) {
    for (const Transfer& transfer : batch(gpu)) {
      if (transfer.send)
        messages_.post_send(gpu, transfer, batched_);
      else
        messages_.post_receive(gpu, transfer);
    }
    try_start(gpu);
  }

  // A batch blocks until all of it has arrived, except for eager sends.
  bool batch_complete(std::int32_t gpu) const {
    return std::ranges::all_of(batch(gpu), [&](const Transfer& transfer) {
      return (transfer.send && !batched_) || messages_.arrived(gpu, transfer);
    });
  }

  void try_start(std::int32_t index) {
    Gpu& gpu = gpus_[static_cast<std::size_t>(index)];
    if (gpu.running || gpu.next >= program_.schedule.ranks[rank_of(index)].size() || !batch_complete(index)) return;
    gpu.running = true;
    gpu.ready = loop_.now();
    if (!whole_slots_) return start(index);
    const std::uint16_t slot = slot_template(index);
    const GpuGroups& groups = barriers_.together(slot);
    const std::vector<std::int32_t>& replicas = members(groups, replica_of(index));
    std::size_t& ready = counter(ready_[barriers_.joined(slot)], groups, index);
    if (++ready < replicas.size()) return;
    ready = 0;
    group_.clear();
    bool quiet = true;
    for (const std::int32_t replica : replicas) {
      const std::int32_t member = index - replica_of(index) + replica;
      group_.push_back({member, replica, gpus_[member].ready});
      quiet = quiet && data_parallel_.quiet(member, static_cast<std::int32_t>(gpu.next));
    }
    if (quiet) return run_whole(gpu.next);
    for (const SlotPath::Member& member : group_) start(member.gpu);
  }

  // Ends that do not depend on the last member, in slots with a single barrier, are not earlier than its start.
  void run_whole(std::size_t slot) {
    path(group_.front().gpu).run(group_, slot, factors_);
    for (const SlotPath::Member& member : group_) {
      Gpu& gpu = gpus_[member.gpu];
      const Time end = std::max(member.end, loop_.now());
      gpu.duration = end - member.start;
      gpu.busy = member.compute_busy;
      result_.ranks[member.gpu].barrier_wait += to_seconds(member.waited);
      at_end(member.gpu, end, whole_slot_code);
    }
  }

  void start(std::int32_t index) {
    Gpu& gpu = gpus_[static_cast<std::size_t>(index)];
    const std::uint16_t slot = slot_template(index);
    if (!factors_.even()) factors_.fill(index, gpu.next, gpu.factors);
    const std::int32_t rank = rank_of(index);
    gpu.model.start({.segments = &program_.templates[slot].segments,
                     .times = &input_.template_times[slot],
                     .factors = factors_.even() ? nullptr : &gpu.factors,
                     .device_sms = input_.device_sms,
                     .collective_sms = input_.collective_sms,
                     .links = input_.links == nullptr ? nullptr : &input_.links->expert_all_to_all(rank),
                     .groups = input_.links == nullptr ? nullptr : &rank_groups_[rank],
                     .coupled = input_.fleet != nullptr});
  }

  void message_arrived(const Messages::Arrival& arrival) {
    if (recorder_) recorder_->message(arrival);
    try_start(arrival.receiver);
    try_start(arrival.sender);
  }

  std::string waiting_ranks() const {
    std::string text;
    for (std::size_t g = 0; g < gpus_.size(); ++g) {
      const auto gpu = static_cast<std::int32_t>(g);
      if (gpus_[g].next >= program_.schedule.ranks[rank_of(gpu)].size()) continue;
      for (const Transfer& transfer : batch(gpu))
        if (!messages_.arrived(gpu, transfer))
          text += fmt::format("rank {} waits before its op {} to {} rank {}; ", rank_of(gpu), gpus_[g].next,
                              transfer.send ? "send to" : "receive from", transfer.peer);
    }
    return text;
  }

  void collective_ended(const Collectives::Run& run) {
    for (const std::int32_t gpu : run.gpus) {
      if (recorder_) recorder_->collective(gpu, run, load_of(run));
      gpus_[static_cast<std::size_t>(gpu)].model.wake();
    }
  }

  const WireLoad& load_of(const Collectives::Run& run) const {
    const UnitTiming& unit =
        input_.optimizers[static_cast<std::size_t>(run.stage)].units[static_cast<std::size_t>(run.unit)];
    if (run.kind == Collectives::Kind::gather) return unit.gather_load;
    return input_.synchronize ? unit.reduce_load : unit.local_load;
  }

  double optimizer_step() {
    const std::vector<RankWork> rank_work =
        rank_works(program_.schedule, input_.optimizers, program_.gather_after_update);
    std::vector<RankWork> works;
    std::vector<GradientsReady> ready;
    for (std::int32_t gpu = 0; gpu < static_cast<std::int32_t>(gpus_.size()); ++gpu) {
      RankTimes& times = result_.ranks[gpu];
      ready.push_back(data_parallel_.ready(gpu, times.end));
      times.reduced = ready.back().reduced;
      result_.exposed_reduce = std::max(result_.exposed_reduce, ready.back().reduced - result_.pipeline_end);
      works.push_back(rank_work[static_cast<std::size_t>(rank_of(gpu))].slower(factors_.slowness(gpu)));
    }
    const auto part = [this](std::int32_t gpu, const std::string& name, double start, double end) {
      if (recorder_) recorder_->optimizer(gpu, name, to_time(start), to_time(end));
    };
    result_.tail = step_tail(works, ready);
    return step_end(works, ready, part);
  }

  const ExecutionInput& input_;
  const Fleet& fleet_;
  std::int32_t replicas_;
  bool whole_slots_;
  const StepProgram& program_;
  bool batched_;
  Loop& loop_;
  Messages messages_;
  DataParallelRunner data_parallel_;
  SlotFactors factors_;
  SlotBarriers barriers_;
  std::vector<Gpu> gpus_;  // which never move
  std::vector<std::int64_t> template_counts_;
  // GPUs of each pipeline rank's groups [rank and group] that have arrived at a barrier [kind], or are ready for their
  // slot [join].
  std::vector<std::vector<std::size_t>> arrived_, ready_;
  std::vector<SlotPath::Member> group_;                      // that starts a slot
  std::vector<std::vector<std::optional<SlotPath>>> paths_;  // [pipeline rank; one entry without links][template]
  std::vector<std::vector<const RankLinks*>> rank_groups_;   // [rank][WireLoad::group]
  std::optional<Recorder> recorder_;
  Execution result_;
};

void blend(double& value, double other, double share) { value = share * value + (1 - share) * other; }

void blend(RankTimes& times, const RankTimes& others, double share) {
  blend(times.end, others.end, share);
  blend(times.gather_wait, others.gather_wait, share);
  blend(times.slowed, others.slowed, share);
  blend(times.barrier_wait, others.barrier_wait, share);
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

std::vector<const RankLinks*> links_of_groups(const ExecutionInput& input, std::size_t rank) {
  std::vector<const RankLinks*> links;
  for (const GroupLinks& group : input.groups) links.push_back(&(*group.ranks)[rank]);
  return links;
}

std::vector<RankTimes> mean_over_replicas(const std::vector<RankTimes>& gpus, std::int64_t replicas) {
  std::vector<RankTimes> ranks(gpus.size() / static_cast<std::size_t>(replicas));
  const double share = 1 / static_cast<double>(replicas);
  for (std::size_t gpu = 0; gpu < gpus.size(); ++gpu) {
    const RankTimes& own = gpus[gpu];
    RankTimes& mean = ranks[gpu / static_cast<std::size_t>(replicas)];
    mean.slot_counts = own.slot_counts;
    for (std::size_t type = 0; type < own.slot_seconds.size(); ++type) {
      mean.slot_seconds[type] += share * own.slot_seconds[type];
      mean.exposed[type] += share * own.exposed[type];
    }
    mean.end += share * own.end;
    mean.gather_wait += share * own.gather_wait;
    mean.reduced += share * own.reduced;
    mean.barrier_wait += share * own.barrier_wait;
  }
  return ranks;
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
