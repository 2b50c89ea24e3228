#include "sim/analysis/load.h"

#include <algorithm>
#include <cstddef>

namespace plumbline::sim {

namespace {

using model::OperatorClass;
using model::Stream;
using Links = model::ExchangeCost::LinkSeconds;

// Segments that others of the template may run beside: neither waits for the other.
class Order {
 public:
  explicit Order(const model::SlotTemplate& slot) : slot_(slot), before_(slot.segments.size()) {
    std::array<int, 6> last{};  // of each stream, from 1
    for (std::size_t i = 0; i < before_.size(); ++i) {
      before_[i].assign(before_.size(), false);
      int& previous = last[static_cast<std::size_t>(slot.segments[i].stream)];
      if (previous > 0) follow(i, static_cast<std::size_t>(previous - 1));
      for (const std::uint16_t wait : slot.segments[i].waits) follow(i, wait);
      previous = static_cast<int>(i) + 1;
    }
  }

  // Segment i may run beside one on the second stream of compute.
  bool beside_second_stream(std::size_t i) const {
    for (std::size_t other = 0; other < before_.size(); ++other)
      if (slot_.segments[other].stream == Stream::weight_gradient && !before_[i][other] && !before_[other][i])
        return true;
    return false;
  }

 private:
  void follow(std::size_t later, std::size_t earlier) {
    before_[later][earlier] = true;
    for (std::size_t i = 0; i < earlier; ++i)
      if (before_[earlier][i]) before_[later][i] = true;
  }

  const model::SlotTemplate& slot_;
  std::vector<std::vector<bool>> before_;  // [later][earlier]
};

class Loader {
 public:
  Loader(const model::StepProgram& program, const CostModels& costs) : program_(program), costs_(costs) {
    neighbour_ = model::Neighbour::collective;
    for (const model::SlotTemplate& slot : program.templates)
      for (const model::Segment& segment : slot.segments)
        if (segment.stream == Stream::communication) neighbour_ = model::Neighbour::transferring;
  }

  Load of(const model::SlotTemplate& slot) {
    load_ = {};
    const Order order(slot);
    for (std::size_t i = 0; i < slot.segments.size(); ++i) {
      const model::Segment& segment = slot.segments[i];
      const double width = least_width(segment, order.beside_second_stream(i));
      for (const std::uint16_t index : segment.operators) add(segment, index, width);
    }
    return load_;
  }

 private:
  const model::Graph& graph_of(const model::Segment& segment) const { return program_.blocks[segment.block]; }

  // Where products run on both streams of compute, each takes the share of the GPU that its blocks fill, and all
  // kernels of its segment count as if they were its blocks (sim/engine/lane.h): others then get by with that share of
  // the GPU.
  double least_width(const model::Segment& segment, bool beside_second_stream) const {
    const bool with_product = std::ranges::any_of(segment.operators, [&](std::uint16_t index) {
      return is_product(model::operator_class(graph_of(segment), graph_of(segment).operators[index]));
    });
    if (!with_product || !beside_second_stream) return 1;
    return static_cast<double>(costs_.partition.launch_width(model::Neighbour::none)) /
           static_cast<double>(costs_.partition.device_sms);
  }

  void add(const model::Segment& segment, std::uint16_t index, double width) {
    const model::Graph& graph = graph_of(segment);
    const model::Operator& op = graph.operators[index];
    switch (model::operator_class(graph, op)) {
      case OperatorClass::exchange: {
        const model::ExchangeTime time = costs_.exchanges.exchange(graph, op);
        add_links(Resource::exchange_nic, op, costs_.exchanges.exchange_at_best(graph, op), {time.network, time.node});
        return;
      }
      case OperatorClass::collective: {
        const Links best = scaled(costs_.exchanges.collective_at_best(graph, op), segment.share);
        const double seconds = segment.share * costs_.exchanges.collective(graph, op);
        add_links(Resource::collective_nic, op, best, {best.network > 0 ? seconds : 0, best.network > 0 ? 0 : seconds});
        return;
      }
      case OperatorClass::host_link: {
        const auto to = segment.stream == Stream::to_host ? Resource::to_host : Resource::from_host;
        const double seconds = costs_.host.copy(graph, op);
        load_.at_best(to) += seconds;
        load_.taken[static_cast<std::size_t>(to)] += seconds;
        return;
      }
      default:
        if (segment.stream != Stream::communication) add_kernels(segment, op, width);
    }
  }

