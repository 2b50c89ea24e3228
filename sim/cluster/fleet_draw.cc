#include "sim/cluster/detail/fleet_draw.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "model/base/random.h"
#include "model/plan/layout.h"
#include "model/result/prediction_interval.h"
#include "model/routing/rank_rows.h"
#include "sim/cluster/detail/uneven_work.h"
#include "sim/cluster/fleet_priors.h"

namespace plumbline::sim {
namespace {

// Streams of random numbers, one for each fact.
enum class Fact : std::uint64_t { seed_of_jitter = 1, speed, machine, failslow, failslow_place, rows };

std::uint64_t mixed(std::uint64_t state, std::uint64_t value) { return model::Random(state ^ value).next(); }
model::Random random_of(std::uint64_t seed, Fact fact) {
  return model::Random(mixed(model::Random(seed).next(), static_cast<std::uint64_t>(fact)));
}

std::string percents(double share) { return fmt::format("{:.4g} %", 100 * share); }

std::string sentence(const Prior& prior) {
  return fmt::format("{}: {} ({} to {}); {}, {}", prior.what, percents(prior.middle), percents(prior.low),
                     percents(prior.high), model::to_string(prior.kind), prior.source);
}

std::string stated(std::string_view what, double value, const char* key) {
  return fmt::format("{}: {}, stated by {}", what, percents(value), key);
}

// Adds what makes the work of GPUs differ, by the keys that state it.
void add_work(const model::Plan& plan, std::vector<std::string>& sentences) {
  const auto& routing = plan.routing;
  if (model::states_expert_loads(plan))
    sentences.push_back(fmt::format(
        "rows of experts: {}", routing.load_file ? fmt::format("measured, routing.load_file = {}", *routing.load_file)
                                                 : "a model of gating, routing.skew"));
  else if (!routing.rows_per_rank.empty())
    sentences.push_back("rows of the experts of each rank: stated by routing.rows_per_rank");
  else if (routing.imbalance > 0)
    sentences.push_back(stated("standard deviation of the rows of a GPU's experts in a layer and micro-batch",
                               routing.imbalance, "routing.imbalance"));
  if (plan.batch.document_length || plan.batch.document_lengths)
    sentences.push_back("attention: sequences packed of documents, batch.document_length or document_lengths");
}

}  // namespace

FleetDraw::FleetDraw(const Inputs& inputs, bool by_kernels)
    : inputs_(inputs),
      speed_deviation_(inputs.plan.cluster.speed_deviation.value_or(speed_deviation.middle)),
      operation_deviation_(inputs.plan.cluster.jitter.value_or(std::log1p(operation_p90.middle) / model::normal_p90)) {
  const model::Plan& plan = inputs.plan;
  even_.replicas = plan.cluster.gpus / plan.parallelism.pipeline;
  even_.exchange = model::expert_group(plan.parallelism);
  even_.by_kernels = by_kernels;
}

FleetCauses FleetDraw::causes() const {
  const auto work = uneven_work(inputs_.plan, inputs_.architecture, 0);
  return {.slow_ranks = speed_deviation_ > 0 || stragglers() || !inputs_.slow_gpus.empty(),
          .jitter = operation_deviation_ > 0,
          .imbalance = work && *work != nullptr};
}

// Slowness below a tenth, ten deviations away with the widest prior, is none that a GPU has.
std::vector<double> FleetDraw::slowness(std::uint64_t seed) const {
  constexpr double least = 0.1;
  const auto gpus = static_cast<std::size_t>(inputs_.plan.cluster.gpus);
  std::vector<double> slow;
  model::Random speeds = random_of(seed, Fact::speed);
  for (std::size_t gpu = 0; gpu < gpus; ++gpu) slow.push_back(std::max(least, 1 + speed_deviation_ * speeds.normal()));
  for (const auto& [gpu, speed] : inputs_.slow_gpus) slow[static_cast<std::size_t>(gpu)] /= speed;
  if (!stragglers()) return slow;
  const auto machine = static_cast<std::size_t>(std::max<std::int64_t>(1, inputs_.cluster.gpus_per_node));
  model::Random machines = random_of(seed, Fact::machine);
  for (std::size_t first = 0; first < gpus; first += machine)
    if (machines.uniform() < slow_machines.middle)
      for (std::size_t gpu = first; gpu < std::min(gpus, first + machine); ++gpu)
        slow[gpu] *= slow_machine_factor.middle;
  if (random_of(seed, Fact::failslow).uniform() < failslow_share.middle)
    slow[random_of(seed, Fact::failslow_place).next() % gpus] *= failslow_factor.middle;
  return slow;
}

model::Result<FleetDraw::Drawn> FleetDraw::draw(std::uint64_t seed, const FleetCauses& causes, double jitter) const {
  Drawn drawn{even_, nullptr};
  drawn.fleet.seed = random_of(seed, Fact::seed_of_jitter).next();
  if (causes.slow_ranks) drawn.fleet.slowness = slowness(seed);
  if (causes.jitter) drawn.fleet.jitter = jitter;
  if (causes.imbalance) {
    drawn.work = TRY(uneven_work(inputs_.plan, inputs_.architecture, random_of(seed, Fact::rows).next()));
    drawn.fleet.work = drawn.work.get();
  }
  return drawn;
}

double FleetDraw::kernel_jitter(const ExecutionInput& input) const {
  double sum = 0, slots = 0;
  for (std::size_t t = 0; t < input.template_times.size(); ++t) {
    double seconds = 0, squares = 0;
    for (const SegmentTime& time : input.template_times[t])
      for (const double kernel : time.compute.front() > 0 ? time.kernels : std::vector<double>()) {
        seconds += kernel;
        squares += kernel * kernel;
      }
    if (seconds <= 0) continue;
    sum += std::sqrt(squares) / seconds;
    ++slots;
  }
  return sum > 0 ? operation_deviation_ * slots / sum : 0;
}

std::vector<std::string> FleetDraw::priors(const FleetCauses& causes) const {
  const auto& cluster = inputs_.plan.cluster;
  std::vector<std::string> sentences;
  if (causes.slow_ranks) {
    sentences.push_back(cluster.speed_deviation
                            ? stated(speed_deviation.what, speed_deviation_, "cluster.speed_deviation")
                            : sentence(speed_deviation));
    for (const auto& [gpu, speed] : inputs_.slow_gpus)
      sentences.push_back(stated(fmt::format("speed of GPU {} over the others'", gpu), speed, "--slow"));
    if (stragglers())
      for (const Prior* prior : {&slow_machines, &slow_machine_factor, &failslow_share, &failslow_factor})
        sentences.push_back(sentence(*prior));
  }
  if (causes.jitter)
    sentences.push_back(cluster.jitter ? stated("standard deviation of a forward or backward of a micro-batch",
                                                operation_deviation_, "cluster.jitter")
                                       : sentence(operation_p90));
  if (causes.imbalance) add_work(inputs_.plan, sentences);
  return sentences;
}

}  // namespace plumbline::sim
