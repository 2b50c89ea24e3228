#include "real/executor/training/prefetch.h"

#include <cstddef>
#include <exception>
#include <utility>

#include "real/executor/infeasible.h"

namespace plumbline::real {

Prefetcher::Prefetcher(const TextSource& text, std::vector<MicroBatchPlace> places, BatchShape shape,
                       std::int64_t first_sequence, bool thread)
    : text_(text),
      places_(std::move(places)),
      shape_(shape),
      next_sequence_(first_sequence),
      policy_(thread ? std::launch::async : std::launch::deferred) {}

Prefetcher::~Prefetcher() { stop_.request_stop(); }

void Prefetcher::start() {
  pending_ = std::async(policy_, [this, first = next_sequence_] { return make(first); });
}

model::Result<std::vector<MicroBatch>> Prefetcher::next() {
  try {
    if (!pending_.valid()) start();
    Batches batches = pending_.get();
    if (!batches) return batches;
    next_sequence_ += shape_.global_batch_size;
    start();
    return batches;
  } catch (const std::exception& failure) {  // out of memory or threads
    return infeasible(std::string("cannot prepare the next batch: ") + failure.what());
  }
}

Prefetcher::Batches Prefetcher::make(std::int64_t first_sequence) const {
  std::vector<MicroBatch> batches;
  batches.reserve(places_.size());
  const auto tokens = static_cast<std::size_t>(shape_.micro_batch_size * text_.sequence_length());
  for (const MicroBatchPlace& place : places_) {
    MicroBatch batch{.place = place};
    batch.token_ids.reserve(tokens);
    batch.labels.reserve(tokens);
    for (std::int64_t i = 0; i < shape_.micro_batch_size; ++i) {
      if (stop_.stop_requested()) return batches;  // the prefetcher is being destroyed
      const auto ids = TRY(text_.sequence(first_sequence + place.first_sequence + i));
      for (std::size_t t = 0; t + 1 < ids.size(); ++t) {
        batch.token_ids.push_back(static_cast<float>((ids)[t]));
        batch.labels.push_back(static_cast<float>((ids)[t + 1]));
      }
    }
    batches.push_back(std::move(batch));
  }
  return batches;
}

}  // namespace plumbline::real
