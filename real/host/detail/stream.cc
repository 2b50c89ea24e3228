#include "real/host/detail/stream.h"

#include <algorithm>
#include <deque>
#include <exception>
#include <thread>
#include <variant>

#include "real/host/operators/operators.h"

namespace plumbline::real::host {

Event EventBoard::create() {
  const std::lock_guard lock(mutex_);
  states_.push_back({});
  return first_ + states_.size() - 1;
}

void EventBoard::complete(Event event, double time) {
  {
    const std::lock_guard lock(mutex_);
    if (event < first_) return;
    states_[event - first_] = {true, time};
  }
  changed_.notify_all();
}

double EventBoard::await(Event event) {
  std::unique_lock lock(mutex_);
  if (event < first_) return 0;
  changed_.wait(lock, [&] { return states_[event - first_].done; });
  return states_[event - first_].time;
}

void EventBoard::forget() {
  const std::lock_guard lock(mutex_);
  first_ += states_.size();
  states_.clear();
}

void FailureBoard::report(const std::string& reason) {
  {
    const std::lock_guard lock(mutex_);
    if (failed_) return;
    failed_ = true;
    reason_ = reason;
  }
  if (listener_) listener_(reason);
}

bool FailureBoard::failed() const {
  const std::lock_guard lock(mutex_);
  return failed_;
}

std::string FailureBoard::reason() const {
  const std::lock_guard lock(mutex_);
  return reason_;
}

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

}  // namespace

std::unique_ptr<Stream> threaded_stream(const StreamOptions& options, EventBoard& events, FailureBoard& failures) {
  return std::make_unique<ThreadedStream>(options, events, failures);
}

std::unique_ptr<Stream> inline_stream(const StreamOptions& options, EventBoard& events, FailureBoard& failures,
                                      const std::vector<std::unique_ptr<Stream>>& others) {
  return std::make_unique<InlineStream>(options, events, failures, others);
}

}  // namespace plumbline::real::host
