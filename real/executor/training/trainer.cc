#include "real/executor/training/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <optional>
#include <string>
#include <utility>

#include "real/executor/agreement.h"
#include "real/executor/infeasible.h"

namespace plumbline::real {
namespace {

using model::Result;

// Returns the description of a value that is not finite, for an error.
std::string words(double value) { return std::isnan(value) ? "not a number" : "infinite"; }

class Trainer {
 public:
  Trainer(TrainingStep& step, Communicator& communicator, const TextSource& text, const TrainingOptions& options)
      : step_(step), communicator_(communicator), text_(text), options_(options) {
    if (options.fp16) loss_scale_ = LossScale(options.loss_scale);
  }

  Result<TrainingResult> run(const StepObserver& observer) {
    TRY(begin());
    Prefetcher batches(text_, step_.places(), options_.batch, progress_.sequences, options_.prefetch_thread);
    TrainingResult result{.first_step = progress_.step + 1};
    while (progress_.step < options_.steps && !stopped_) {
      auto figures = TRY(next(batches));
      result.losses.push_back(figures.loss);
      result.gradient_norms.push_back(figures.gradient_norm);
      result.seconds.push_back(figures.seconds);
      result.skipped += figures.skipped ? 1 : 0;
      if (observer) observer(figures);
      const bool due = options_.checkpoint_interval > 0 && progress_.step % options_.checkpoint_interval == 0;
      if (due || stopped_ || progress_.step == options_.steps) TRY(save());
      result.loads = std::move(figures.loads);
    }
    result.progress = progress_;
    result.timeline = std::move(timeline_);
    return result;
  }

 private:
  Result<void> begin() {
    const CheckpointStore& store = options_.checkpoint;
    if (store.folder.empty()) return {};
    if (!options_.resume) TRY(lock());
    if (options_.resume) {
      const auto progress = TRY(load_checkpoint(store, step_.state(), step_.device(), communicator_));
      TRY(lock());
      progress_ = progress;
      saved_step_ = progress_.step;
      if (options_.fp16) loss_scale_.restore(progress_.loss_scale);
      return {};
    }
    const auto present = TRY(from_first(communicator_, latest_checkpoint(store.folder).value_or(-1)));
    if (present < 0) return {};
    return tl::unexpected(model::Error{.message = fmt::format("has a checkpoint of step {} already", present),
                                       .file = store.folder,
                                       .hint = "resume from it, or use another folder"});
  }

  Result<void> lock() {
    if (communicator_.rank() != 0) return agree(communicator_, {});
    auto taken = CheckpointLock::take(options_.checkpoint.folder);
    if (taken) lock_.emplace(std::move(*taken));
    return agree(communicator_, taken ? Result<void>() : tl::unexpected(taken.error()));
  }

  Result<StepFigures> next(Prefetcher& batches) {
    const auto micro_batches = TRY(or_abort(batches.next()));
    const double parts =
        static_cast<double>(options_.batch.global_batch_size) / static_cast<double>(options_.batch.micro_batch_size);
    const StepNumbers numbers{.step = progress_.updates + 1,
                              .loss_scale = loss_scale_.factor() / parts,
                              .learning_rate = options_.learning_rate};
    auto outcome = TRY(or_abort(step_.run(micro_batches, numbers)));
    StepFigures figures{.step = progress_.step + 1,
                        .gradient_norm = outcome.gradient_norm,
                        .loss_scale = loss_scale_.factor(),
                        .skipped = options_.fp16 && !outcome.finite};
    TRY(add_over_ranks(outcome, figures));
    TRY(check(outcome, figures));
    TRY(balance(outcome, figures));
    progress_.step += 1;
    progress_.updates += figures.skipped ? 0 : 1;
    progress_.sequences += options_.batch.global_batch_size;
    progress_.loss_scale = loss_scale_.state();
    timeline_ = std::move(outcome.timeline);
    return figures;
  }

  // Sets the figures over all ranks, with a single sum.
  Result<void> add_over_ranks(const StepOutcome& outcome, StepFigures& figures) {
    constexpr std::size_t before_seconds = 4;
    std::vector<double> values(before_seconds + static_cast<std::size_t>(communicator_.ranks()));
    values[0] = outcome.loss_weight > 0 ? outcome.loss * outcome.loss_weight : 0;
    values[1] = outcome.loss_weight;
    values[2] = outcome.gradient_norm;  // of the whole gradient: equal on all ranks, unless it is NaN on one
    values[3] = options_.stopped && options_.stopped() ? 1 : 0;
    values[before_seconds + static_cast<std::size_t>(communicator_.rank())] = outcome.seconds;
    const auto sums = TRY(communicator_.sum(std::move(values)));
    figures.loss = (sums)[0] / (sums)[1];
    if (!std::isfinite((sums)[2])) figures.gradient_norm = (sums)[2];
    stopped_ = sums[3] > 0;
    figures.seconds = *std::max_element(sums.begin() + before_seconds, sums.end());
    const std::int64_t tokens = options_.batch.global_batch_size * text_.sequence_length();
    figures.tokens_per_second = static_cast<double>(tokens) / figures.seconds;
    return {};
  }

