#include "sim/cluster/detail/uneven_work.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>
#include <vector>

#include "model/base/random.h"
#include "model/routing/documents.h"
#include "model/routing/rank_rows.h"
#include "sim/step/stragglers.h"

namespace plumbline::sim {
namespace {

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
      const bool prediction = number >= architecture.layers && architecture.experts.routed_experts > 0;
      if (!prediction && !architecture.is_moe_layer(number)) continue;
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
