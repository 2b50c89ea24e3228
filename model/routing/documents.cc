#include "model/routing/documents.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "model/base/random.h"
#include "model/routing/files.h"

namespace plumbline::model {
namespace {

bool packed(const Plan& plan) { return plan.batch.document_length || plan.batch.document_lengths; }

// Draws documents one after the other.
class Documents {
 public:
  Documents(const Plan& plan, std::uint64_t seed) : random_(seed), sequence_(plan.batch.sequence_length) {
    if (plan.files != nullptr) lengths_ = &plan.files->document_lengths;
    const bool listed = lengths_ != nullptr && !lengths_->empty();
    if (!listed) lengths_ = nullptr;
    mean_ = plan.batch.document_length.value_or(1);
    if (listed)
      mean_ = plan.batch.document_length ? *plan.batch.document_length * static_cast<double>(lengths_->size()) /
                                               std::accumulate(lengths_->begin(), lengths_->end(), 0.0)
                                         : 1;
    const double usual =
        listed ? std::accumulate(lengths_->begin(), lengths_->end(), 0.0) / static_cast<double>(lengths_->size()) : 1;
    average_ = std::max(1.0, usual * mean_);
  }

  // Returns the sum over the tokens of some sequences of the length of their document, over the number of tokens.
  double mean_length(std::int64_t sequences) {
    // So many documents leave chance less than a thousandth, and short ones in long sequences would take hours.
    constexpr double most_documents = 1 << 24;
    const double tokens = std::min(static_cast<double>(sequence_), most_documents * average_);
    const double most_sequences = most_documents * average_ / tokens;
    if (most_sequences < static_cast<double>(sequences)) sequences = static_cast<std::int64_t>(most_sequences);
    double squares = 0, left = 0;
    for (std::int64_t i = 0; i < sequences; ++i) {
      for (double used = 0; used < tokens;) {
        if (left < 1) left = next();
        const double part = std::min(left, tokens - used);
        squares += part * part;
        used += part;
        left -= part;
      }
    }
    return squares / (tokens * static_cast<double>(sequences));
  }

 private:
  double next() {
    const double length =
        lengths_ != nullptr ? (*lengths_)[random_.next() % lengths_->size()] : -std::log(random_.uniform());
    return std::max(1.0, std::round(length * mean_));
  }

  Random random_;
  std::int64_t sequence_;
  const std::vector<double>* lengths_ = nullptr;
  double mean_ = 1;     // factor on a length of the file, or mean of the distribution
  double average_ = 1;  // tokens of a document
};

}  // namespace

double document_tokens(const Plan& plan) {
  if (!packed(plan)) return 0;
  constexpr std::int64_t sequences = 4096;
  constexpr std::uint64_t seed = 20250505;
  return Documents(plan, seed).mean_length(sequences);
}

double document_attention(const Plan& plan, double expected_tokens, std::uint64_t seed) {
  if (!packed(plan)) return 1;
  return Documents(plan, seed).mean_length(plan.batch.micro_batch_size) / expected_tokens;
}

}  // namespace plumbline::model
