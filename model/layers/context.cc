#include "model/layers/context.h"

#include <algorithm>
#include <cmath>

#include "model/routing/served_load.h"

namespace plumbline::model {

// Every rank sends each of its tokens to distinct_ranks_per_token ranks. With as many senders as receivers, each rank
// receives that many per own token on average.
std::int64_t LayerContext::received_tokens() const {
  if (dispatcher == Dispatcher::alltoall || dispatcher == Dispatcher::low_latency) return copied_rows();
  if (dispatcher == Dispatcher::allgather) return stream_tokens() * expert_parallel;
  return std::llround(static_cast<double>(stream_tokens()) * distinct_ranks_per_token);
}

std::int64_t LayerContext::copied_rows() const {
  return std::llround(static_cast<double>(stream_tokens() * architecture.experts.experts_per_token) * kept_rows);
}

std::int64_t LayerContext::expert_rows() const {
  if (shares_tokens()) return std::max<std::int64_t>(1, copied_rows() / expert_parallel);
  return copied_rows() * expert_tensor;
}

double LayerContext::experts_hit() const {
  const MixtureOfExperts& e = architecture.experts;
  const auto group = static_cast<double>(choosing_tokens());
  if (inference.expert_skew > 0)
    return experts_with_rows(e, redundant_experts, inference.expert_skew, group) / static_cast<double>(expert_parallel);
  const auto all = static_cast<double>(e.routed_experts + redundant_experts);
  const double missed = std::pow(1 - static_cast<double>(e.experts_per_token) / all, group);
  return static_cast<double>(experts_per_rank()) * (1 - missed);
}

LayerContext LayerContext::undivided() const {
  LayerContext whole = *this;
  whole.tensor = whole.expert_parallel = whole.expert_tensor = 1;
  whole.sequence = false;
  return whole;
}

}  // namespace plumbline::model
