// Times the operators of a group of ranks: dispatch and combine of expert tokens, collectives of an optimizer.
#include <map>

#include "real/host/buffer.h"
#include "real/host/measure/runner.h"
#include "real/measure/contents.h"

namespace plumbline::real::host {
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

}  // namespace plumbline::real::host
