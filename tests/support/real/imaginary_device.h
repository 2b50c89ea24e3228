// A device that computes nothing: every kernel takes a given time on the device's own clock. Streams run concurrently,
// and a kernel takes longer while the other stream runs one.
#pragma once

#include <algorithm>
#include <array>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "real/executor/communicator.h"
#include "real/executor/device.h"

namespace plumbline::tests {

inline bool is_all_to_all(const std::string& op) {
  return op == "dispatch" || op == "combine" || op == "dispatch_grad" || op == "combine_grad";
}

struct ImaginaryTimes {
  double kernel_s = 1e-4, kernel_overlapped_s = 1e-4;
  double gap_s = 0;  // seconds between kernels of the compute stream
  double all_to_all_s = 4e-4, all_to_all_overlapped_s = 4e-4;
  bool fails = false;
};

// A kernel is overlapped when the other stream has work at that time, once all is launched. Kernels are placed in time
// at synchronise(), in the order of their launches; the stream that is behind goes first.
class ImaginaryDevice final : public real::Device {
 public:
  explicit ImaginaryDevice(const ImaginaryTimes& times) : times_(times) {}

  real::BufferPointer allocate(const model::Tensor&) override { return std::make_unique<real::Buffer>(); }
  real::BufferPointer view(real::Buffer&, std::int64_t, const model::Tensor&) override {
    return std::make_unique<real::Buffer>();
  }
  void write(real::Buffer&, std::span<const float>) override {}
  std::vector<float> read(const real::Buffer&) override { return {}; }
  void clear(model::Stream stream, real::Buffer&, std::uint32_t label) override { add(stream, label); }
  bool concurrent() const override { return true; }
  void launch(model::Stream stream, const real::Kernel& kernel) override {
    launched_.push_back(kernel.op->kind);
    add(stream, kernel.label);
  }
  real::Event record(model::Stream stream) override {
    events_.push_back({stream, queues_[index(stream)].size()});
    return events_.size() - 1;
  }
  void wait(model::Stream stream, real::Event event) override {
    Queue& queue = queues_[index(stream)];
    waits_[{index(stream), queue.size()}].push_back(events_[event]);
  }
  model::Result<void> synchronize() override {
    while (step()) {
    }
    const double now = this->now();
    for (Queue& queue : queues_) queue.clear();
    at_.fill(0);
    ends_.fill(now);
    events_.clear();
    waits_.clear();
    if (times_.fails) return tl::unexpected(model::Error{model::ErrorKind::infeasible, "it broke", "", 0, "", ""});
    return {};
  }
  double now() override { return *std::ranges::max_element(ends_); }
  std::vector<real::KernelRecord> take_records() override { return std::exchange(records_, {}); }

  // Returns the kinds of all operators, all-to-alls included, in the order of their launches.
  const std::vector<model::OperatorKind>& launched() const { return launched_; }
  void all_to_all(model::Stream stream, const real::Kernel& kernel) {
    launched_.push_back(kernel.op->kind);
    add(stream, kernel.label);
  }

 private:
  static constexpr std::size_t streams = 8;
  struct Recorded {
    model::Stream stream = model::Stream::compute;
    std::size_t launches = 0;  // number of launches before it on that stream
  };
  using Queue = std::vector<std::uint32_t>;  // labels

  static std::size_t index(model::Stream stream) { return static_cast<std::size_t>(stream); }
  void add(model::Stream stream, std::uint32_t label) { queues_[index(stream)].push_back(label); }

  bool may_start(std::size_t stream) const {
    const auto found = waits_.find({stream, at_[stream]});
    return found == waits_.end() || std::ranges::all_of(found->second, [this](const Recorded& event) {
             return at_[index(event.stream)] >= event.launches;
           });
  }

  // Runs the next kernel of the stream that is behind and need not wait.
  bool step() {
    std::size_t next = streams;
    for (std::size_t i = 0; i < streams; ++i)
      if (at_[i] < queues_[i].size() && may_start(i) && (next == streams || ends_[i] < ends_[next])) next = i;
    if (next == streams) return false;
    const bool computes = next == index(model::Stream::compute);
    const std::size_t other = index(computes ? model::Stream::communication : model::Stream::compute);
    const bool overlapped = queues_[other].size() > 0 && waits_.empty();
    double start = ends_[next] + (computes ? times_.gap_s : 0);
    if (const auto found = waits_.find({next, at_[next]}); found != waits_.end())
      for (const Recorded& event : found->second) start = std::max(start, ends_[index(event.stream)]);
    const double seconds = computes     ? overlapped ? times_.kernel_overlapped_s : times_.kernel_s
                           : overlapped ? times_.all_to_all_overlapped_s
                                        : times_.all_to_all_s;
    records_.push_back({queues_[next][at_[next]], static_cast<model::Stream>(next), start, start + seconds});
    ends_[next] = start + seconds;
    ++at_[next];
    return true;
  }

  ImaginaryTimes times_;
  std::array<Queue, streams> queues_;
  std::array<std::size_t, streams> at_{};
  std::array<double, streams> ends_{};
  std::vector<Recorded> events_;
  std::map<std::pair<std::size_t, std::size_t>, std::vector<Recorded>> waits_;  // by stream and launches before it
  std::vector<real::KernelRecord> records_;
  std::vector<model::OperatorKind> launched_;
};

// Emulates other ranks that are always ready.
class ImaginaryPeers final : public real::Communicator {
 public:
  ImaginaryPeers(ImaginaryDevice& device, std::int32_t ranks) : device_(device), ranks_(ranks) {}

  std::int32_t rank() const override { return 0; }
  std::int32_t ranks() const override { return ranks_; }
  void send_receive(model::Stream, std::span<const real::Message>, bool, std::uint32_t) override {}
  void launch(model::Stream s, const real::Group&, const real::Kernel& k) override { device_.all_to_all(s, k); }
  model::Result<std::vector<double>> sum(std::vector<double> values) override { return values; }
  model::Result<std::vector<std::string>> gather(const std::string& text) override { return std::vector{text}; }
  void abort(const std::string&) override {}

 private:
  ImaginaryDevice& device_;
  std::int32_t ranks_;
};

}  // namespace plumbline::tests
