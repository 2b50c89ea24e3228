#include "real/cuda/kernels/rotary.h"

#include "real/cuda/operators/operators.h"

namespace plumbline::real::cuda {
namespace {

Status rotate(const Call& call, float direction) {
  const auto& a = call.attributes<model::RotaryAttributes>();
  PLUMBLINE_TRY(fit(call.out(0), call.in(0).rows()));
  const RotaryForm form{a.heads,
                        a.head_dim,
                        a.rope_dim,
                        a.sequence_length,
                        a.theta,
                        direction,
                        call.ins() > 1 ? call.in(1).data<const std::int32_t>() : nullptr};
  return outcome(rotary(call.in(0).view(), call.out(0).view(), form, call.stream), "launching a rotation");
}

}  // namespace

Status rotary(const Call& call) { return rotate(call, 1.0f); }
Status rotary_grad(const Call& call) { return rotate(call, -1.0f); }

}  // namespace plumbline::real::cuda
