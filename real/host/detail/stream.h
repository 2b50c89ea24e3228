// The streams of a host device. Each runs its work in order: threaded streams concurrently, inline streams on the
// calling thread.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "real/host/stream_work.h"

namespace plumbline::real::host {

// The state and time of all events; shared by the streams of a device.
class EventBoard {
 public:
  Event create();
  void complete(Event event, double time);
  double await(Event event);  // blocks until the event is complete and returns its time
  void forget();              // forgets all events; requires idle streams

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
  void report(const std::string& reason);
  bool failed() const;
  std::string reason() const;

 private:
  mutable std::mutex mutex_;
  bool failed_ = false;
  std::string reason_;
  std::function<void(const std::string&)> listener_;
};

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

std::unique_ptr<Stream> threaded_stream(const StreamOptions& options, EventBoard& events, FailureBoard& failures);
// `others` are the device's streams; a wait for an event runs the deferred work of the stream that holds it.
std::unique_ptr<Stream> inline_stream(const StreamOptions& options, EventBoard& events, FailureBoard& failures,
                                      const std::vector<std::unique_ptr<Stream>>& others);

}  // namespace plumbline::real::host
