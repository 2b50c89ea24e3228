#include "real/host/measure/runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <limits>
#include <map>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "real/executor/infeasible.h"
#include "real/host/cores.h"
#include "real/host/device.h"
#include "real/host/measure/environment.h"
#include "real/host/measure/measure.h"
#include "real/host/operators/operators.h"
#include "real/host/pool.h"
#include "real/measure/rounds.h"
#include "real/measure/sequence_buffers.h"

namespace plumbline::real::host {

namespace {

using model::DataType;

bool is_held(DataType type) {
  return type == DataType::fp32 || type == DataType::bf16 || type == DataType::fp16 || type == DataType::int32 ||
         type == DataType::int64 || type == DataType::uint8;
}

model::Result<void> check_computable(const Sequence& sequence) {
  for (const Sequence::Step& step : sequence.steps) {
    const model::Operator& op = sequence.op(step);
    if (!has_stand_in(op.kind) && function_of(op.kind) == nullptr)
      return infeasible(fmt::format("the host cannot compute {} ({})", to_string(op.kind), op.name));
    for (const auto* ids : {&op.reads, &op.writes}) {
      for (const model::TensorId id : *ids) {
        const DataType type = sequence.graph(step).tensor(id).type;
        if (!is_held(type))
          return infeasible(fmt::format("the host has no {} ({})", to_string(type), op.name),
                            "set precision.gemm, dispatch and combine to fp32, bf16 or fp16");
      }
    }
  }
  return {};
}

double float_bytes(const model::Tensor& tensor) { return tensor.elements() * sizeof(float); }

double bytes_of(const Sequence& sequence) {
  double sum = 0;
  for (const Sequence::Block& block : sequence.blocks) {
    for (const model::Tensor& tensor : sequence.graphs[block.graph].tensors) {
      const bool rotates = tensor.role == model::Role::activation || tensor.role == model::Role::input;
      sum += float_bytes(tensor) * (rotates ? buffer_sets : 1);
    }
  }
  return sum;
}

double bytes_of(const MessageWorkload& message) {
  constexpr double ends = 2;
  return ends * static_cast<double>(message.bytes);
}

double bytes_of(const CollectiveWorkload& collective) {
  constexpr double in_and_out = 2;
  return in_and_out * static_cast<double>(collective.ranks * collective.bytes);
}

double bytes_of(const GroupWorkload& group) {
  double sum = 0;
  for (const auto* operators : {&group.before, &group.timed})
    for (const std::size_t op : *operators)
      for (const auto* ids : {&group.graph.operators[op].reads, &group.graph.operators[op].writes})
        for (const model::TensorId id : *ids) sum += float_bytes(group.graph.tensor(id));
  return sum * static_cast<double>(group.ranks);
}

double bytes_of(const LaunchWorkload&) { return 0; }

model::Result<void> check_memory(const std::vector<Workload>& workloads) {
  double needed = 0;
  for (const Workload& workload : workloads) needed += buffer_bytes(workload);
  const double available = available_memory_bytes();
  constexpr double giga = 1e9;
  if (available <= 0 || needed <= available) return {};
  return infeasible(
      fmt::format("the buffers take {:.1f} GB of memory, {:.1f} GB are free", needed / giga, available / giga),
      "measure fewer or smaller cases, or a smaller plan");
}

model::Result<std::vector<Series>> measured(const std::vector<Workload>& workloads, const MeasureOptions& options,
                                            const MeasureObserver& observer) {
  TRY(check_memory(workloads));
  Machines machines(options.device, options.transport);
  std::vector<RunnableWorkload> runnable;
  for (const Workload& workload : workloads) {
    auto runner = TRY(make_runner(workload, machines));
    runnable.push_back({std::move(runner), subjects_of(workload)});
  }
  return measure_in_rounds(runnable, options.rounds, observer);
}

}  // namespace

HostDevice& Machines::device(int cores) {
  auto& device = devices_[cores];
  if (!device) device = std::make_unique<HostDevice>(options(cores));
  return *device;
}

model::Result<void> Machines::Ranks::synchronize() {
  for (const auto& device : devices) TRY(device->synchronize());
  return {};
}

double Machines::Ranks::take_seconds(std::uint32_t label) {
  double start = 0, end = 0;
  for (const auto& device : devices)
    for (const KernelRecord& record : device->take_records()) {
      if (record.label != label) continue;
      start = std::max(start, record.start);
      end = std::max(end, record.end);
    }
  return end - start;
}

Machines::Ranks& Machines::ranks(std::int64_t count) {
  auto& ranks = ranks_[count];
  if (ranks) return *ranks;
  ranks = std::make_unique<Ranks>();
  ranks->count = static_cast<std::int32_t>(count);
  if (transport_ != nullptr) {
    ranks->first = transport_->rank();
    if (ranks->first >= count) return *ranks;
    ranks->devices.push_back(std::make_unique<HostDevice>(options(1)));
    ranks->communicators.push_back(make_communicator(*ranks->devices.back(), *transport_));
    return *ranks;
  }
  ranks->transports = in_process_transports(ranks->count);
  for (const auto& transport : ranks->transports) {
    ranks->devices.push_back(std::make_unique<HostDevice>(options(1)));
    ranks->communicators.push_back(make_communicator(*ranks->devices.back(), *transport));
  }
  return *ranks;
}

model::Result<std::unique_ptr<Runner>> make_runner(const Workload& workload, Machines& machines) {
  if (const auto* sequence = std::get_if<Sequence>(&workload)) {
    TRY(check_computable(*sequence));
    return make_sequence_runner(*sequence, machines.device(sequence->cores));
  }
  if (const auto* message = std::get_if<MessageWorkload>(&workload))
    return make_message_runner(*message, machines.ranks(2));
  if (const auto* collective = std::get_if<CollectiveWorkload>(&workload))
    return make_collective_runner(*collective, machines.ranks(collective->ranks));
  if (const auto* group = std::get_if<GroupWorkload>(&workload))
    return make_group_runner(*group, machines.ranks(group->ranks));
  return make_launch_runner(machines.device(1));
}

double buffer_bytes(const Workload& workload) {
  return std::visit([](const auto& one) { return bytes_of(one); }, workload);
}

model::Result<std::vector<Series>> measure(const std::vector<Workload>& workloads, const MeasureOptions& options,
                                           const MeasureObserver& observer) {
  try {
    return measured(workloads, options, observer);
  } catch (const std::exception& failure) {
    return infeasible(fmt::format("the measurement failed: {}", failure.what()));
  }
}

// Times the operators of a group of ranks: dispatch and combine of expert tokens, collectives of an optimizer.

namespace {

using model::OperatorKind;
using model::TensorId;

constexpr std::uint32_t unlabeled = 0;  // timed operators count from 1

class GroupRunner final : public Runner {
 public:
  GroupRunner(const GroupWorkload& group, Machines::Ranks& ranks) : workload_(group), ranks_(ranks) {
    barrier_graph_.tensors = {{.name = "barrier", .shape = {{1}}, .type = model::DataType::fp32}};
    barrier_graph_.operators = {{.kind = OperatorKind::all_reduce, .name = "barrier", .reads = {0}, .writes = {0}}};
    for (std::size_t rank = 0; rank < ranks.devices.size(); ++rank) {
      barriers_.push_back(ranks.devices[rank]->allocate(barrier_graph_.tensors[0]));
      add_buffers(rank);
    }
  }

