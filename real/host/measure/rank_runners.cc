// Runs messages and collectives between ranks of this process.
#include <algorithm>
#include <array>
#include <atomic>
#include <thread>

#include "real/host/measure/runner.h"
#include "real/measure/rounds.h"

namespace plumbline::real::host {
namespace {

constexpr std::uint32_t first_label = 1, last_label = 2;  // others are 0

model::Tensor plain_tensor(std::int64_t bytes) {
  const std::int64_t floats = std::max<std::int64_t>(1, bytes / static_cast<std::int64_t>(sizeof(float)));
  return {.name = "data", .shape = {{floats}}, .type = model::DataType::fp32};
}

// Times half a round trip of a message. The first round trip synchronizes two virtual clocks, the second is timed.
class MessageRunner final : public Runner {
 public:
  MessageRunner(const MessageWorkload& message, Machines::Ranks& ranks) : ranks_(ranks) {
    for (const auto& device : ranks.devices) {
      const std::vector<float> values(static_cast<std::size_t>(plain_tensor(message.bytes).elements()), 1.0F);
      buffers_.push_back(device->allocate(plain_tensor(message.bytes)));
      device->write(*buffers_.back(), values);
    }
  }

  model::Result<std::vector<Sample>> round(std::size_t) override {
    for (const bool timed : {false, true}) {
      transfer(0, true, timed ? first_label : 0);
      transfer(1, false, 0);
      transfer(1, true, 0);
      transfer(0, false, timed ? last_label : 0);
    }
    double start = 0, end = 0;
    for (const auto& device : ranks_.devices) {
      TRY(device->synchronize());
      for (const KernelRecord& record : device->take_records()) {
        if (record.label == first_label) start = record.start;
        if (record.label == last_label) end = record.end;
      }
    }
    if (!here(0)) return std::vector<Sample>{};
    return std::vector<Sample>{{0, (end - start) / 2, 0}};
  }

 private:
  bool here(std::int32_t rank) const {
    return rank >= ranks_.first && rank < ranks_.first + static_cast<std::int32_t>(ranks_.devices.size());
  }

  void transfer(std::int32_t rank, bool send, std::uint32_t label) {
    if (!here(rank)) return;
    const auto local = static_cast<std::size_t>(rank - ranks_.first);
    const std::array message = {Message{send, 1 - rank, 0, buffers_[local].get()}};
    ranks_.communicators[local]->send_receive(model::Stream::pipeline, message, false, label);
  }

  Machines::Ranks& ranks_;
  std::vector<BufferPointer> buffers_;
};

// Times a collective from the last rank's start to the last rank's end. An untimed first one synchronizes the ranks.
class CollectiveRunner final : public Runner {
 public:
  CollectiveRunner(const CollectiveWorkload& collective, Machines::Ranks& ranks) : ranks_(ranks) {
    const std::int64_t part = collective.bytes / collective.ranks;
    const bool gathers = collective.op == model::OperatorKind::all_gather;
    const bool scatters = collective.op == model::OperatorKind::reduce_scatter;
    // Each rank has a whole number of floats; the tensor consists of these shares.
    const std::int64_t share = std::max<std::int64_t>(sizeof(float), part / 4 * 4), whole = share * collective.ranks;
    graph_.tensors = {plain_tensor(gathers ? share : whole), plain_tensor(scatters ? share : whole)};
    graph_.operators = {{.kind = collective.op,
                         .name = "collective",
                         .reads = {0},
                         .writes = {1},
                         .attributes = model::CollectiveAttributes{collective.ranks, 1}}};
    for (const auto& device : ranks.devices) {
      reads_.push_back(device->allocate(graph_.tensors[0]));
      writes_.push_back(device->allocate(graph_.tensors[1]));
    }
  }

  model::Result<std::vector<Sample>> round(std::size_t) override {
    for (const std::uint32_t label : {0U, first_label})
      for (std::size_t rank = 0; rank < ranks_.devices.size(); ++rank) launch(rank, label);
    TRY(ranks_.synchronize());
    if (ranks_.devices.empty()) return std::vector<Sample>{};
    return std::vector<Sample>{{0, ranks_.take_seconds(first_label), 0}};
  }

 private:
  void launch(std::size_t rank, std::uint32_t label) {
    const Kernel kernel{.graph = &graph_,
                        .op = &graph_.operators[0],
                        .reads = {reads_[rank].get()},
                        .writes = {writes_[rank].get()},
                        .label = label};
    ranks_.communicators[rank]->launch(model::Stream::collective, ranks_.group(rank), kernel);
  }

  Machines::Ranks& ranks_;
  model::Graph graph_;
  std::vector<BufferPointer> reads_, writes_;
};

constexpr std::uint32_t gate_label = 0;
constexpr std::uint32_t kernels = 64;  // per round; the median of their gaps is one sample

// Times the gap between two kernels of a stream: the queue, the clock, the record.
class LaunchRunner final : public Runner {
 public:
  explicit LaunchRunner(HostDevice& device) : device_(device) {
    const std::vector<model::Dimension> one = {{1}, {1}};
    graph_.tensors = {{.name = "a", .shape = one, .type = model::DataType::fp32},
                      {.name = "b", .shape = one, .type = model::DataType::fp32},
                      {.name = "sum", .shape = one, .type = model::DataType::fp32}};
    graph_.operators = {{.kind = model::OperatorKind::add, .name = "add", .reads = {0, 1}, .writes = {2}}};
    for (const model::Tensor& tensor : graph_.tensors) buffers_.push_back(device.allocate(tensor));
  }

  // Launches all kernels before the first may run, so that none waits for its launch.
  model::Result<std::vector<Sample>> round(std::size_t) override {
    std::atomic<bool> open = false;
    const auto wait = [&open](StreamClock&) {
      while (!open) std::this_thread::yield();
    };
    if (device_.concurrent()) device_.enqueue(model::Stream::compute, {wait, [](StreamClock&) {}, gate_label});
    for (std::uint32_t i = 1; i <= kernels; ++i)
      device_.launch(model::Stream::compute, {.graph = &graph_,
                                              .op = &graph_.operators[0],
                                              .reads = {buffers_[0].get(), buffers_[1].get()},
                                              .writes = {buffers_[2].get()},
                                              .label = i});
    open = true;
    TRY(device_.synchronize());
    const std::vector<KernelRecord> records = device_.take_records();  // in the order in which they ran
    std::vector<double> gaps;
    for (std::size_t i = 2; i < records.size(); ++i) gaps.push_back(records[i].start - records[i - 1].end);
    return std::vector<Sample>{{0, spread_of(gaps).p50, 0}};
  }

 private:
  HostDevice& device_;
  model::Graph graph_;
  std::vector<BufferPointer> buffers_;
};

}  // namespace

std::unique_ptr<Runner> make_message_runner(const MessageWorkload& message, Machines::Ranks& ranks) {
  return std::make_unique<MessageRunner>(message, ranks);
}

std::unique_ptr<Runner> make_collective_runner(const CollectiveWorkload& collective, Machines::Ranks& ranks) {
  return std::make_unique<CollectiveRunner>(collective, ranks);
}

std::unique_ptr<Runner> make_launch_runner(HostDevice& device) { return std::make_unique<LaunchRunner>(device); }

}  // namespace plumbline::real::host
