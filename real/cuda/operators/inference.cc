#include "real/cuda/kernels/inference/inference.h"

#include "model/base/random.h"
#include "real/cuda/operators/operators.h"

namespace plumbline::real::cuda {
namespace {

// Quantized tensors are read, but written by casts alone.
Status check_written(const Call& call) {
  for (std::size_t i = 0; i < call.outs(); ++i)
    if (!is_float(call.out(i).view().format)) return {"keys, values and activations are written in 16 or 32 bits"};
  return {};
}

NewTokens new_tokens(const CudaBuffer& lengths, const CudaBuffer& rows) {
  return {lengths.data<const std::int32_t>(), lengths.elements(), rows.rows() / lengths.elements()};
}

}  // namespace

Status append_cache(const Call& call) {
  PLUMBLINE_TRY(check_written(call));
  std::int64_t column = 0;
  for (std::size_t i = 1; i < call.ins(); ++i) {
    const bool apart = call.outs() > 1;
    PLUMBLINE_TRY(outcome(append_rows(new_tokens(call.in(0), call.in(i)), call.in(i).view(),
                                      call.out(apart ? i - 1 : 0).view(), apart ? 0 : column, call.stream),
                          "appending to a cache"));
    column += call.in(i).columns();
  }
  return {};
}

Status gather_cache(const Call& call) { return split(call); }

Status cached_attention(const Call& call) {
  const auto& a = call.attributes<model::CachedAttentionAttributes>();
  PLUMBLINE_TRY(check_written(call));
  const CachedAttentionTask task{call.in(0).view(),
                                 call.in(2).view(),
                                 call.in(a.latent ? 2 : 3).view(),
                                 call.out(0).view(),
                                 new_tokens(call.in(1), call.in(0)),
                                 a.query_heads,
                                 a.key_value_heads,
                                 a.query_key_dim,
                                 a.value_dim,
                                 a.window,
                                 static_cast<float>(a.scale),
                                 a.alibi};
  return outcome(cached_attention(task, call.stream), "attention over a cache");
}

Status head_matmul(const Call& call) {
  const auto& a = call.attributes<model::HeadMatmulAttributes>();
  PLUMBLINE_TRY(check_written(call));
  return outcome(head_matmul(call.in(0).view(), call.in(1).view(), call.out(0).view(), a.heads, a.copied, call.stream),
                 "the GEMMs of heads");
}

Status last_tokens(const Call& call) {
  PLUMBLINE_TRY(check_written(call));
  const std::int64_t fresh = call.in(0).rows() / call.out(0).rows();
  return outcome(last_rows(call.in(0).view(), fresh, call.out(0).view(), call.stream), "taking the last tokens");
}

Status sample(const Call& call) {
  const StepNumbers& numbers = call.kernel.numbers;
  const SampleRule rule{static_cast<float>(numbers.temperature),
                        model::mixed(numbers.seed + model::mixed(static_cast<std::uint64_t>(numbers.step))),
                        numbers.first_request};
  return outcome(sample(call.in(0).view(), rule, call.out(0).data<std::int32_t>(), call.out(0).elements(), call.stream),
                 "sampling");
}

}  // namespace plumbline::real::cuda