  // A barrier before each operator keeps the ranks from waiting for each other's earlier work.
  model::Result<std::vector<Sample>> round(std::size_t) override {
    std::vector<Sample> samples;
    for (const std::size_t op : workload_.before) {
      for (std::size_t rank = 0; rank < ranks_.devices.size(); ++rank)
        ranks_.devices[rank]->launch(model::Stream::compute, kernel(rank, op, unlabeled));
      TRY(ranks_.synchronize());
    }
    for (std::size_t i = 0; i < workload_.timed.size(); ++i) {
      const auto seconds = TRY(time(workload_.timed[i]));
      if (!ranks_.devices.empty()) samples.push_back({i, seconds, 0});
    }
    return samples;
  }

 private:
  using Table = std::map<TensorId, BufferPointer>;

  void add_buffers(std::size_t rank) {
    const auto seed = static_cast<std::uint64_t>(ranks_.first) + rank;
    const Contents contents(workload_.graph, seed);
    Table& table = buffers_.emplace_back();
    for (const auto* operators : {&workload_.before, &workload_.timed})
      for (const std::size_t op : *operators)
        for (const auto* ids : {&workload_.graph.operators[op].reads, &workload_.graph.operators[op].writes})
          for (const TensorId id : *ids) {
            auto& buffer = table[id];
            if (buffer != nullptr) continue;
            buffer = ranks_.devices[rank]->allocate(workload_.graph.tensor(id));
            ranks_.devices[rank]->write(*buffer, contents.values(id));
          }
  }

