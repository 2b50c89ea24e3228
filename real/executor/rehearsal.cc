#include "real/executor/rehearsal.h"

#include <limits>
#include <utility>

#include "real/executor/prefetch.h"

namespace plumbline::real {

model::Result<TrainingResult> rehearse(TrainingStep& step, const TextSource& text, const TrainingOptions& options,
                                       const StepObserver& observer) {
  constexpr double unknown = std::numeric_limits<double>::quiet_NaN();
  Prefetcher batches(text, step.places(), options.batch, 0, options.prefetch_thread);
  const double parts =
      static_cast<double>(options.batch.global_batch_size) / static_cast<double>(options.batch.micro_batch_size);
  TrainingResult result;
  while (result.progress.step < options.steps) {
    const auto micro_batches = batches.next();
    if (!micro_batches) return tl::unexpected(micro_batches.error());
    auto outcome =
        step.run(*micro_batches,
                 {.step = result.progress.step + 1, .loss_scale = 1 / parts, .learning_rate = options.learning_rate});
    if (!outcome) return tl::unexpected(outcome.error());
    ++result.progress.step;
    result.losses.push_back(unknown);
    result.gradient_norms.push_back(unknown);
    result.seconds.push_back(outcome->seconds);
    if (observer)
      observer({.step = result.progress.step,
                .loss = unknown,
                .gradient_norm = unknown,
                .seconds = outcome->seconds,
                .tokens_per_second = unknown});
    result.timeline = std::move(outcome->timeline);
  }
  return result;
}

}  // namespace plumbline::real