  Result<void> balance(const StepOutcome& outcome, StepFigures& figures) {
    if (options_.experts == 0) return {};
    auto loads = TRY(or_abort(sum_loads(outcome.loads, options_.layers, options_.experts, communicator_)));
    figures.loads = std::move(loads);
    if (options_.balance_speed != 0 && !figures.skipped)
      update_biases(step_, outcome.loads, figures.loads, options_.balance_speed);
    return {};
  }

  Result<void> check(const StepOutcome& outcome, const StepFigures& figures) {
    const std::string hint = "try a lower learning rate; the last checkpoint is as it was";
    // The loss itself is not scaled, so a lower scale would not help.
    if (!std::isfinite(figures.loss))
      return infeasible(fmt::format("loss is {} in step {}", words(figures.loss), figures.step), hint);
    if (figures.skipped) {
      if (loss_scale_.shrink()) return {};
      return infeasible(
          fmt::format("gradients overflow in step {} although the loss scale is at its lowest", figures.step), hint);
    }
    if (!std::isfinite(figures.gradient_norm))
      return infeasible(fmt::format("gradient norm is {} in step {}", words(figures.gradient_norm), figures.step),
                        hint);
    if (!outcome.finite) return infeasible(fmt::format("gradients overflow in step {}", figures.step), hint);
    loss_scale_.keep_or_grow();
    return {};
  }

  Result<void> save() {
    if (options_.checkpoint.folder.empty() || saved_step_ == progress_.step) return {};
    saved_step_ = progress_.step;
    return save_checkpoint(options_.checkpoint, progress_, step_.state(), step_.device(), communicator_);
  }

  // Aborts the job on an error that only this rank has: the other ranks would otherwise wait for it.
  template <class Value>
  Result<Value> or_abort(Result<Value> own) {
    if (!own) communicator_.abort(to_string(own.error()));
    return own;
  }

  TrainingStep& step_;
  Communicator& communicator_;
  const TextSource& text_;
  const TrainingOptions& options_;
  LossScale loss_scale_;
  TrainingProgress progress_;
  std::optional<CheckpointLock> lock_;  // of rank 0
  std::int64_t saved_step_ = 0;
  bool stopped_ = false;  // on all ranks
  model::Timeline timeline_;
};

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

LayerLoad statistics_of(std::int64_t layer, std::vector<double> rows) {
  const double average = mean(rows);
  double squares = 0;
  for (const double row : rows) squares += (row - average) * (row - average);
  LayerLoad load{.layer = layer};
  load.max_violation = *std::max_element(rows.begin(), rows.end()) / average - 1;
  load.variation = std::sqrt(squares / static_cast<double>(rows.size())) / average;
  load.rows = std::move(rows);
  return load;
}

}  // namespace

Result<TrainingResult> train(TrainingStep& step, Communicator& communicator, const TextSource& text,
                             const TrainingOptions& options, const StepObserver& observer) {
  return Trainer(step, communicator, text, options).run(observer);
}

model::Result<std::vector<LayerLoad>> sum_loads(const std::vector<ExpertLoad>& own, std::int64_t layers,
                                                std::int64_t experts, Communicator& communicator) {
  // Every rank sends values for all layers, whichever it holds; those of the prediction module come last.
  std::vector<double> values(static_cast<std::size_t>((layers + 1) * experts));
  for (const ExpertLoad& load : own) {
    if (load.layer < -1 || load.layer >= layers || std::ssize(load.rows) != experts)
      return infeasible(fmt::format("loads of {} experts of layer {}, where the model has {} layers of {} experts",
                                    load.rows.size(), load.layer, layers, experts));
    const std::int64_t first = (load.layer < 0 ? layers : load.layer) * experts;
    for (std::int64_t e = 0; e < experts; ++e)
      values[static_cast<std::size_t>(first + e)] += load.rows[static_cast<std::size_t>(e)];
  }
  auto sums = TRY(communicator.sum(std::move(values)));
  std::vector<LayerLoad> loads;
  for (std::int64_t layer = 0; layer <= layers; ++layer) {
    const auto first = sums.begin() + layer * experts;
    std::vector<double> rows(first, first + experts);
    const bool routed = std::any_of(rows.begin(), rows.end(), [](double row) { return row > 0; });
    if (routed) loads.push_back(statistics_of(layer == layers ? -1 : layer, std::move(rows)));
  }
  return loads;
}

std::vector<float> moved_bias(std::vector<float> bias, const LayerLoad& load, double speed) {
  assert(bias.size() == load.rows.size());
  const double average = mean(load.rows);
  for (std::size_t e = 0; e < bias.size(); ++e) {
    const double missing = average - load.rows[e];
    if (missing != 0) bias[e] += static_cast<float>(std::copysign(speed, missing));
  }
  return bias;
}

void update_biases(TrainingStep& step, const std::vector<ExpertLoad>& own, const std::vector<LayerLoad>& all,
                   double speed) {
  for (const LayerLoad& load : all) {
    const bool held =
        std::any_of(own.begin(), own.end(), [&](const ExpertLoad& part) { return part.layer == load.layer; });
    if (held) step.set_router_bias(load.layer, moved_bias(step.router_bias(load.layer), load, speed));
  }
}

}  // namespace plumbline::real
