#include "real/host/device.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <chrono>
#include <condition_variable>
#include <ctime>
#include <deque>
#include <exception>
#include <iterator>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <variant>

#include "real/executor/infeasible.h"
#include "real/host/operators/operators.h"
#include "real/host/pool.h"
#include "real/host/rounding.h"

namespace plumbline::real::host {

namespace {

double wall_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double thread_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  constexpr double nanosecond = 1e-9;
  return static_cast<double>(time.tv_sec) + nanosecond * static_cast<double>(time.tv_nsec);
}

}  // namespace

std::string_view to_string(ClockKind kind) {
  switch (kind) {
    case ClockKind::wall:
      return "wall";
    case ClockKind::cpu:
      return "cpu";
    case ClockKind::profile:
      return "profile";
    case ClockKind::simulated:
      return "simulated";
  }
  return "";
}

model::Result<ClockKind> parse_clock(std::string_view word, std::span<const ClockKind> known) {
  std::string words;
  for (const ClockKind kind : known) {
    if (word == to_string(kind)) return kind;
    words += fmt::format("{}{}", words.empty() ? "known: " : ", ", to_string(kind));
  }
  return tl::unexpected(
      model::Error{model::ErrorKind::input, fmt::format("unknown clock '{}'", word), "", 0, "--clock", words});
}

double StreamClock::now() {
  switch (kind_) {
    case ClockKind::wall:
      return wall_seconds();
    case ClockKind::cpu:
      return base_ + thread_seconds() - mark_;
    case ClockKind::profile:
      return base_;
    case ClockKind::simulated:
      return simulated_.now();
  }
  return 0;
}

void StreamClock::advance_to(double time) {
  const bool is_virtual = kind_ == ClockKind::cpu || kind_ == ClockKind::profile;
  if (!is_virtual || time <= now()) return;
  base_ = time;
  mark_ = thread_seconds();
}

void StreamClock::spend(double seconds) {
  if (kind_ == ClockKind::profile) base_ += seconds;
  if (kind_ == ClockKind::simulated) simulated_.compute(seconds);
}

void StreamClock::enter_thread() {
  if (kind_ == ClockKind::cpu) mark_ = thread_seconds();
}

// A stream runs its work in order: threaded streams concurrently, inline streams on the calling thread.
class Stream {
 public:
  virtual ~Stream() = default;
  virtual void run(model::Stream name, const Kernel& kernel) = 0;
  virtual void run(model::Stream name, StreamWork work) = 0;
  virtual void record(Event event) = 0;
  virtual void wait(Event event) = 0;
  virtual void drain() = 0;                   // returns when all work has run
  virtual bool holds(Event event) const = 0;  // inline: the event belongs to deferred work
  virtual double now() = 0;                   // seconds on its clock; requires drain()
  std::vector<KernelRecord> take_records() { return std::exchange(records_, {}); }

 protected:
  std::vector<KernelRecord> records_;
};

struct StreamOptions {
  ClockKind clock = ClockKind::wall;
  SimulatedTime simulated;
  KernelSeconds kernel_seconds;
  int cores = 1;
  model::DataType accumulation = model::DataType::fp32;
};

// The state and time of all events; shared by the streams of a device.
class EventBoard {
 public:
  Event create() {
    const std::lock_guard lock(mutex_);
    states_.push_back({});
    return first_ + states_.size() - 1;
  }

  void complete(Event event, double time) {
    {
      const std::lock_guard lock(mutex_);
      if (event < first_) return;
      states_[event - first_] = {true, time};
    }
    changed_.notify_all();
  }

  // Blocks until the event is complete and returns its time.
  double await(Event event) {
    std::unique_lock lock(mutex_);
    if (event < first_) return 0;
    changed_.wait(lock, [&] { return states_[event - first_].done; });
    return states_[event - first_].time;
  }

  void forget() {
    const std::lock_guard lock(mutex_);
    first_ += states_.size();
    states_.clear();
  }

 private:
  struct State {
    bool done = false;
    double time = 0;
  };
  std::mutex mutex_;
  std::condition_variable changed_;
  Event first_ = 0;
  std::vector<State> states_;
};

// The first failure of any stream; work that is launched after it does not run.
class FailureBoard {
 public:
  // report() calls the listener on the first failure. Set it before any stream runs.
  void set_listener(std::function<void(const std::string& reason)> listener) { listener_ = std::move(listener); }
  void report(const std::string& reason) {
    {
      const std::lock_guard lock(mutex_);
      if (failed_) return;
      failed_ = true;
      reason_ = reason;
    }
    if (listener_) listener_(reason);
  }

  bool failed() const {
    const std::lock_guard lock(mutex_);
    return failed_;
  }

  std::string reason() const {
    const std::lock_guard lock(mutex_);
    return reason_;
  }

 private:
  mutable std::mutex mutex_;
  bool failed_ = false;
  std::string reason_;
  std::function<void(const std::string&)> listener_;
};

