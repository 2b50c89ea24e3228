#include "sim/step/detail/recorder.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <utility>

#include "model/cost/measured_operators.h"
#include "model/cost/operator_class.h"
#include "model/cost/work.h"
#include "sim/step/detail/predicted_kernel.h"

namespace plumbline::sim {
namespace {

constexpr std::uint32_t sent_code = 0, arrived_code = 1;

}  // namespace

Messages::Messages(Loop& loop, const model::Schedule& schedule, std::int64_t replicas, Time latency, const Wire& wire,
                   OnArrival on_arrival)
    : loop_(loop),
      replicas_(static_cast<std::int32_t>(replicas)),
      directions_(schedule.directions),
      stages_(schedule.stages),
      micro_batches_(schedule.micro_batches_per_direction()),
      latency_(latency),
      wire_(wire),
      on_arrival_(std::move(on_arrival)),
      sending_(schedule.ranks.size() * static_cast<std::size_t>(replicas)),
      receiving_(sending_.size()),
      messages_(static_cast<std::size_t>(replicas) * 2 * static_cast<std::size_t>(directions_ * stages_) *
                static_cast<std::size_t>(micro_batches_)),
      arrived_(messages_.size(), 0) {}

std::size_t Messages::index_of(std::int32_t gpu, const model::Transfer& transfer) const {
  const std::int32_t place = ((gpu % replicas_ * 2 + (transfer.forward ? 1 : 0)) * directions_ + transfer.direction);
  return (static_cast<std::size_t>(place) * static_cast<std::size_t>(stages_) +
          static_cast<std::size_t>(transfer.stage)) *
             static_cast<std::size_t>(micro_batches_) +
         static_cast<std::size_t>(transfer.micro_batch);
}

void Messages::post_send(std::int32_t gpu, const model::Transfer& transfer, bool rendezvous) {
  const std::size_t index = index_of(gpu, transfer);
  Message& message = messages_[index];
  message.sender = gpu;
  const bool awaited = message.receiver >= 0;
  if (!rendezvous) message.receiver = transfer.peer * replicas_ + gpu % replicas_;
  if (!rendezvous || awaited) queue(index);
}

void Messages::post_receive(std::int32_t gpu, const model::Transfer& transfer) {
  const std::size_t index = index_of(gpu, transfer);
  Message& message = messages_[index];
  message.receiver = gpu;
  if (message.sender >= 0) queue(index);
}

// No other waiting message can start now, because none could before.
void Messages::queue(std::size_t index) {
  Message& message = messages_[index];
  if (std::exchange(message.waiting, true)) return;
  ++ready_;
  if (start(index)) return;
  sending_[static_cast<std::size_t>(message.sender)].waiting.emplace_back(ready_, index);
  receiving_[static_cast<std::size_t>(message.receiver)].waiting.emplace_back(ready_, index);
}

// Starts what waited for the two GPUs of a message that has left their links.
void Messages::start_waiting(const Message& ended) {
  Waiting& sends = sending_[static_cast<std::size_t>(ended.sender)].waiting;
  Waiting& receives = receiving_[static_cast<std::size_t>(ended.receiver)].waiting;
  candidates_.clear();
  std::ranges::set_union(sends, receives, std::back_inserter(candidates_));
  for (const auto& candidate : candidates_) {
    if (!start(candidate.second)) continue;
    const Message& message = messages_[candidate.second];
    std::erase(sending_[static_cast<std::size_t>(message.sender)].waiting, candidate);
    std::erase(receiving_[static_cast<std::size_t>(message.receiver)].waiting, candidate);
  }
}

// Returns false where a link of its GPUs is busy.
bool Messages::start(std::size_t index) {
  Message& message = messages_[index];
  bool& sends = sending_[static_cast<std::size_t>(message.sender)].busy;
  bool& receives = receiving_[static_cast<std::size_t>(message.receiver)].busy;
  if (sends || receives) return false;
  sends = receives = true;
  message.start = loop_.now();
  const Task sent{this, sent_code, 0, index};
  if (wire_.links == nullptr) {
    loop_.at(loop_.now() + flow_time(wire_.bytes / wire_.rate), sent);
  } else {
    const Footprint& route = wire_.links->message(message.sender / replicas_, message.receiver / replicas_);
    loop_.flow({.footprint = &route, .bytes = wire_.bytes, .rate_limit = wire_.rate}, sent);
  }
  return true;
}

void Messages::handle(std::uint32_t code, std::uint64_t argument) {
  Message& message = messages_[argument];
  if (code == sent_code) {
    message.end = loop_.now();
    sending_[static_cast<std::size_t>(message.sender)].busy = false;
    receiving_[static_cast<std::size_t>(message.receiver)].busy = false;
    loop_.at(loop_.now() + latency_, {this, arrived_code, 0, argument});
    return start_waiting(message);
  }
  arrived_[argument] = 1;
  const std::size_t micro_batches = static_cast<std::size_t>(micro_batches_);
  const auto place = static_cast<std::int32_t>(argument / micro_batches);  // without its micro-batch
  on_arrival_({message.sender, message.receiver, place / (stages_ * directions_) % 2 == 1,
               place / stages_ % directions_, place % stages_, static_cast<std::int32_t>(argument % micro_batches),
               message.start, message.end});
}

namespace {

using model::Counter;
using model::kernel_depth;
using model::phase_depth;
using model::Span;
using model::Stream;

// Returns the middle overlapped pair of a rank, or its first op where it has none.
std::size_t representative_op(const std::vector<model::ScheduleOp>& ops) {
  std::vector<std::size_t> pairs;
  for (std::size_t i = 0; i < ops.size(); ++i)
    if (ops[i].type == model::OpType::FB) pairs.push_back(i);
  return pairs.empty() ? 0 : pairs[pairs.size() / 2];
}

// Adds a sample unless the counter has these values already. Of samples at one time the last one counts.
void note(Counter& counter, const Counter::Sample& sample) {
  std::vector<Counter::Sample>& samples = counter.samples;
  if (!samples.empty() && samples.back().time_ps == sample.time_ps) samples.pop_back();
  if (samples.empty() || samples.back().values != sample.values) samples.push_back(sample);
}

}  // namespace

void LoadCounters::add(std::int32_t rank, Time start, Time end, const Load& load) {
  if (end <= start) return;
  const double seconds = to_seconds(end - start);
  const Load begins{load.kernels, load.communication_sms, load.network_bytes / seconds, load.node_bytes / seconds};
  std::vector<Change>& changes = changes_[rank];
  changes.push_back({start, begins});
  changes.push_back({end, {-begins.kernels, -begins.communication_sms, -begins.network_bytes, -begins.node_bytes}});
}

std::vector<Counter> LoadCounters::finish() {
  std::vector<Counter> counters;
  for (auto& [rank, changes] : changes_) {
    std::ranges::stable_sort(changes, {}, &Change::time);
    Counter sms{rank, "SMs", {"compute", "communication"}, {}}, links{rank, "links (B/s)", {"node", "network"}, {}};
    Load now;
    for (const Change& change : changes) {
      now.kernels += change.load.kernels;
      now.communication_sms += change.load.communication_sms;
      now.network_bytes += change.load.network_bytes;
      now.node_bytes += change.load.node_bytes;
      const auto held = static_cast<double>(now.communication_sms);
      const double free = static_cast<double>(device_sms_) - held;
      note(sms, {change.time, {now.kernels > 0 ? std::max(0.0, free) : 0, held}});
      // Sums and differences of rates leave rests far below one byte per second.
      note(links, {change.time, {std::abs(std::round(now.node_bytes)), std::abs(std::round(now.network_bytes))}});
    }
    if (device_sms_ > 0) counters.push_back(std::move(sms));
    if (links.samples.size() > 1) counters.push_back(std::move(links));
  }
  return counters;
}

Recorder::Recorder(const model::StepProgram& program, const std::vector<std::vector<SegmentTime>>& template_times,
                   const Recording& recording, const Fleet* fleet, const Hardware& hardware)
    : program_(program),
      template_times_(template_times),
      recording_(recording),
      of_gpus_(fleet != nullptr && !recording.ranks.empty()),
      replicas_(fleet == nullptr ? 1 : fleet->replicas),
      hardware_(hardware),
      labels_(program_),
      loads_(hardware.sms) {
  for (const auto& ops : program_.schedule.ranks) kernel_op_.push_back(representative_op(ops));
}

std::int32_t Recorder::track_of(std::int32_t gpu) const {
  if (recording_.ranks.empty()) return gpu;
  const auto place = std::ranges::lower_bound(recording_.ranks, gpu);
  if (place == recording_.ranks.end() || *place != gpu) return -1;
  return of_gpus_ ? static_cast<std::int32_t>(place - recording_.ranks.begin()) : gpu;
}

void Recorder::add(Span place, std::int32_t track, const std::string& name, std::uint8_t depth, Time start, Time end) {
  place.rank = track;
  timeline_.add(place, name, depth, start, end);
}

void Recorder::slot(std::int32_t gpu, std::size_t op, Time start, Time end) {
  const std::int32_t track = track_of(gpu);
  if (track < 0) return;
  const std::size_t rank = rank_of(gpu);
  add(labels_.slot(rank, op), track, std::string(to_string(program_.schedule.ranks[rank][op].type)), model::slot_depth,
      start, end);
}

void Recorder::segment(std::int32_t gpu, std::size_t op, std::uint32_t index, const SegmentRun& run) {
  const std::int32_t track = track_of(gpu);
  if (track < 0) return;
  const std::size_t rank = rank_of(gpu);
  const bool shows_kernels = recording_.every_kernel || kernel_op_[rank] == op;
  const std::uint16_t slot = program_.slot_templates[rank][op];
  const model::Segment& s = program_.templates[slot].segments[index];
  const SegmentTime& time = template_times_[slot][index];
  const Span place = labels_.segment(rank, op, index, time.network_bytes + time.node_bytes);
  add(place, track, model::span_name(s.section, s.phase), phase_depth, run.start, run.end);
  const bool waits = s.stream == Stream::communication;
  const Time sends_from = waits ? run.transfer : run.start;
  if (time.network_bytes + time.node_bytes > 0)
    loads_.add(track, sends_from, run.end, {.network_bytes = time.network_bytes, .node_bytes = time.node_bytes});
  if (waits) loads_.add(track, run.arrival, run.end, {.communication_sms = time.held});
  if (s.stream == Stream::compute || s.stream == Stream::weight_gradient)
    loads_.add(track, run.start, run.end, {.kernels = 1});
  if (recording_.data) return kernels_with_data(op, index, run, place, track);
  if (waits) {
    if (run.transfer > run.arrival) add(place, track, "notify", kernel_depth, run.arrival, run.transfer);
    if (shows_kernels) add(place, track, "transfer", kernel_depth, run.transfer, run.end);
  } else if (shows_kernels) {
    kernels(op, index, run, place, track);
  }
}

// Adds the kernels of a segment, which advances as one event, in proportion to their times.
void Recorder::kernels(std::size_t op, std::uint32_t index, const SegmentRun& run, Span place, std::int32_t track) {
  const std::uint16_t slot = program_.slot_templates[static_cast<std::size_t>(place.rank)][op];
  const model::Segment& segment = program_.templates[slot].segments[index];
  const SegmentTime& time = template_times_[slot][index];
  const double total = std::accumulate(time.kernels.begin(), time.kernels.end(), 0.0);
  if (total <= 0) return;
  double before = 0;
  Time start = run.start;
  for (std::size_t i = 0; i < segment.operators.size(); ++i) {
    before += time.kernels[i];
    const Time end = run.start + std::llround(static_cast<double>(run.end - run.start) * std::min(1.0, before / total));
    Span kernel = labels_.kernel(place, op, index, i);
    if (recording_.data) kernel.kernel = kernel_of(segment, segment.operators[i]);
    add(kernel, track, program_.blocks[segment.block].operators[segment.operators[i]].name, kernel_depth, start, end);
    start = end;
  }
}

void Recorder::kernels_with_data(std::size_t op, std::uint32_t index, const SegmentRun& run, const Span& place,
                                 std::int32_t track) {
  const std::uint16_t slot = program_.slot_templates[static_cast<std::size_t>(place.rank)][op];
  const model::Segment& segment = program_.templates[slot].segments[index];
  const bool all_to_all = segment.stream == Stream::communication;
  if (!all_to_all && segment.stream != Stream::collective && !model::on_host_link(segment.stream))
    return kernels(op, index, run, place, track);
  const auto& operators = program_.blocks[segment.block].operators;
  const std::uint16_t first = segment.operators.front(), last = segment.operators.back();
  // An all-to-all of one rank is free, and of it only the transfer is there: an execution has the kernel.
  const auto add_part = [&](const std::string& name, std::uint16_t of, Part part, Time start, Time end) {
    if (end <= start && part != Part::transfer) return;
    Span kernel = place;
    kernel.kernel = kernel_of(segment, of, part);
    add(kernel, track, name, kernel_depth, start, end);
  };
  if (!all_to_all) return add_part(operators[first].name, first, Part::whole, run.start, run.end);
  const bool prepares = model::class_of(operators[first].kind) != model::OperatorClass::exchange;
  add_part(prepares ? operators[first].name : "layout", first, prepares ? Part::whole : Part::layout, run.start,
           run.prepared);
  add_part("notify", last, Part::notify, run.arrival, run.transfer);
  add_part("transfer", last, Part::transfer, run.transfer, run.end);
}

std::int32_t Recorder::kernel_of(const model::Segment& segment, std::uint16_t op, Part part) {
  const auto [entry, fresh] =
      kernels_.try_emplace({segment.block, op, segment.section, segment.share, part}, std::int32_t{});
  if (!fresh) return entry->second;
  const model::Graph& graph = program_.blocks[segment.block];
  model::Kernel kernel = predicted_kernel(graph, graph.operators[op], segment);
  if (part != Part::whole)
    kernel.row = part == Part::layout ? "layout" : part == Part::notify ? "notify" : transfer_row(segment);
  return entry->second = timeline_.keep(std::move(kernel));
}

std::int32_t Recorder::kernel_of(const model::Kernel& outside) {
  const auto [entry, fresh] = other_kernels_.try_emplace({outside.class_name, outside.key}, std::int32_t{});
  if (fresh) entry->second = timeline_.keep(outside);
  return entry->second;
}

void Recorder::add_outside(const Span& place, std::int32_t track, const std::string& name, const model::Kernel& kernel,
                           Time start, Time end) {
  add(place, track, name, phase_depth, start, end);
  if (!recording_.data || kernel.class_name.empty()) return;
  Span span = place;
  span.kernel = kernel_of(kernel);
  add(span, track, name, kernel_depth, start, end);
}

void Recorder::message(const Messages::Arrival& arrival) {
  const std::int32_t track = track_of(arrival.sender);
  if (track < 0) return;
  const Span place = labels_.message(rank_of(arrival.sender),
                                     {.send = true,
                                      .forward = arrival.forward,
                                      .peer = track_of(arrival.receiver),
                                      .direction = arrival.direction,
                                      .stage = arrival.stage,
                                      .micro_batch = arrival.micro_batch},
                                     hardware_.message_bytes);
  if (hardware_.links != nullptr) {
    const Footprint& route = hardware_.links->message(static_cast<std::int32_t>(rank_of(arrival.sender)),
                                                      static_cast<std::int32_t>(rank_of(arrival.receiver)));
    const auto& links = hardware_.links->fabric().links();
    const double bytes = hardware_.message_bytes;
    const bool leaves = std::ranges::any_of(
        route, [&](const Crossing& one) { return links[one.link].kind == topologies::LinkKind::nic_up; });
    loads_.add(track, arrival.start, arrival.end,
               {.network_bytes = leaves ? bytes : 0, .node_bytes = leaves ? 0 : bytes});
  }
  add_outside(place, track, arrival.forward ? "send activation" : "send gradient",
              {.class_name = "send_receive", .row = "collective"}, arrival.start, arrival.end);
}

model::Kernel Recorder::kernel_of(const Collectives::Run& run) const {
  const bool reduces = run.kind == Collectives::Kind::reduce;
  const auto stage = static_cast<std::size_t>(run.stage);
  const model::ShardUnit& unit = program_.stage_units[stage][static_cast<std::size_t>(run.unit)];
  const model::Graph& graph = program_.stage_optimizers[stage];
  model::Kernel kernel{.class_name = reduces ? "all_reduce" : "all_gather", .row = "collective"};
  int collectives = 0;
  for (const std::uint16_t index : reduces ? unit.reduce : unit.gather) {
    const model::Operator& op = graph.operators[index];
    if (!model::is_collective(op.kind)) continue;
    kernel.class_name = to_string(op.kind);
    kernel.key = ++collectives == 1 ? model::operator_key(graph, op) : "";
    kernel.bytes = collectives == 1 ? model::bytes_moved(graph, op, 1).value() : 0;
  }
  return kernel;
}

void Recorder::collective(std::int32_t gpu, const Collectives::Run& run, const WireLoad& load) {
  const std::int32_t track = track_of(gpu);
  if (track < 0 || run.end <= run.start) return;
  const bool reduces = run.kind == Collectives::Kind::reduce;
  const std::string name(reduces ? model::reduce_gradients : model::gather_parameters);
  const model::Kernel kernel = kernel_of(run);
  const double sent = load.network_bytes + load.node_bytes;
  add_outside(labels_.outside_slots(rank_of(gpu), name, run.stage, kernel.class_name, sent), track, name,
              recording_.data ? kernel : model::Kernel(), run.start, run.end);
  loads_.add(track, run.start, run.end,
             {.communication_sms = hardware_.collective_sms,
              .network_bytes = load.network_bytes,
              .node_bytes = load.node_bytes});
}

void Recorder::optimizer(std::int32_t gpu, const std::string& text, Time start, Time end) {
  const std::int32_t track = track_of(gpu);
  if (track < 0 || end <= start) return;
  model::Kernel kernel{.class_name = "optimizer", .row = "optimizer"};
  if (text == model::gather_parameters) kernel = {.class_name = "all_gather", .row = "collective"};
  if (text == "parameters from host") kernel = {.class_name = "copy", .row = "copy"};
  if (text == "host") kernel = {};
  add_outside(labels_.outside_slots(rank_of(gpu), text), track, text, kernel, start, end);
}

model::Timeline Recorder::finish(Time end) {
  model::Timeline timeline = timeline_.finish();
  const std::size_t gpus = program_.schedule.ranks.size() * static_cast<std::size_t>(replicas_);
  timeline.ranks = static_cast<std::int32_t>(of_gpus_ ? recording_.ranks.size() : gpus);
  if (of_gpus_) timeline.gpus = recording_.ranks;
  timeline.replicas = static_cast<std::int32_t>(replicas_);
  timeline.end_ps = end;
  labels_.describe(timeline);
  timeline.counters = loads_.finish();
  return timeline;
}

}  // namespace plumbline::sim
