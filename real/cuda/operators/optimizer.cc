#include "real/cuda/kernels/kernels.h"
#include "real/cuda/operators/operators.h"

namespace plumbline::real::cuda {

Status sum_of_squares(const Call& call) {
  std::int64_t blocks = 0;
  for (std::size_t i = 0; i < call.ins(); ++i) blocks += sum_blocks(call.in(i).elements());
  double* partial = nullptr;
  PLUMBLINE_TRY(call.take(blocks, partial));
  std::int64_t next = 0;
  for (std::size_t i = 0; i < call.ins(); ++i) {
    const double weight = call.kernel.weights.empty() ? 1 : call.kernel.weights[i];
    PLUMBLINE_TRY(outcome(squares(call.in(i).view(), weight, partial + next, call.stream), "squaring gradients"));
    next += sum_blocks(call.in(i).elements());
  }
  return outcome(add_partial(partial, blocks, call.out(0).data<float>(), call.stream), "adding squares");
}

Status unscale(const Call& call) {
  const float* const scale = call.in(call.ins() - 1).data<float>();
  float* const found = call.out(call.outs() - 1).data<float>();
  PLUMBLINE_TRY(outcome(cudaMemsetAsync(found, 0, sizeof(float), call.stream), "clearing a number"));
  for (std::size_t i = 0; i + 1 < call.ins(); ++i)
    PLUMBLINE_TRY(outcome(divide(call.in(i).view(), scale, call.out(i).view(), found, call.stream),
                          "dividing gradients by the scale of the loss"));
  return {};
}

Status adamw(const Call& call) {
  const auto& a = call.attributes<model::AdamwAttributes>();
  const StepNumbers& numbers = call.kernel.numbers;
  const double rate = numbers.learning_rate >= 0 ? numbers.learning_rate : a.learning_rate;
  const bool has_master = call.outs() == 4;
  for (std::size_t i = 0; i < call.outs(); ++i)
    if (!is_float(call.out(i).format())) return {"optimizers hold parameters in FP32, BF16 or FP16"};
  UpdateViews views;
  views.gradient = call.in(0).view();
  views.master = call.out(has_master ? 1 : 0).view();
  views.first = call.out(call.outs() - 2).view();
  views.second = call.out(call.outs() - 1).view();
  if (has_master) views.weight = call.out(0).view();
  const UpdateRule rule = update_rule({rate, a.beta1, a.beta2, a.epsilon, a.weight_decay, numbers.step});
  const float* const squares_of_all = call.ins() > 1 ? call.in(1).data<float>() : nullptr;
  return outcome(update(rule, views, squares_of_all, a.largest_norm, call.stream), "the update of parameters");
}

}  // namespace plumbline::real::cuda
