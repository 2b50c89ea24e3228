#include "real/cuda/kernels/norms.h"

#include <string>

#include "real/cuda/kernels/limits.h"
#include "real/cuda/operators/operators.h"

namespace plumbline::real::cuda {
namespace {

NormForm form_of(const Call& call, bool centered) {
  return {static_cast<float>(call.attributes<model::NormAttributes>().epsilon), centered};
}

// Views x with a row for every part that is normalized separately.
TensorView by_head(TensorView x, std::int64_t heads) {
  x.rows *= heads;
  x.columns /= heads;
  return x;
}

Status check_shape(const Call& call, const TensorView& x) {
  const std::int64_t heads = call.attributes<model::NormAttributes>().heads, width = x.columns / heads;
  if (width > widest_row)
    return {"a norm over " + std::to_string(width) + " columns: at most " + std::to_string(widest_row)};
  if (heads > 1 && x.scales != nullptr && width % scale_tile != 0) return {"a norm of heads that share scales"};
  return {};
}

Status forward(const Call& call, bool centered) {
  const TensorView x = call.in(0).view();
  const std::int64_t heads = call.attributes<model::NormAttributes>().heads;
  PLUMBLINE_TRY(check_shape(call, x));
  PLUMBLINE_TRY(fit(call.out(0), x.rows));
  const TensorView y = call.out(0).view(), beta = call.ins() > 2 ? call.in(2).view() : TensorView{};
  return outcome(
      norm(by_head(x, heads), call.in(1).view(), beta, by_head(y, heads), form_of(call, centered), call.stream),
      "launching a norm");
}

Status backward(const Call& call, bool centered) {
  const std::int64_t heads = call.attributes<model::NormAttributes>().heads;
  const TensorView dy = by_head(call.in(0).view(), heads), x = by_head(call.in(1).view(), heads);
  PLUMBLINE_TRY(check_shape(call, call.in(1).view()));
  PLUMBLINE_TRY(fit(call.out(0), call.in(1).rows()));
  const TensorView dx = by_head(call.out(0).view(), heads), dgamma = call.out(1).view();
  const TensorView dbeta = call.outs() > 2 ? call.out(2).view() : TensorView{};
  const NormForm form = form_of(call, centered);
  const int sms = call.machine.sms();
  void* scratch = nullptr;
  PLUMBLINE_TRY(call.machine.scratch.take(call.stream, norm_grad_scratch(x, form, sms), scratch));
  return outcome(
      norm_grad(dy, x, call.in(2).view(), dx, dgamma, dbeta, form, static_cast<float*>(scratch), sms, call.stream),
      "launching the gradient of a norm");
}

}  // namespace

Status rmsnorm(const Call& call) { return forward(call, false); }
Status rmsnorm_grad(const Call& call) { return backward(call, false); }
Status layernorm(const Call& call) { return forward(call, true); }
Status layernorm_grad(const Call& call) { return backward(call, true); }

}  // namespace plumbline::real::cuda
