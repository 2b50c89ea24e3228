// Where tokens come from. A sequence is a pure function of the seed and its number, so that every division of a batch
// over ranks and micro-batches, and a run that was resumed, sees the same data.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "model/base/error.h"

namespace plumbline::real {

class TextSource {
 public:
  virtual ~TextSource() = default;

  virtual std::int64_t sequence_length() const = 0;
  // sequence_length() + 1 token ids, each below the vocabulary: position i predicts the id at i + 1. index counts
  // sequences from 0 over all steps. Any thread may call.
  virtual model::Result<std::vector<std::int32_t>> sequence(std::int64_t index) const = 0;
};

struct TextOptions {
  std::int64_t vocabulary = 0;       // of the model: 2 to 2^24, because ids travel as floats
  std::int64_t sequence_length = 0;  // tokens, at least 1
  std::uint64_t seed = 1;
};

// Endless made-up text that can be learnt: each token has three likely successors (1/2, 1/4, 1/8), and with 1/8 a new
// sentence begins with any token, low ids more often (Zipf). A model that has learnt the frequencies is below
// ln(vocabulary), one that has learnt the successors far below.
model::Result<std::unique_ptr<TextSource>> synthetic_text(const TextOptions& options);

// The bytes of a file as tokens, cut into windows that are read in another order in each pass. Input error when the
// vocabulary cannot name 256 bytes or the file holds no whole window.
model::Result<std::unique_ptr<TextSource>> file_text(const std::string& path, const TextOptions& options);

}  // namespace plumbline::real
