#include "sim/analysis/load.h"

#include <algorithm>
#include <cstddef>

#include "model/base/bytes.h"
#include "model/cost/work.h"
#include "sim/step/segment_time.h"

namespace plumbline::sim {
namespace {

using model::OperatorClass;
using Links = model::CommunicationCost::LinkSeconds;

// The order of a template's segments. Two segments may overlap where neither waits for the other. Streams run in order,
// so what comes before a segment is the first few segments of each stream.
class Order {
 public:
  explicit Order(const model::SlotTemplate& slot) : slot_(slot), before_(slot.segments.size()) {
    for (std::size_t i = 0; i < before_.size(); ++i) {
      std::vector<std::size_t>& stream = of_stream_[stream_of(i)];
      if (!stream.empty()) follow(i, stream.back());
      for (const std::uint16_t wait : slot.segments[i].waits) follow(i, wait);
      place_.push_back(stream.size());
      stream.push_back(i);
    }
  }

  // Returns whether segment i may overlap one on the second compute stream.
  bool with_second_stream(std::size_t i) const {
    constexpr auto second = static_cast<std::size_t>(model::Stream::weight_gradient);
    const std::vector<std::size_t>& others = of_stream_[second];
    const auto later = std::partition_point(
        others.begin(), others.end(), [&](std::size_t other) { return before_[other][stream_of(i)] <= place_[i]; });
    return later - others.begin() > static_cast<std::ptrdiff_t>(before_[i][second]);
  }

 private:
  static constexpr std::size_t streams = 6;
  using Counts = std::array<std::size_t, streams>;

  std::size_t stream_of(std::size_t i) const { return static_cast<std::size_t>(slot_.segments[i].stream); }

  void follow(std::size_t later, std::size_t earlier) {
    for (std::size_t stream = 0; stream < streams; ++stream)
      before_[later][stream] = std::max(before_[later][stream], before_[earlier][stream]);
    std::size_t& own = before_[later][stream_of(earlier)];
    own = std::max(own, place_[earlier] + 1);
  }

  const model::SlotTemplate& slot_;
  std::vector<Counts> before_;      // how many segments of each stream end before this one begins
  std::vector<std::size_t> place_;  // in its stream
  std::array<std::vector<std::size_t>, streams> of_stream_;
};

double peak_seconds(const model::Graph& graph, const model::Operator& op, const model::Device& device) {
  const double work = model::flops(graph, op, 1, true).value();
  if (work == 0) return 0;
  const double peak = model::peak(device, graph.tensor(op.reads[0]).type);
  return work / (peak > 0 ? peak : device.bf16_peak.value());
}

// Computes the load of one segment.
class Loader {
 public:
  Loader(const model::Graph& graph, const model::Segment& segment, const CostModels& costs, model::CoRunner co_runner,
         double clock)
      : graph_(graph), segment_(segment), costs_(costs), co_runner_(co_runner), clock_(clock) {}

  Load of(double width) {
    for (const std::uint16_t index : segment_.operators) add(graph_.operators[index], width);
    return load_;
  }