namespace {

// Runs one kernel or work of a threaded or inline stream: takes its time and catches its failure.
class StreamRunner {
 public:
  StreamRunner(const StreamOptions& options, FailureBoard& failures)
      : clock_(options.clock, options.simulated),
        kernel_seconds_(options.kernel_seconds),
        cores_(options.cores),
        accumulation_(options.accumulation),
        failures_(failures) {}

  StreamClock& clock() { return clock_; }

  template <class Body>
  double guarded(Body body) {
    try {
      if (!failures_.failed()) body();
    } catch (const std::exception& error) {
      failures_.report(error.what());
    }
    return clock_.now();
  }

  KernelRecord run(model::Stream name, const Kernel& kernel) {
    const double start = clock_.now();
    const double end = guarded([&] {
      host::run({kernel, cores_, accumulation_});
      if (kernel_seconds_) clock_.spend(kernel_seconds_(name, kernel));
    });
    return {kernel.label, name, start, end};
  }

 private:
  StreamClock clock_;
  KernelSeconds kernel_seconds_;
  Cores cores_;
  model::DataType accumulation_;
  FailureBoard& failures_;
};

class ThreadedStream final : public Stream {
 public:
  ThreadedStream(const StreamOptions& options, EventBoard& events, FailureBoard& failures)
      : runner_(options, failures), events_(events), thread_([this] { loop(); }) {}

  ~ThreadedStream() override {
    push(Stop{});
    thread_.join();
  }

  void run(model::Stream name, const Kernel& kernel) override { push(std::pair(name, kernel)); }
  void run(model::Stream name, StreamWork work) override { push(std::pair(name, std::move(work))); }
  void record(Event event) override { push(Record{event}); }
  void wait(Event event) override { push(Wait{event}); }

  void drain() override {
    std::unique_lock lock(mutex_);
    idle_.wait(lock, [this] { return items_.empty() && !busy_; });
  }

  double now() override { return last_; }
  bool holds(Event) const override { return false; }

 private:
  struct Record {
    Event event;
  };
  struct Wait {
    Event event;
  };
  struct Stop {};
  using Item = std::variant<std::pair<model::Stream, Kernel>, std::pair<model::Stream, StreamWork>, Record, Wait, Stop>;

  void push(Item item) {
    {
      const std::lock_guard lock(mutex_);
      items_.push_back(std::move(item));
    }
    more_.notify_one();
  }

  void loop() {
    runner_.clock().enter_thread();
    for (bool going = true; going;) {
      Item item = next();
      going = std::visit([this](auto& what) { return handle(what); }, item);
      last_ = runner_.clock().now();
    }
  }

  Item next() {
    std::unique_lock lock(mutex_);
    busy_ = false;
    if (items_.empty()) idle_.notify_all();
    more_.wait(lock, [this] { return !items_.empty(); });
    Item item = std::move(items_.front());
    items_.pop_front();
    busy_ = true;
    return item;
  }

  bool handle(const std::pair<model::Stream, Kernel>& kernel) {
    records_.push_back(runner_.run(kernel.first, kernel.second));
    return true;
  }
  bool handle(const std::pair<model::Stream, StreamWork>& work) {
    const double start = runner_.clock().now();
    const double end = runner_.guarded([&] {
      work.second.start(runner_.clock());
      work.second.finish(runner_.clock());
    });
    records_.push_back({work.second.label, work.first, start, end});
    return true;
  }
  bool handle(const Record& record) {
    events_.complete(record.event, runner_.clock().now());
    return true;
  }
  bool handle(const Wait& wait) {
    runner_.clock().advance_to(events_.await(wait.event));
    return true;
  }
  static bool handle(const Stop&) { return false; }

  StreamRunner runner_;
  EventBoard& events_;
  std::mutex mutex_;
  std::condition_variable more_, idle_;
  std::deque<Item> items_;
  bool busy_ = false;
  double last_ = 0;
  std::thread thread_;  // last member, because it uses all of the above
};

// `others` are the device's streams; a wait for an event runs the deferred work of the stream that holds it.
class InlineStream final : public Stream {
 public:
  InlineStream(const StreamOptions& options, EventBoard& events, FailureBoard& failures,
               const std::vector<std::unique_ptr<Stream>>& others)
      : runner_(options, failures), events_(events), others_(others) {
    runner_.clock().enter_thread();
  }

  void run(model::Stream name, const Kernel& kernel) override {
    drain();
    records_.push_back(runner_.run(name, kernel));
  }

  void run(model::Stream name, StreamWork work) override {
    drain();
    const double start = runner_.clock().now();
    runner_.guarded([&] { work.start(runner_.clock()); });
    pending_ = Pending{name, std::move(work), start};
  }

  void record(Event event) override {
    if (pending_)
      recorded_.push_back(event);
    else
      events_.complete(event, runner_.clock().now());
  }

  // Runs only the deferred work that holds the event; that of other streams might wait for ranks that are not ready.
  void wait(Event event) override {
    for (const auto& other : others_)
      if (other->holds(event)) other->drain();
  }

  bool holds(Event event) const override { return std::ranges::find(recorded_, event) != recorded_.end(); }

