#include "real/cuda/kernels/activations.h"

#include <string>

#include "real/cuda/kernels/attention/softmax.h"
#include "real/cuda/kernels/limits.h"
#include "real/cuda/operators/operators.h"

namespace plumbline::real::cuda {

Status swiglu(const Call& call) {
  PLUMBLINE_TRY(fit(call.out(0), call.in(0).rows()));
  const TensorView weights = call.ins() > 1 ? call.in(1).view() : TensorView{};
  return outcome(swiglu(call.in(0).view(), weights, call.out(0).view(), call.stream), "launching SwiGLU");
}

Status swiglu_grad(const Call& call) {
  const std::int64_t rows = call.in(1).rows();
  PLUMBLINE_TRY(fit(call.out(0), rows));
  if (call.outs() > 1) PLUMBLINE_TRY(fit(call.out(1), rows));
  const TensorView weights = call.ins() > 2 ? call.in(2).view() : TensorView{};
  const TensorView d_weights = call.outs() > 1 ? call.out(1).view() : TensorView{};
  return outcome(swiglu_grad(call.in(0).view(), call.in(1).view(), weights, call.out(0).view(), d_weights, call.stream),
                 "launching the gradient of SwiGLU");
}

Status gelu(const Call& call) {
  PLUMBLINE_TRY(fit(call.out(0), call.in(0).rows()));
  return outcome(gelu(call.in(0).view(), call.out(0).view(), call.stream), "launching GELU");
}

Status gelu_grad(const Call& call) {
  PLUMBLINE_TRY(fit(call.out(0), call.in(1).rows()));
  return outcome(gelu_grad(call.in(0).view(), call.in(1).view(), call.out(0).view(), call.stream),
                 "launching the gradient of GELU");
}

namespace {

SoftmaxForm form_of(const Call& call) {
  const auto& a = call.attributes<model::AttentionAttributes>();
  return {a.query_heads, a.sequence_length, a.window, a.alibi};
}

Status check_length(const SoftmaxForm& form) {
  if (form.sequence_length <= widest_row) return {};
  return {"a softmax over stored scores of " + std::to_string(form.sequence_length) + " keys: at most " +
          std::to_string(widest_row)};
}

}  // namespace

Status softmax(const Call& call) {
  const SoftmaxForm form = form_of(call);
  PLUMBLINE_TRY(check_length(form));
  PLUMBLINE_TRY(fit(call.out(0), call.in(0).rows()));
  return outcome(softmax(call.in(0).view(), call.out(0).view(), form, call.stream), "launching a softmax");
}

Status softmax_grad(const Call& call) {
  const SoftmaxForm form = form_of(call);
  PLUMBLINE_TRY(check_length(form));
  PLUMBLINE_TRY(fit(call.out(0), call.in(1).rows()));
  return outcome(softmax_grad(call.in(0).view(), call.in(1).view(), call.out(0).view(), form, call.stream),
                 "launching the gradient of a softmax");
}

}  // namespace plumbline::real::cuda