  Kernel kernel(std::size_t rank, std::size_t op, std::uint32_t label) {
    const model::Operator& o = workload_.graph.operators[op];
    Kernel kernel{.graph = &workload_.graph, .op = &o, .label = label};
    for (const TensorId id : o.reads) kernel.reads.push_back(buffers_[rank].at(id).get());
    for (const TensorId id : o.writes) kernel.writes.push_back(buffers_[rank].at(id).get());
    return kernel;
  }

  // Resizes the experts' outputs to the number of received tokens.
  void fit_received(std::size_t rank, const model::Operator& op) {
    const auto& tensors = workload_.graph.tensors;
    for (const TensorId id : op.reads) {
      if (tensors[id].shape.front().extent != model::Extent::received) continue;
      auto& buffer = static_cast<HostBuffer&>(*buffers_[rank].at(id));
      if (buffer.rows() == received_rows_[rank]) continue;
      buffer.resize(received_rows_[rank]);
      buffer.array().setConstant(1);
    }
  }

  void launch(std::size_t rank, std::size_t op) {
    Communicator& communicator = *ranks_.communicators[rank];
    const Group group = ranks_.group(rank);
    const Kernel barrier{.graph = &barrier_graph_,
                         .op = &barrier_graph_.operators[0],
                         .reads = {barriers_[rank].get()},
                         .writes = {barriers_[rank].get()},
                         .label = unlabeled};
    communicator.launch(model::Stream::communication, group, barrier);
    communicator.launch(model::Stream::communication, group, kernel(rank, op, 1));
  }

  // Returns the seconds of an operator from the last rank's start to the last rank's end.
  model::Result<double> time(std::size_t op) {
    const model::Operator& o = workload_.graph.operators[op];
    for (std::size_t rank = 0; rank < ranks_.devices.size(); ++rank) {
      if (o.kind != OperatorKind::dispatch && !received_rows_.empty()) fit_received(rank, o);
      launch(rank, op);
    }
    TRY(ranks_.synchronize());
    const double seconds = ranks_.take_seconds(1);
    if (o.kind == OperatorKind::dispatch) remember_received(o);
    return seconds;
  }

  void remember_received(const model::Operator& dispatch) {
    received_rows_.clear();
    for (const Table& table : buffers_)
      received_rows_.push_back(static_cast<const HostBuffer&>(*table.at(dispatch.writes[0])).rows());
  }

  const GroupWorkload& workload_;
  Machines::Ranks& ranks_;
  model::Graph barrier_graph_;
  std::vector<BufferPointer> barriers_;  // by rank
  std::vector<Table> buffers_;           // by rank
  std::vector<Index> received_rows_;     // by rank, of the last dispatch
};

}  // namespace

std::unique_ptr<Runner> make_group_runner(const GroupWorkload& group, Machines::Ranks& ranks) {
  return std::make_unique<GroupRunner>(group, ranks);
}

// Runs messages and collectives between ranks of this process.

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

// Runs the operators of a sequence, each timed by the clock of its stream.

namespace {

// The size of the copy: more than the caches of common processors hold, so that it goes through memory.
constexpr std::size_t copied_floats = std::size_t{1} << 24;
// The floats that are copied between two checks for the stop, in a time that is short against the measured operators.
constexpr std::size_t chunk_floats = std::size_t{1} << 16;

// Threads that copy through memory concurrently with the measured operators, as transfers and other ranks do.
class Copier {
 public:
  explicit Copier(int cores) : cores_(cores), from_(copied_floats, 1.0F), to_(copied_floats, 0.0F) {}

  // Enqueues a copy on the communication stream, which lasts until the work of enqueue_stop().
  void start(HostDevice& device, std::uint32_t label) {
    begun_ = stopped_ = false;
    device.enqueue(model::Stream::communication, {[this](StreamClock&) { copy(); }, [](StreamClock&) {}, label});
  }

