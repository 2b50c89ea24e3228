#include "sim/cluster/detail/fleet_draw.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <string_view>
#include <utility>
#include <vector>

#include "model/base/random.h"
#include "model/layers/blocks.h"
#include "model/plan/layout.h"
#include "model/result/result.h"
#include "model/routing/documents.h"
#include "model/routing/rank_rows.h"
#include "sim/cluster/fleet_priors.h"
#include "sim/step/stragglers.h"

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

// Numbers by expert group, micro-batch, layer and rank, and by data-parallel rank and micro-batch.
class WorkTable final : public UnevenWork {
 public:
  WorkTable(const model::Plan& plan, const model::Architecture& architecture, const model::Layout& layout)
      : group_(model::expert_group(plan.parallelism)),
        micro_batches_(static_cast<std::size_t>(layout.micro_batches)),
        replicas_per_data_(plan.parallelism.tensor * plan.parallelism.context),
        replicas_(layout.data * replicas_per_data_),
        place_of_(static_cast<std::size_t>(architecture.layers + architecture.multi_token_prediction_layers), -1) {
    for (std::size_t layer = 0; layer < place_of_.size(); ++layer) {
      const auto number = static_cast<std::int64_t>(layer);
      const model::LayerKind kind = number < architecture.layers
                                        ? architecture.layer(number)
                                        : model::layer_of(model::BlockKind::multi_token_prediction, architecture);
      if (kind.feed_forward != model::FeedForward::experts) continue;
      place_of_[layer] = std::ssize(layers_);
      layers_.push_back(number);
    }
  }

  // Calls draw(group, place of the layer, micro-batch, rows) for each of them.
  template <class Draw>
  void fill_rows(const Draw& draw) {
    std::vector<double> rows;
    rows_.reserve(static_cast<std::size_t>(replicas_) * micro_batches_ * layers_.size());
    for (std::int64_t group = 0; group < replicas_ / (group_.ranks * group_.stride); ++group)
      for (std::size_t batch = 0; batch < micro_batches_; ++batch)
        for (std::size_t place = 0; place < layers_.size(); ++place) {
          draw(group, place, static_cast<std::int64_t>(batch), rows);
          rows_.insert(rows_.end(), rows.begin(), rows.end());
        }
  }

  void fill_attention(const model::Plan& plan, std::uint64_t seed) {
    const double expected = model::document_tokens(plan);
    for (std::int64_t data = 0; data < replicas_ / replicas_per_data_ && expected > 0; ++data)
      for (std::size_t batch = 0; batch < micro_batches_; ++batch)
        attention_.push_back(model::document_attention(plan, expected, model::Random(seed, attention_.size()).next()));
  }

  double expert_rows(std::int64_t replica, std::int32_t layer, std::int32_t micro_batch) const override {
    const std::int64_t place = rows_.empty() ? -1 : place_of_[static_cast<std::size_t>(layer)];
    if (place < 0) return 1;
    const std::int64_t rank = replica / group_.stride % group_.ranks;
    const std::int64_t group = replica / (group_.stride * group_.ranks);  // ranks that share experts have the same rows
    const std::size_t batch = static_cast<std::size_t>(group) * micro_batches_ + static_cast<std::size_t>(micro_batch);
    const std::size_t row =
        (batch * layers_.size() + static_cast<std::size_t>(place)) * static_cast<std::size_t>(group_.ranks);
    return static_cast<double>(rows_[row + static_cast<std::size_t>(rank)]);
  }

  double attention(std::int64_t replica, std::int32_t micro_batch) const override {
    if (attention_.empty()) return 1;
    const auto data = static_cast<std::size_t>(replica / replicas_per_data_);
    return attention_[data * micro_batches_ + static_cast<std::size_t>(micro_batch)];
  }

  const std::vector<std::int64_t>& layers() const { return layers_; }

 private:
  model::RankGroup group_;
  std::size_t micro_batches_;
  std::int64_t replicas_per_data_, replicas_;
  std::vector<std::int64_t> place_of_;  // [layer] in layers_; -1: it has no experts
  std::vector<std::int64_t> layers_;
  std::vector<float> rows_;        // [group][micro-batch][place][rank]; empty: all 1
  std::vector<double> attention_;  // [data rank][micro-batch]; empty: all 1
};

// Draws the rows of the ranks of a group that vary by a deviation, or returns the given ones.
class PlainRows {
 public:
  PlainRows(Imbalance imbalance, std::int64_t ranks, std::uint64_t seed)
      : imbalance_(std::move(imbalance)), ranks_(static_cast<std::size_t>(ranks)), random_(seed) {}

  void draw(std::vector<double>& rows) {
    rows = imbalance_.rank_rows;
    if (!rows.empty()) return;
    for (std::size_t r = 0; r < ranks_; ++r) rows.push_back(std::max(0.0, 1 + imbalance_.variation * random_.normal()));
    const double sum = std::accumulate(rows.begin(), rows.end(), 0.0);
    for (double& value : rows)
      value = sum > 0 ? std::min(imbalance_.most, value * static_cast<double>(ranks_) / sum) : 1;
  }

 private:
  Imbalance imbalance_;
  std::size_t ranks_;
  model::Random random_;
};

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

model::Result<std::unique_ptr<UnevenWork>> uneven_work(const model::Plan& plan, const model::Architecture& architecture,
                                                       std::uint64_t seed) {
  const auto layout = TRY(model::make_layout(plan, architecture));
  const model::MixtureOfExperts& experts = architecture.experts;
  const bool divided = experts.routed_experts > 0 && plan.parallelism.expert > 1;
  const Imbalance imbalance = imbalance_of(plan, experts, seed);
  const bool packed = model::document_tokens(plan) > 0;
  if (!packed && (!divided || imbalance.even())) return nullptr;
  auto table = std::make_unique<WorkTable>(plan, architecture, layout);
  if (divided && model::states_expert_loads(plan)) {
    const model::RankRows drawn(plan, experts, table->layers(), seed);
    table->fill_rows([&](std::int64_t group, std::size_t place, std::int64_t batch, std::vector<double>& rows) {
      drawn.draw(group, place, batch, rows);
    });
  } else if (divided && !imbalance.even()) {
    PlainRows plain(imbalance, plan.parallelism.expert, seed);
    table->fill_rows([&](std::int64_t, std::size_t, std::int64_t, std::vector<double>& rows) { plain.draw(rows); });
  }
  table->fill_attention(plan, seed);
  return table;
}

}  // namespace plumbline::sim