 private:
  void add(const model::Operator& op, double width) {
    switch (model::operator_class(graph_, op)) {
      case OperatorClass::exchange: {
        const model::AllToAllTime time = costs_.communication.all_to_all(graph_, op);
        add_links(Resource::all_to_all_nic, op, costs_.communication.all_to_all_at_best(graph_, op),
                  {time.network, time.node});
        return;
      }
      case OperatorClass::collective: {
        const Links best = scaled(costs_.communication.collective_at_best(graph_, op), segment_.share);
        const double seconds = collective_seconds(graph_, segment_, op, costs_);
        add_links(Resource::collective_nic, op, best, {best.network > 0 ? seconds : 0, best.network > 0 ? 0 : seconds});
        return;
      }
      case OperatorClass::host_link: {
        const auto to = segment_.stream == model::Stream::to_host ? Resource::to_host : Resource::from_host;
        const double seconds = costs_.host.copy(graph_, op);
        load_.at_best(to) += seconds;
        load_.taken[static_cast<std::size_t>(to)] += seconds;
        return;
      }
      default:
        if (segment_.stream != model::Stream::communication) add_kernels(op, width);
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

  void add_kernels(const model::Operator& op, double width) {
    const OperatorClass kind = model::operator_class(graph_, op);
    const double best_clock = std::max(1.0, clock_);  // above 1 under a limit above that of the profile's rates
    const auto time = [&](double clock) {
      return costs_.kernels.time(graph_, op, {.sms = costs_.partition.device_sms, .clock = clock});
    };
    const model::KernelTime whole = time(clock_);
    const double ring = kind == OperatorClass::attention
                            ? costs_.communication.ring_attention(graph_, op, whole.seconds) - whole.seconds
                            : 0;
    add_co_runners(op);
    if (op.recomputed) {
      load_.loss.recomputation += segment_.share * (whole.seconds + ring);
      return;
    }
    const bool clocked = is_gemm(kind) || kind == OperatorClass::attention;
    const double best = costs_.kernels.best(graph_, op) * (is_gemm(kind) ? 1 : width) / (clocked ? best_clock : 1);
    const double lost_to_clock = clocked && clock_ < 1 ? whole.seconds - time(1).seconds : 0;
    const double slower = segment_.share * (whole.seconds - whole.gaps - lost_to_clock - best);
    load_.loss.clock += segment_.share * lost_to_clock;
    load_.at_best(Resource::compute) += segment_.share * best;
    (is_gemm(kind) ? load_.loss.gemm : load_.loss.memory_bound) += slower;
    load_.loss.gaps += segment_.share * whole.gaps;
    load_.loss.ring += segment_.share * ring;
  }

  void add_co_runners(const model::Operator& op) {
    const auto seconds = [&](model::Conditions conditions) {
      conditions.clock = clock_;
      return segment_.share * costs_.kernels.time(graph_, op, conditions).seconds;
    };
    const model::Conditions moving = costs_.partition.overlapped(co_runner_);
    model::Conditions waiting = moving;
    if (moving.held > 0) waiting.co_runner = model::CoRunner::waiting;
    load_.lost_to_sms += seconds(waiting) - seconds(costs_.partition.overlapped(model::CoRunner::none));
    load_.lost_to_slowdown += seconds(moving) - seconds(waiting);
  }

  const model::Graph& graph_;
  const model::Segment& segment_;
  const CostModels& costs_;
  model::CoRunner co_runner_;
  double clock_;
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

Load& Load::add(const Load& other, double times) {
  for (std::size_t i = 0; i < resources; ++i) {
    best[i] += times * other.best[i];
    taken[i] += times * other.taken[i];
  }
  model::with_members(loss, [&](auto&... sums) {
    model::with_members(other.loss, [&](const auto&... losses) { ((sums += times * losses), ...); });
  });
  lost_to_sms += times * other.lost_to_sms;
  lost_to_slowdown += times * other.lost_to_slowdown;
  return *this;
}

// Where GEMMs run on both compute streams, each gets the share of the GPU that its CTAs fill. All kernels of its
// segment count as if they had as many CTAs (sim/engine/gpu_model.h); the other kernels need only that share.
double SegmentLoads::least_width(const model::Segment& segment, bool with_second_stream) const {
  const model::Graph& graph = program_.blocks[segment.block];
  const bool with_gemm = std::ranges::any_of(segment.operators, [&](std::uint16_t index) {
    return is_gemm(model::operator_class(graph, graph.operators[index]));
  });
  if (!with_gemm || !with_second_stream) return 1;
  return static_cast<double>(costs_.partition.launch_width(model::CoRunner::none)) /
         static_cast<double>(costs_.partition.device_sms);
}

const SlotLoad& SegmentLoads::segment(const model::Segment& segment, double width, double clock) {
  auto& known = known_.find(segment, [] { return std::map<std::pair<double, double>, SlotLoad>(); });
  const auto [entry, fresh] = known.try_emplace({width, clock});
  SlotLoad& load = entry->second;
  if (!fresh) return load;
  const model::Graph& graph = program_.blocks[segment.block];
  load.load = Loader(graph, segment, costs_, *co_runner_, clock).of(width);
  for (const std::uint16_t index : segment.operators)
    load.flop_seconds += segment.share * peak_seconds(graph, graph.operators[index], device_);
  return load;
}

SlotLoad SegmentLoads::of(const model::SlotTemplate& slot, double clock) {
  if (!co_runner_) {
    const bool communication = std::ranges::any_of(program_.blocks, [](const model::Graph& graph) {
      return std::ranges::any_of(graph.operators, [&](const model::Operator& op) {
        return model::operator_class(graph, op) == OperatorClass::exchange;
      });
    });
    co_runner_ = communication ? model::CoRunner::transferring : model::CoRunner::collective;
  }
  const Order order(slot);
  SlotLoad sum;
  for (std::size_t i = 0; i < slot.segments.size(); ++i) {
    const SlotLoad& one = segment(slot.segments[i], least_width(slot.segments[i], order.with_second_stream(i)), clock);
    sum.load.add(one.load);
    sum.flop_seconds += one.flop_seconds;
  }
  return sum;
}

}  // namespace plumbline::sim
