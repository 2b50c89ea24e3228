#include "model/layers/context.h"

#include <cmath>

namespace plumbline::model {

// Every rank sends each of its tokens to distinct_ranks_per_token ranks. With as many senders as receivers, each rank
// receives that many per own token on average.
std::int64_t LayerContext::received_tokens() const {
  if (dispatcher == Dispatcher::alltoall) return copied_rows();
  if (dispatcher == Dispatcher::allgather) return stream_tokens() * expert_parallel;
  return std::llround(static_cast<double>(stream_tokens()) * distinct_ranks_per_token);
}

std::int64_t LayerContext::copied_rows() const {
  return std::llround(static_cast<double>(stream_tokens() * architecture.experts.experts_per_token) * kept_rows);
}

std::int64_t LayerContext::expert_rows() const { return copied_rows() * expert_tensor; }

LayerContext LayerContext::undivided() const {
  LayerContext whole = *this;
  whole.tensor = whole.expert_parallel = whole.expert_tensor = 1;
  whole.sequence = false;
  return whole;
}

}  // namespace plumbline::model
