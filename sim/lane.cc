#include "sim/lane.h"

#include <algorithm>
#include <cassert>

namespace plumbline::sim {

namespace {

constexpr std::size_t compute = static_cast<std::size_t>(model::Stream::compute);
constexpr std::size_t communication = static_cast<std::size_t>(model::Stream::communication);
constexpr std::size_t weight_gradient = static_cast<std::size_t>(model::Stream::weight_gradient);

}  // namespace

void Lane::start(const SlotWork& work) {
  assert(left_ == 0 && "the lane is busy");
  work_ = work;
  slot_start_ = loop_.now();
  for (auto& queue : queues_) queue.clear();
  for (std::size_t i = 0; i < work.slot->segments.size(); ++i)
    queues_[static_cast<std::size_t>(work.slot->segments[i].stream)].push_back(static_cast<std::uint32_t>(i));
  for (Active& active : active_) {
    active.stage = Stage::idle;
    active.next = 0;
  }
  left_ = work.slot->segments.size();
  done_.assign(left_, false);
  if (left_ == 0) return listener_.slot_ended(*this);
  start_ready();
}

bool Lane::ready(std::uint32_t segment) const {
  return std::ranges::all_of(work_.slot->segments[segment].waits, [this](std::uint16_t wait) { return done_[wait]; });
}

void Lane::start_ready() {
  for (std::size_t stream = 0; stream < streams; ++stream) {
    Active& active = active_[stream];
    if (active.stage != Stage::idle || active.next == queues_[stream].size()) continue;
    const std::uint32_t segment = queues_[stream][active.next];
    if (!ready(segment)) continue;
    ++active.next;
    active.segment = segment;
    active.run = {loop_.now(), loop_.now(), loop_.now(), 0};
    enter(stream, stream == communication ? Stage::prepare : Stage::compute);
  }
  refresh_rates();
}

// Rates are brought up to date by refresh_rates(), which callers owe.
void Lane::enter(std::size_t stream, Stage stage) {
  Active& active = active_[stream];
  active.stage = stage;
  active.remaining = 1;
  active.seconds = -1;
  active.since = loop_.now();
  ++active.version;
}

double Lane::rows(std::uint32_t segment) const {
  return work_.row_scales == nullptr ? 1 : (*work_.row_scales)[segment];
}

bool Lane::computing() const {
  return active_[compute].stage == Stage::compute || active_[weight_gradient].stage == Stage::compute;
}

bool Lane::transferring() const { return active_[communication].stage == Stage::transfer; }

double Lane::stage_seconds(const Active& active) const {
  const SegmentTime& time = (*work_.times)[active.segment];
  switch (active.stage) {
    case Stage::compute: {
      const double extra = rows(active.segment) - 1;
      const double seconds =
          transferring() ? time.beside + extra * time.beside_per_row : time.alone + extra * time.alone_per_row;
      const bool shared = active_[compute].stage == Stage::compute && active_[weight_gradient].stage == Stage::compute;
      return std::max(0.0, seconds) * (shared ? 2 : 1);  // two compute streams share the SMs evenly
    }
    case Stage::prepare:
      return time.prepare;
    case Stage::notify:
      return time.notify;
    case Stage::transfer:
      return computing() ? time.beside : time.alone;
    default:
      return 0;
  }
}

void Lane::reschedule(std::size_t stream, double seconds) {
  Active& active = active_[stream];
  const Time now = loop_.now();
  if (active.seconds > 0) active.remaining -= to_seconds(now - active.since) / active.seconds;
  active.remaining = std::max(0.0, active.remaining);
  active.seconds = seconds;
  active.since = now;
  ++active.version;
  const std::uint64_t argument = (static_cast<std::uint64_t>(active.version) << 8) | stream;
  loop_.at(now + to_time(active.remaining * seconds), {this, 0, 0, argument});
}

void Lane::refresh_rates() {
  account_compute();
  for (std::size_t stream = 0; stream < streams; ++stream) {
    Active& active = active_[stream];
    if (active.stage == Stage::idle || active.stage == Stage::meet) continue;
    const double seconds = stage_seconds(active);
    if (seconds != active.seconds) reschedule(stream, seconds);
  }
}

void Lane::account_compute() {
  const bool busy = computing();
  if (busy == busy_) return;
  if (busy)
    busy_since_ = loop_.now();
  else
    compute_busy_ += loop_.now() - busy_since_;
  busy_ = busy;
}

void Lane::handle(std::uint32_t /*code*/, std::uint64_t argument) {
  const std::size_t stream = argument & 0xff;
  if (active_[stream].version != static_cast<std::uint32_t>(argument >> 8)) return;  // the rate changed since
  finish_stage(stream);
}

void Lane::finish_stage(std::size_t stream) {
  Active& active = active_[stream];
  switch (active.stage) {
    case Stage::prepare:
      active.run.arrival = loop_.now();
      enter(stream, Stage::meet);
      refresh_rates();
      return listener_.arrived(*this, active.segment);
    case Stage::notify:
      active.run.transfer = loop_.now();
      enter(stream, Stage::transfer);
      return refresh_rates();
    default:
      return end_segment(stream);
  }
}

void Lane::proceed(std::uint32_t segment) {
  assert(active_[communication].stage == Stage::meet && active_[communication].segment == segment);
  static_cast<void>(segment);  // only checked
  enter(communication, Stage::notify);
  refresh_rates();
}

void Lane::end_segment(std::size_t stream) {
  Active& active = active_[stream];
  active.stage = Stage::idle;
  ++active.version;
  done_[active.segment] = true;
  --left_;
  active.run.end = loop_.now();
  listener_.segment_ended(*this, active.segment, active.run);
  if (left_ > 0) return start_ready();
  account_compute();
  listener_.slot_ended(*this);
}

}  // namespace plumbline::sim
