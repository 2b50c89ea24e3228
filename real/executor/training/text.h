// Sources of training tokens. A sequence is a pure function of the seed and its index, so that the data do not depend
// on how a batch is divided over ranks and micro-batches, nor on whether a run was resumed.
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
  // Returns sequence_length() + 1 token ids, each below the vocabulary: position i predicts the id at i + 1. `index`
  // counts sequences from 0 over all steps. Any thread may call it.
  virtual model::Result<std::vector<std::int32_t>> sequence(std::int64_t index) const = 0;
};

struct TextOptions {
  std::int64_t vocabulary = 0;       // of the model: 2 to 2^24, because floats hold the ids
  std::int64_t sequence_length = 0;  // tokens, at least 1
  std::uint64_t seed = 1;
};

// Returns endless synthetic text that a model can learn. Each token has three likely successors (probabilities 1/2,
// 1/4, 1/8); with 1/8 a new sentence begins with any token, low ids more often (Zipf). The loss of a model that has
// learnt the frequencies is below ln(vocabulary); with the successors it is far below.
model::Result<std::unique_ptr<TextSource>> synthetic_text(const TextOptions& options);

// Returns the bytes of a file as tokens, cut into windows that are shuffled anew for each pass. Input error when the
// vocabulary is below 256 or the file is shorter than a window.
model::Result<std::unique_ptr<TextSource>> file_text(const std::string& path, const TextOptions& options);

}  // namespace plumbline::real