  void drain() override {
    if (!pending_) return;
    const Pending pending = std::move(*pending_);
    pending_.reset();
    const double end = runner_.guarded([&] { pending.work.finish(runner_.clock()); });
    records_.push_back({pending.work.label, pending.name, pending.start, end});
    for (const Event event : std::exchange(recorded_, {})) events_.complete(event, end);
  }

  double now() override { return runner_.clock().now(); }

 private:
  struct Pending {
    model::Stream name;
    StreamWork work;
    double start = 0;
  };

  StreamRunner runner_;
  EventBoard& events_;
  const std::vector<std::unique_ptr<Stream>>& others_;
  std::optional<Pending> pending_;
  std::vector<Event> recorded_;  // complete with the pending work
};

// The capacity of routed tensors, as a multiple of their expected rows, so that a step in which an expert has more rows
// does not wait for an allocation.
constexpr Index routed_capacity = 2;

}  // namespace

struct HostDevice::State {
  bool threads = true;
  Pool pool;
  EventBoard events;
  FailureBoard failures;
  std::vector<std::unique_ptr<Stream>> streams;  // by Queue

  Stream& stream(model::Stream name) { return *streams[static_cast<std::size_t>(queue_of(name))]; }
};

HostDevice::HostDevice(const DeviceOptions& options) : state_(std::make_unique<State>()) {
  state_->threads = options.threads;
  state_->streams.reserve(queue_kinds);
  for (std::size_t queue = 0; queue < queue_kinds; ++queue) {
    const bool computes = queue == static_cast<std::size_t>(Queue::compute);
    const StreamOptions stream{options.clock, options.simulated, options.kernel_seconds,
                               computes ? options.compute_cores : options.communication_cores, options.accumulation};
    if (options.threads)
      state_->streams.push_back(std::make_unique<ThreadedStream>(stream, state_->events, state_->failures));
    else
      state_->streams.push_back(
          std::make_unique<InlineStream>(stream, state_->events, state_->failures, state_->streams));
  }
}

HostDevice::~HostDevice() = default;

double HostDevice::memory_bytes() { return state_->pool.most_bytes(); }

BufferPointer HostDevice::allocate(const model::Tensor& tensor) {
  const TensorShape shape = matrix_shape(tensor);
  const Index capacity = is_routed(tensor) ? routed_capacity * shape.rows : shape.rows;
  auto buffer = std::make_unique<HostBuffer>(state_->pool, tensor.type, capacity, shape.columns);
  std::fill_n(buffer->data(), buffer->size(), 0.0F);
  buffer->resize(shape.rows);
  return buffer;
}

BufferPointer HostDevice::view(Buffer& flat, std::int64_t first, const model::Tensor& tensor) {
  const TensorShape shape = matrix_shape(tensor);
  auto& whole = static_cast<HostBuffer&>(flat);
  assert(first + shape.rows * shape.columns <= whole.size());
  return std::make_unique<HostBuffer>(whole.data() + first, tensor.type, shape.rows, shape.columns);
}

void HostDevice::write(Buffer& buffer, std::span<const float> values) {
  auto& target = static_cast<HostBuffer&>(buffer);
  assert(static_cast<std::size_t>(target.size()) == values.size());
  for (const auto& stream : state_->streams) stream->drain();
  std::ranges::copy(values, target.data());
  round_to(target.type(), {target.data(), values.size()});
}

std::vector<float> HostDevice::read(const Buffer& buffer) {
  const auto& source = static_cast<const HostBuffer&>(buffer);
  for (const auto& stream : state_->streams) stream->drain();
  return {source.data(), source.data() + source.size()};
}

void HostDevice::clear(model::Stream stream, Buffer& buffer, std::uint32_t label) {
  auto& target = static_cast<HostBuffer&>(buffer);
  enqueue(stream, {[&target](StreamClock&) { target.array().setZero(); }, [](StreamClock&) {}, label});
}

bool HostDevice::concurrent() const { return state_->threads; }

void HostDevice::launch(model::Stream stream, const Kernel& kernel) { state_->stream(stream).run(stream, kernel); }

Event HostDevice::record(model::Stream stream) {
  const Event event = state_->events.create();
  state_->stream(stream).record(event);
  return event;
}

void HostDevice::wait(model::Stream stream, Event event) { state_->stream(stream).wait(event); }

void HostDevice::enqueue(model::Stream stream, StreamWork work) { state_->stream(stream).run(stream, std::move(work)); }

void HostDevice::on_failure(std::function<void(const std::string&)> listener) {
  state_->failures.set_listener(std::move(listener));
}

model::Result<void> HostDevice::synchronize() {
  for (const auto& stream : state_->streams) stream->drain();
  if (state_->failures.failed()) return infeasible(state_->failures.reason());
  state_->events.forget();
  return {};
}

double HostDevice::now() {
  double latest = 0;
  for (const auto& stream : state_->streams) latest = std::max(latest, stream->now());
  return latest;
}

std::vector<KernelRecord> HostDevice::take_records() {
  std::vector<KernelRecord> records;
  for (const auto& stream : state_->streams) std::ranges::move(stream->take_records(), std::back_inserter(records));
  return records;
}

}  // namespace plumbline::real::host
