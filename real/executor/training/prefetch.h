// Makes the micro-batches of a rank, step by step; a thread makes those of the next step while a step runs.
#pragma once

#include <cstdint>
#include <future>
#include <stop_token>
#include <vector>

#include "model/base/error.h"
#include "real/executor/training/text.h"
#include "real/executor/training/training_step.h"

namespace plumbline::real {

struct BatchShape {
  std::int64_t micro_batch_size = 1;   // sequences
  std::int64_t global_batch_size = 1;  // sequences per step over all ranks
};

class Prefetcher {
 public:
  // The first step begins with sequence `first_sequence` of the text. Without `thread`, next() makes its micro-batches
  // itself. The text must outlive the prefetcher.
  Prefetcher(const TextSource& text, std::vector<MicroBatchPlace> places, BatchShape shape, std::int64_t first_sequence,
             bool thread);
  ~Prefetcher();  // waits for the sequence that is being made
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  // Returns the next step's micro-batches, in the order of places. Errors: the text's; infeasible when memory or
  // threads are missing. After an error of the text the next call retries the same step.
  model::Result<std::vector<MicroBatch>> next();

 private:
  using Batches = model::Result<std::vector<MicroBatch>>;
  Batches make(std::int64_t first_sequence) const;
  void start();

  const TextSource& text_;
  std::vector<MicroBatchPlace> places_;
  BatchShape shape_;
  std::int64_t next_sequence_;  // first sequence of the step that next() returns
  std::launch policy_;
  std::stop_source stop_;
  std::future<Batches> pending_;  // last: its destructor waits for a thread that uses the others
};

}  // namespace plumbline::real
