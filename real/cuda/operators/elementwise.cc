#include "real/cuda/kernels/cast.h"
#include "real/cuda/kernels/column_sums.h"
#include "real/cuda/kernels/sums.h"
#include "real/cuda/operators/operators.h"

namespace plumbline::real::cuda {

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

}  // namespace plumbline::real::cuda