  // Enqueue work on the compute stream that waits until copying has begun, and work that ends it.
  void enqueue_begun(HostDevice& device, std::uint32_t label) {
    const auto wait = [this](StreamClock&) {
      while (!begun_) std::this_thread::yield();
    };
    device.enqueue(model::Stream::compute, {wait, [](StreamClock&) {}, label});
  }
  void enqueue_stop(HostDevice& device, std::uint32_t label) {
    device.enqueue(model::Stream::compute, {[this](StreamClock&) { stopped_ = true; }, [](StreamClock&) {}, label});
  }

  double rate() const { return seconds_ > 0 ? bytes_ / seconds_ : 0; }  // bytes copied per second of the last run

 private:
  void copy() {
    const auto start = std::chrono::steady_clock::now();
    bytes_ = 0;
    for (std::size_t at = 0; !stopped_; at = (at + chunk_floats) % copied_floats) {
      cores_.split(chunk_floats, 1, [&](Index begin, Index end) {
        std::copy_n(from_.data() + at + static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin),
                    to_.data() + at + static_cast<std::size_t>(begin));
      });
      bytes_ += static_cast<double>(chunk_floats * sizeof(float));
      begun_ = true;  // once it has a rate, however soon it is stopped
    }
    seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

  Cores cores_;
  std::vector<float> from_, to_;
  std::atomic<bool> begun_ = false, stopped_ = false;
  double bytes_ = 0, seconds_ = 0;
};

constexpr std::uint32_t not_timed = std::numeric_limits<std::uint32_t>::max();

class SequenceRunner final : public Runner {
 public:
  SequenceRunner(const Sequence& sequence, HostDevice& device)
      : sequence_(sequence), device_(device), buffers_(sequence, device, buffer_sets) {
    if (sequence.communication_sms > 0) copier_.emplace(sequence.communication_sms);
  }

  model::Result<std::vector<Sample>> round(std::size_t number) override {
    const std::size_t set = number % buffer_sets;
    if (copier_) {
      copier_->start(device_, not_timed);
      copier_->enqueue_begun(device_, not_timed);
    }
    std::uint32_t label = 0;
    for (const Sequence::Step& step : sequence_.steps) {
      if (has_stand_in(sequence_.op(step).kind))
        stand_in(set, step);
      else
        launch(set, step, label++);
    }
    if (copier_) copier_->enqueue_stop(device_, not_timed);
    TRY(device_.synchronize());
    std::vector<Sample> samples;
    for (const KernelRecord& record : device_.take_records()) {
      if (record.label == not_timed) continue;
      samples.push_back({record.label, record.end - record.start, copier_ ? copier_->rate() : 0});
    }
    return samples;
  }

 private:
  void launch(std::size_t set, const Sequence::Step& step, std::uint32_t label) {
    device_.launch(model::Stream::compute, buffers_.kernel(set, step, label));
  }

  // The communication stream writes the outputs of a dispatch, combine or collective, as in a step. A copy from the
  // host needs no stand-in, because its tensor is still there.
  void stand_in(std::size_t set, const Sequence::Step& step) {
    const model::Operator& op = sequence_.op(step);
    if (op.kind == model::OperatorKind::copy_to_device) return;
    device_.wait(model::Stream::communication, device_.record(model::Stream::compute));
    for (const model::TensorId id : op.writes) {
      auto* buffer = static_cast<HostBuffer*>(buffers_.at(set, step.block, id));
      const std::vector<float>& values = buffers_.left_in(step.block, id);
      const auto leave = [buffer, &values](StreamClock&) { std::ranges::copy(values, buffer->data()); };
      device_.enqueue(model::Stream::communication, {leave, [](StreamClock&) {}, not_timed});
    }
    device_.wait(model::Stream::compute, device_.record(model::Stream::communication));
  }

  const Sequence& sequence_;
  HostDevice& device_;
  SequenceBuffers buffers_;
  std::optional<Copier> copier_;
};

}  // namespace

std::unique_ptr<Runner> make_sequence_runner(const Sequence& sequence, HostDevice& device) {
  return std::make_unique<SequenceRunner>(sequence, device);
}

}  // namespace plumbline::real::host