  static Links scaled(const Links& links, double factor) { return {links.network * factor, links.node * factor}; }

  void add_links(Resource nic, const model::Operator& op, const Links& best, const Links& taken) {
    const auto first = static_cast<std::size_t>(nic);
    if (!op.recomputed) load_.best[first] += best.network;
    if (!op.recomputed) load_.best[first + 1] += best.node;
    load_.taken[first] += taken.network;
    load_.taken[first + 1] += taken.node;
  }

  void add_kernels(const model::Segment& segment, const model::Operator& op, double width) {
    const model::Graph& graph = graph_of(segment);
    const OperatorClass kind = model::operator_class(graph, op);
    const model::KernelTime whole = costs_.kernels.time(graph, op, {.sms = costs_.partition.device_sms});
    const double ring = kind == OperatorClass::attention
                            ? costs_.exchanges.ring_attention(graph, op, whole.seconds) - whole.seconds
                            : 0;
    add_neighbours(segment, op);
    if (op.recomputed) {
      load_.loss.recomputation += segment.share * (whole.seconds + ring);
      return;
    }
    const double best = costs_.kernels.best(graph, op) * (is_product(kind) ? 1 : width);
    const double slower = segment.share * (whole.seconds - whole.gaps - best);
    load_.at_best(Resource::compute) += segment.share * best;
    (is_product(kind) ? load_.loss.gemm : load_.loss.memory_bound) += slower;
    load_.loss.gaps += segment.share * whole.gaps;
    load_.loss.ring += segment.share * ring;
  }

  void add_neighbours(const model::Segment& segment, const model::Operator& op) {
    const auto seconds = [&](const model::Conditions& conditions) {
      return segment.share * costs_.kernels.time(graph_of(segment), op, conditions).seconds;
    };
    const model::Conditions moving = costs_.partition.beside(neighbour_);
    model::Conditions waiting = moving;
    if (moving.held > 0) waiting.neighbour = model::Neighbour::waiting;
    load_.seats_beside += seconds(waiting) - seconds(costs_.partition.beside(model::Neighbour::none));
    load_.slowdown_beside += seconds(moving) - seconds(waiting);
  }

  const model::StepProgram& program_;
  const CostModels& costs_;
  model::Neighbour neighbour_;  // beside which kernels of this program run
  Load load_;
};

}  // namespace

std::string_view to_string(Resource resource) {
  constexpr std::array<std::string_view, resources> names = {"compute",
                                                             "NIC (dispatch and combine)",
                                                             "NVLink (dispatch and combine)",
                                                             "NIC (collectives in slots)",
                                                             "NVLink (collectives in slots)",
                                                             "NIC (reductions and gathers)",
                                                             "NVLink (reductions and gathers)",
                                                             "NIC (messages between stages)",
                                                             "NVLink (messages between stages)",
                                                             "host link (activations out)",
                                                             "host link (activations back)",
                                                             "host link (optimizer states)"};
  return names[static_cast<std::size_t>(resource)];
}

Load& Load::operator+=(const Load& other) {
  for (std::size_t i = 0; i < resources; ++i) {
    best[i] += other.best[i];
    taken[i] += other.taken[i];
  }
  loss.recomputation += other.loss.recomputation;
  loss.gemm += other.loss.gemm;
  loss.memory_bound += other.loss.memory_bound;
  loss.gaps += other.loss.gaps;
  loss.ring += other.loss.ring;
  seats_beside += other.seats_beside;
  slowdown_beside += other.slowdown_beside;
  return *this;
}

std::vector<Load> template_loads(const model::StepProgram& program, const CostModels& costs) {
  Loader loader(program, costs);
  std::vector<Load> loads;
  for (const model::SlotTemplate& slot : program.templates) loads.push_back(loader.of(slot));
  return loads;
}

}  // namespace plumbline::sim
