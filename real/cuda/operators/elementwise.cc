#include <string>

#include "real/cuda/kernels/attention/attention.h"
#include "real/cuda/kernels/kernels.h"
#include "real/cuda/kernels/limits.h"
#include "real/cuda/operators/operators.h"

namespace plumbline::real::cuda {
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

Status cast(const Call& call) {
  PLUMBLINE_TRY(fit(call.out(0), call.in(0).rows()));
  return outcome(cast(call.in(0).view(), call.out(0).view(), call.stream), "launching a cast");
}

// Each launch adds as many addends as a kernel takes; further launches add the rest to the sum so far.
Status add(const Call& call) {
  PLUMBLINE_TRY(fit(call.out(0), call.in(0).rows()));
  const TensorView sum = call.out(0).view();
  for (std::size_t next = 0; next < call.ins();) {
    Addends addends;
    if (next > 0) addends.view[addends.count++] = sum;
    while (next < call.ins() && addends.count < most_addends) addends.view[addends.count++] = call.in(next++).view();
    PLUMBLINE_TRY(outcome(add(addends, sum, call.stream), "launching a sum"));
  }
  return {};
}

Status add_bias(const Call& call) {
  PLUMBLINE_TRY(fit(call.out(0), call.in(0).rows()));
  return outcome(add_bias(call.in(0).view(), call.in(1).view(), call.out(0).view(), call.stream),
                 "launching the sum with a bias");
}

Status column_sum(const Call& call) {
  const TensorView dy = call.in(0).view();
  const int sms = call.machine.sms();
  void* scratch = nullptr;
  PLUMBLINE_TRY(call.machine.scratch.take(call.stream, column_sum_scratch(dy, sms), scratch));
  return outcome(column_sum(dy, call.out(0).view(), static_cast<float*>(scratch), sms, call.stream),
                 "launching a sum over rows");
}

Status sigmoid_gate(const Call& call) {
  PLUMBLINE_TRY(fit(call.out(0), call.in(0).rows()));
  return outcome(sigmoid_gate(call.in(0).view(), call.in(1).view(), call.out(0).view(), call.stream),
                 "launching a gate");
}

Status sigmoid_gate_grad(const Call& call) {
  PLUMBLINE_TRY(fit(call.out(0), call.in(1).rows()));
  PLUMBLINE_TRY(fit(call.out(1), call.in(1).rows()));
  return outcome(sigmoid_gate_grad(call.in(0).view(), call.in(1).view(), call.in(2).view(), call.out(0).view(),
                                   call.out(1).view(), call.stream),
                 "launching the gradient of a gate");
}

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

Status rmsnorm(const Call& call) { return forward(call, false); }
Status rmsnorm_grad(const Call& call) { return backward(call, false); }
Status layernorm(const Call& call) { return forward(call, true); }
Status layernorm_grad(const Call& call) { return backward(call, true); }

Status rotary(const Call& call) { return rotate(call, 1.0f); }
Status rotary_grad(const Call& call) { return rotate(call, -1.0f); }

}  // namespace plumbline::real::cuda
