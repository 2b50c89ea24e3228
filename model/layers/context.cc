#include "model/layers/context.h"

#include <cmath>

namespace plumbline::model {

// Every rank sends each of its tokens to distinct_ranks_per_token ranks; with as many senders as
// receivers each receives that many per own token on average.
std::int64_t LayerContext::received_tokens() const {
  return std::llround(static_cast<double>(tokens) * distinct_ranks_per_token);
}

std::int64_t LayerContext::expert_rows() const { return tokens * architecture.experts.experts_per_token; }

}  // namespace plumbline::model
