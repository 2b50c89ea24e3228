#include "real/host/measure/runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "real/executor/infeasible.h"
#include "real/host/measure/environment.h"
#include "real/host/measure/measure.h"
#include "real/host/operators/operators.h"

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

}  // namespace plumbline::real::host
