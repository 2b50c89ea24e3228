#include "sim/engine/lane.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <utility>

namespace plumbline::sim {

using model::Neighbour;

namespace {

constexpr std::uint32_t flow_code = 1;
constexpr std::size_t compute = static_cast<std::size_t>(model::Stream::compute);
constexpr std::size_t communication = static_cast<std::size_t>(model::Stream::communication);
constexpr std::size_t weight_gradient = static_cast<std::size_t>(model::Stream::weight_gradient);
constexpr std::size_t collective = static_cast<std::size_t>(model::Stream::collective);

}  // namespace

void Lane::start(const SlotWork& work) {
  assert(left_ == 0 && "the lane is busy");
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

bool Lane::ready(std::uint32_t segment) const {
  return std::ranges::all_of((*work_.segments)[segment].waits, [this](std::uint16_t wait) { return done_[wait] != 0; });
}

void Lane::start_ready() {
  seat_if_free();  // it waits longer than any kernel that has not begun
  for (std::size_t stream = 0; stream < used_; ++stream) {
    Active& active = active_[stream];
    if (active.stage != Stage::idle || active.next == queues_[stream].size()) continue;
    const std::uint32_t segment = queues_[stream][active.next];
    if (!ready(segment) || !listener_.may_start(*this, segment)) continue;
    ++active.next;
    active.segment = segment;
    active.run = {now_, now_, now_, now_, 0};
    enter(stream, stream == communication ? Stage::prepare : stream >= collective ? Stage::steady : Stage::compute);
  }
  refresh_rates();
}

// Rates are brought up to date by refresh_rates(), which callers owe.
void Lane::enter(std::size_t stream, Stage stage) {
  Active& active = active_[stream];
  active.stage = stage;
  active.remaining = 1;
  active.seconds = -1;
  active.since = now_;
  ++active.version;
}

double Lane::rows(std::uint32_t segment) const {
  return work_.row_scales == nullptr ? 1 : (*work_.row_scales)[segment];
}

bool Lane::computing() const {
  return active_[compute].stage == Stage::compute || active_[weight_gradient].stage == Stage::compute;
}

bool Lane::sharing() const {
  return active_[compute].stage == Stage::compute && active_[weight_gradient].stage == Stage::compute;
}

Neighbour Lane::communication_state() const {
  switch (active_[communication].stage) {
    case Stage::meet:
    case Stage::notify:
      return Neighbour::waiting;
    case Stage::transfer:
      return Neighbour::transferring;
    default:
      return collective_ ? Neighbour::collective : Neighbour::none;
  }
}

std::int64_t Lane::held_beside(Neighbour state) const {
  if (state == Neighbour::none) return 0;
  return state == Neighbour::collective ? work_.collective_sms : (*work_.times)[active_[communication].segment].held;
}

// Two matrix products at once: the SMs go to the blocks of the one that began first, what is left to the
// other (infinite where nothing is). Segments of several kernels take turns, so they share evenly. Others
// share the memory.
double Lane::sharing_slowdown(std::size_t stream, Neighbour state) const {
  const std::size_t other = stream == compute ? weight_gradient : compute;
  const auto width = [&](std::size_t s) {
    return static_cast<double>((*work_.times)[active_[s].segment].width[static_cast<std::size_t>(state)]);
  };
  const std::int64_t held = held_beside(state);
  const auto free = static_cast<double>(work_.device_sms - held);
  if (width(stream) == 0 || width(other) == 0) return 2;
  if (!work_.kernel_by_kernel) return std::max(1.0, (width(stream) + width(other)) / free);
  const bool first = std::pair(active_[stream].run.start, stream) < std::pair(active_[other].run.start, other);
  const double left = free - (first ? 0 : width(other));
  return left > 0 ? std::max(1.0, width(stream) / left) : std::numeric_limits<double>::infinity();
}

// `state` is the communication's.
double Lane::stage_seconds(std::size_t stream, Neighbour state) const {
  const Active& active = active_[stream];
  const SegmentTime& time = (*work_.times)[active.segment];
  switch (active.stage) {
    case Stage::compute: {
      const auto s = static_cast<std::size_t>(state);
      const double seconds = time.compute[s] + (rows(active.segment) - 1) * time.compute_per_row[s];
      return std::max(0.0, seconds) * (sharing() ? sharing_slowdown(stream, state) : 1);
    }
    case Stage::steady:
      return time.transfer;
    case Stage::prepare:
      return busy_ ? time.prepare_beside : time.prepare;
    case Stage::seat:
      return drain_;
    case Stage::notify:
      return time.notify;
    case Stage::transfer:
      return busy_ ? time.transfer_beside : time.transfer;
    default:
      return 0;
  }
}

// Persistent kernels that run keep their SMs to the end. Before the meeting they were launched without a
// communication kernel beside them, before the transfer with one.
bool Lane::seats_taken(Stage wanted) const {
  const SegmentTime& time = (*work_.times)[active_[communication].segment];
  const std::int64_t held = time.held;
  if (held == 0 || time.seat_measured) return false;
  const auto state = static_cast<std::size_t>(wanted == Stage::meet ? Neighbour::none : Neighbour::waiting);
  std::int64_t taken = 0;
  for (const std::size_t stream : {compute, weight_gradient})
    if (active_[stream].stage == Stage::compute) taken += (*work_.times)[active_[stream].segment].width[state];
  return taken > work_.device_sms - held;
}

// Of several running kernels the first to end gives its SMs.
double Lane::mean_drain() const {
  double rate = 0;
  for (const std::size_t stream : {compute, weight_gradient}) {
    const double drain = (*work_.times)[active_[stream].segment].drain;
    if (active_[stream].stage == Stage::compute && drain > 0) rate += 1 / drain;
  }
  return rate > 0 ? 1 / rate : 0;
}

void Lane::take_seat(Stage wanted) {
  if (!seats_taken(wanted)) return begin(wanted);
  active_[communication].seated = wanted;
  drain_ = mean_drain();
  enter(communication, Stage::seat);
  refresh_rates();
}

void Lane::seat_if_free() {
  const Active& active = active_[communication];
  if (active.stage == Stage::seat && !seats_taken(active.seated)) begin(active.seated);
}

void Lane::begin(Stage stage) {
  Active& active = active_[communication];
  enter(communication, stage);
  (stage == Stage::meet ? active.run.arrival : active.run.transfer) = now_;
  if (stage == Stage::transfer) start_flows();
  refresh_rates();
  if (stage == Stage::meet) listener_.arrived(*this, active.segment);
}

// Each leg is a flow over its links, limited to the rate of its kernel; the transfer ends with the later one.
void Lane::start_flows() {
  const SegmentTime& time = (*work_.times)[active_[communication].segment];
  if (work_.links == nullptr) return;
  limited_beside_ = computing();
  start_flow(0, work_.links->network, time.network_bytes, limited_beside_ ? time.network_beside : time.network);
  start_flow(1, work_.links->node, time.node_bytes, time.node);
}

void Lane::start_flow(std::size_t leg, const ExchangeLeg& links, double bytes, double seconds) {
  legs_[leg] = {};
  if (bytes <= 0 || links.footprint.empty()) return;
  legs_[leg].bytes = bytes / links.times * links.contention;  // its own rate limit takes as long as ever
  ++flows_;
  legs_[leg].flow =
      loop_.flow({.footprint = &links.footprint, .bytes = legs_[leg].bytes, .rate_limit = legs_[leg].bytes / seconds},
                 {this, flow_code, 0, 0});
}

void Lane::limit_flows() {
  if (limited_beside_ == computing()) return;
  limited_beside_ = computing();
  if (legs_[0].bytes == 0) return;
  const SegmentTime& time = (*work_.times)[active_[communication].segment];
  loop_.set_rate_limit(legs_[0].flow, legs_[0].bytes / (limited_beside_ ? time.network_beside : time.network));
}

void Lane::reschedule(std::size_t stream, double seconds) {
  Active& active = active_[stream];
  if (active.seconds > 0) active.remaining -= to_seconds(now_ - active.since) / active.seconds;
  active.remaining = std::max(0.0, active.remaining);
  active.seconds = seconds;
  active.since = now_;
  ++active.version;
  if (std::isinf(seconds)) return;  // it stands still until somebody leaves
  const std::uint64_t argument = (static_cast<std::uint64_t>(active.version) << 8) | stream;
  loop_.at(now_ + to_time(active.remaining * seconds), {this, stage_code, 0, argument});
}

void Lane::refresh_rates() {
  account_compute();
  const Neighbour state = communication_state();
  for (std::size_t stream = 0; stream < used_; ++stream) {
    Active& active = active_[stream];
    if (active.stage == Stage::idle || active.stage == Stage::meet) continue;
    if (active.stage == Stage::seat && work_.kernel_by_kernel) continue;  // ends with a kernel, not with time
    if (stream == communication && flows_ > 0) {
      limit_flows();
      continue;
    }
    const double seconds = stage_seconds(stream, state);
    if (seconds != active.seconds) reschedule(stream, seconds);
  }
}

void Lane::account_compute() {
  const bool busy = computing();
  if (busy == busy_) return;
  if (busy)
    busy_since_ = now_;
  else
    compute_busy_ += now_ - busy_since_;
  busy_ = busy;
}

void Lane::handle(std::uint32_t code, std::uint64_t argument) {
  note_time();
  if (code == flow_code) {
    if (--flows_ == 0) finish_stage(communication);
    return;
  }
  const std::size_t stream = argument & 0xff;
  if (active_[stream].version != static_cast<std::uint32_t>(argument >> 8)) return;  // the rate changed since
  finish_stage(stream);
}

void Lane::finish_stage(std::size_t stream) {
  switch (active_[stream].stage) {
    case Stage::prepare:
      active_[stream].run.prepared = now_;
      return take_seat(Stage::meet);
    case Stage::seat:
      return begin(active_[stream].seated);
    case Stage::notify:
      return take_seat(Stage::transfer);
    default:
      return end_segment(stream);
  }
}

void Lane::wake() {
  note_time();
  if (left_ > 0) start_ready();
}

void Lane::set_collective(bool runs) {
  note_time();
  collective_ = runs;
  refresh_rates();
}

void Lane::proceed(std::uint32_t segment) {
  assert(active_[communication].stage == Stage::meet && active_[communication].segment == segment);
  static_cast<void>(segment);  // only checked
  note_time();
  enter(communication, Stage::notify);
  refresh_rates();
}

void Lane::end_segment(std::size_t stream) {
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
