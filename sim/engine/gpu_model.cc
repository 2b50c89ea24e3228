#include "sim/engine/gpu_model.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <utility>

namespace plumbline::sim {

using model::CoRunner;

namespace {

constexpr std::uint32_t flow_code = 1;
constexpr std::size_t compute_stream = static_cast<std::size_t>(model::Stream::compute);
constexpr std::size_t communication_stream = static_cast<std::size_t>(model::Stream::communication);
constexpr std::size_t weight_gradient_stream = static_cast<std::size_t>(model::Stream::weight_gradient);
constexpr std::size_t collective_stream = static_cast<std::size_t>(model::Stream::collective);

}  // namespace

void GpuModel::start(const SlotWork& work) {
  assert(left_ == 0 && "the GPU is busy");
  note_time();
  work_ = work;
  slot_start_ = now_;
  used_ = 0;
  for (auto& queue : queues_) queue.clear();
  for (std::size_t i = 0; i < work.segments->size(); ++i) {
    const auto stream = static_cast<std::size_t>((*work.segments)[i].stream);
    queues_[stream].push_back(static_cast<std::uint32_t>(i));
    used_ = std::max(used_, stream + 1);
  }
  for (Active& active : active_) {
    active.stage = Stage::idle;
    active.next = 0;
  }
  left_ = work.segments->size();
  done_.assign(left_, 0);
  if (left_ == 0) return listener_.slot_ended(*this);
  start_ready();
}

bool GpuModel::ready(std::uint32_t segment) const {
  return std::ranges::all_of((*work_.segments)[segment].waits, [this](std::uint16_t wait) { return done_[wait] != 0; });
}

void GpuModel::start_ready() {
  acquire_if_free();   // a kernel that waits for SMs has waited longer than any that has not begun
  bool meets = false;  // a collective begins with a barrier
  for (std::size_t stream = 0; stream < used_; ++stream) {
    Active& active = active_[stream];
    if (active.stage != Stage::idle || active.next == queues_[stream].size()) continue;
    const std::uint32_t segment = queues_[stream][active.next];
    if (!ready(segment) || !listener_.may_start(*this, segment)) continue;
    ++active.next;
    active.segment = segment;
    active.run = {now_, now_, now_, now_, 0};
    if (work_.coupled && stream == collective_stream) {
      enter(stream, Stage::barrier);
      meets = true;
      continue;
    }
    enter(stream, stream == communication_stream ? Stage::prepare
                  : stream >= collective_stream  ? Stage::steady
                                                 : Stage::compute);
    if (stream == collective_stream) start_collective_flows();
  }
  refresh_rates();
  if (meets) listener_.arrived(*this, active_[collective_stream].segment);
}

// Callers must call refresh_rates() afterwards.
void GpuModel::enter(std::size_t stream, Stage stage) {
  Active& active = active_[stream];
  active.stage = stage;
  active.remaining = 1;
  active.seconds = -1;
  active.since = now_;
  ++active.version;
}

double GpuModel::rows(std::uint32_t segment) const {
  return work_.row_scales == nullptr ? 1 : (*work_.row_scales)[segment];
}

bool GpuModel::computing() const {
  return active_[compute_stream].stage == Stage::compute || active_[weight_gradient_stream].stage == Stage::compute;
}

bool GpuModel::sharing() const {
  return active_[compute_stream].stage == Stage::compute && active_[weight_gradient_stream].stage == Stage::compute;
}

CoRunner GpuModel::communication_state() const {
  switch (active_[communication_stream].stage) {
    case Stage::barrier:
    case Stage::notify:
      return CoRunner::waiting;
    case Stage::transfer:
      return CoRunner::transferring;
    default:
      return collective_ ? CoRunner::collective : CoRunner::none;
  }
}

std::int64_t GpuModel::held_by(CoRunner state) const {
  if (state == CoRunner::none) return 0;
  return state == CoRunner::collective ? work_.collective_sms
                                       : (*work_.times)[active_[communication_stream].segment].held;
}

// Two concurrent GEMMs: the SMs go to the CTAs of the one that began first and the rest to the other, which takes
// infinitely long if nothing is left. Segments of several kernels alternate, so they share the SMs evenly. Other
// kernels share the memory bandwidth.
double GpuModel::sharing_slowdown(std::size_t stream, CoRunner state) const {
  const std::size_t other = stream == compute_stream ? weight_gradient_stream : compute_stream;
  const auto width = [&](std::size_t s) {
    return static_cast<double>((*work_.times)[active_[s].segment].width[static_cast<std::size_t>(state)]);
  };
  const std::int64_t held = held_by(state);
  const auto free = static_cast<double>(work_.device_sms - held);
  if (width(stream) == 0 || width(other) == 0) return 2;
  if (!work_.kernel_by_kernel) return std::max(1.0, (width(stream) + width(other)) / free);
  const bool first = std::pair(active_[stream].run.start, stream) < std::pair(active_[other].run.start, other);
  const double left = free - (first ? 0 : width(other));
  return left > 0 ? std::max(1.0, width(stream) / left) : std::numeric_limits<double>::infinity();
}

// `state` is the state of communication.
double GpuModel::stage_seconds(std::size_t stream, CoRunner state) const {
  const Active& active = active_[stream];
  const SegmentTime& time = (*work_.times)[active.segment];
  switch (active.stage) {
    case Stage::compute: {
      const auto s = static_cast<std::size_t>(state);
      const double seconds = time.compute[s] + (rows(active.segment) - 1) * time.compute_per_row[s];
      const double factor = work_.factors == nullptr ? 1 : (*work_.factors)[active.segment];
      return std::max(0.0, seconds) * factor * (sharing() ? sharing_slowdown(stream, state) : 1);
    }
    case Stage::steady:
      return time.transfer;
    case Stage::prepare:
      return busy_ ? time.prepare_overlapped : time.prepare;
    case Stage::acquire:
      return drain_;
    case Stage::notify:
      return time.notify;
    case Stage::transfer:
      return busy_ ? time.transfer_overlapped : time.transfer;
    default:
      return 0;
  }
}

// Running persistent kernels keep their SMs to the end. Those running at the barrier were launched without a concurrent
// communication kernel, those running at the transfer with one.
bool GpuModel::sms_taken(Stage wanted) const {
  const SegmentTime& time = (*work_.times)[active_[communication_stream].segment];
  const std::int64_t held = time.held;
  if (held == 0 || time.wait_measured) return false;
  const auto state = static_cast<std::size_t>(wanted == Stage::barrier ? CoRunner::none : CoRunner::waiting);
  std::int64_t taken = 0;
  for (const std::size_t stream : {compute_stream, weight_gradient_stream})
    if (active_[stream].stage == Stage::compute) taken += (*work_.times)[active_[stream].segment].width[state];
  return taken > work_.device_sms - held;
}

// The first of several running kernels to end frees its SMs.
double GpuModel::mean_drain() const {
  double rate = 0;
  for (const std::size_t stream : {compute_stream, weight_gradient_stream}) {
    if (active_[stream].stage != Stage::compute) continue;  // its segment may be of a longer slot
    const double drain = (*work_.times)[active_[stream].segment].drain;
    if (drain > 0) rate += 1 / drain;
  }
  return rate > 0 ? 1 / rate : 0;
}

void GpuModel::acquire_sms(Stage wanted) {
  if (!sms_taken(wanted)) return begin(wanted);
  active_[communication_stream].acquired_for = wanted;
  drain_ = mean_drain();
  enter(communication_stream, Stage::acquire);
  refresh_rates();
}

void GpuModel::acquire_if_free() {
  const Active& active = active_[communication_stream];
  if (active.stage == Stage::acquire && !sms_taken(active.acquired_for)) begin(active.acquired_for);
}

void GpuModel::begin(Stage stage) {
  Active& active = active_[communication_stream];
  enter(communication_stream, stage);
  (stage == Stage::barrier ? active.run.arrival : active.run.transfer) = now_;
  if (stage == Stage::transfer) start_flows();
  refresh_rates();
  if (stage == Stage::barrier) listener_.arrived(*this, active.segment);
}

// Each leg is a flow over its links, limited to the rate of its kernel. The transfer ends with the later leg.
void GpuModel::start_flows() {
  const SegmentTime& time = (*work_.times)[active_[communication_stream].segment];
  if (work_.links == nullptr) return;
  limited_overlapped_ = computing();
  const double network = limited_overlapped_ ? time.network_overlapped : time.network;
  legs_ = {};
  start_flow(communication_stream, 0, work_.links->network, time.network_bytes, network);
  start_flow(communication_stream, 1, work_.links->node, time.node_bytes, time.node);
}

// A collective moves the bytes of both legs at the pace of its cost function, unless a link that it shares is slower.
void GpuModel::start_collective_flows() {
  const SegmentTime& time = (*work_.times)[active_[collective_stream].segment];
  if (work_.groups == nullptr || time.group < 0) return;
  const RankLinks& links = *(*work_.groups)[static_cast<std::size_t>(time.group)];
  const double seconds = to_seconds(to_time(time.transfer));
  start_flow(collective_stream, 0, links.network, time.network_bytes, seconds);
  start_flow(collective_stream, 1, links.node, time.node_bytes, seconds);
}

void GpuModel::start_flow(std::size_t stream, std::size_t leg, const AllToAllLeg& links, double bytes, double seconds) {
  if (bytes <= 0 || seconds <= 0 || links.footprint.empty()) return;
  const double per_connection = bytes / links.times * links.contention;  // the limit's seconds stay those of the kernel
  ++flows_[stream];
  const FlowId flow = loop_.flow({.footprint = &links.footprint,
                                  .bytes = per_connection,
                                  .rate_limit = per_connection / seconds,
                                  .owner = static_cast<std::uint32_t>(id_) + 1},
                                 {this, flow_code, 0, stream});
  if (stream == communication_stream) legs_[leg] = {flow, per_connection};
}

void GpuModel::limit_flows() {
  if (limited_overlapped_ == computing()) return;
  limited_overlapped_ = computing();
  if (legs_[0].bytes == 0) return;
  const SegmentTime& time = (*work_.times)[active_[communication_stream].segment];
  loop_.set_rate_limit(legs_[0].flow, legs_[0].bytes / (limited_overlapped_ ? time.network_overlapped : time.network));
}

void GpuModel::reschedule(std::size_t stream, double seconds) {
  Active& active = active_[stream];
  if (active.seconds > 0) active.remaining -= to_seconds(now_ - active.since) / active.seconds;
  active.remaining = std::max(0.0, active.remaining);
  active.seconds = seconds;
  active.since = now_;
  ++active.version;
  if (std::isinf(seconds)) return;  // no progress until another kernel frees its SMs
  const std::uint64_t argument = (static_cast<std::uint64_t>(active.version) << 8) | stream;
  loop_.at(now_ + to_time(active.remaining * seconds), {this, stage_code, 0, argument});
}

void GpuModel::refresh_rates() {
  account_compute();
  const CoRunner state = communication_state();
  for (std::size_t stream = 0; stream < used_; ++stream) {
    Active& active = active_[stream];
    if (active.stage == Stage::idle || active.stage == Stage::barrier) continue;
    if (active.stage == Stage::acquire && work_.kernel_by_kernel) continue;  // ends with a kernel, not after a time
    if (flows_[stream] > 0) {
      if (stream == communication_stream) limit_flows();
      continue;
    }
    const double seconds = stage_seconds(stream, state);
    if (seconds != active.seconds) reschedule(stream, seconds);
  }
}

void GpuModel::account_compute() {
  const bool busy = computing();
  if (busy == busy_) return;
  if (busy)
    busy_since_ = now_;
  else
    compute_busy_ += now_ - busy_since_;
  busy_ = busy;
  listener_.computing(*this, busy);
}

void GpuModel::handle(std::uint32_t code, std::uint64_t argument) {
  note_time();
  if (code == flow_code) {
    if (--flows_[argument] == 0) finish_stage(argument);
    return;
  }
  const std::size_t stream = argument & 0xff;
  if (active_[stream].version != static_cast<std::uint32_t>(argument >> 8)) return;  // the rate has changed since
  finish_stage(stream);
}

void GpuModel::finish_stage(std::size_t stream) {
  switch (active_[stream].stage) {
    case Stage::prepare:
      active_[stream].run.prepared = now_;
      return acquire_sms(Stage::barrier);
    case Stage::acquire:
      return begin(active_[stream].acquired_for);
    case Stage::notify:
      return acquire_sms(Stage::transfer);
    default:
      return end_segment(stream);
  }
}

void GpuModel::wake() {
  note_time();
  if (left_ > 0) start_ready();
}

void GpuModel::set_collective(bool runs) {
  note_time();
  collective_ = runs;
  refresh_rates();
}

void GpuModel::proceed(std::uint32_t segment) {
  const auto stream = static_cast<std::size_t>((*work_.segments)[segment].stream);
  assert(active_[stream].stage == Stage::barrier && active_[stream].segment == segment);
  note_time();
  enter(stream, stream == communication_stream ? Stage::notify : Stage::steady);
  if (stream == collective_stream) start_collective_flows();
  refresh_rates();
}

void GpuModel::end_segment(std::size_t stream) {
  Active& active = active_[stream];
  active.stage = Stage::idle;
  ++active.version;
  done_[active.segment] = 1;
  --left_;
  active.run.end = now_;
  listener_.segment_ended(*this, active.segment, active.run);
  if (left_ > 0) return start_ready();
  account_compute();
  listener_.slot_ended(*this);
}

}  // namespace plumbline::sim
