#include "real/cuda/kernels/kernels.h"
#include "real/cuda/operators/operators.h"

namespace plumbline::real::cuda {
namespace {

constexpr std::int64_t figures = 3;  // per token, if ranks divide the vocabulary (model/graph/operators.def)

Labels labels_of(const Call& call) {
  const auto& a = call.attributes<model::LossAttributes>();
  Labels labels;
  labels.ids = call.in(1).data<std::int32_t>();
  labels.ignored = a.ignored;
  labels.sequence_length = a.sequence_length;
  labels.first = call.kernel.tensor_rank * call.in(0).columns();
  return labels;
}

// Writes partial sums; the loss is computed from all ranks' sums later.
Status write_figures(const Call& call) {
  PLUMBLINE_TRY(outcome(cudaMemsetAsync(call.out(0).view().data, 0, sizeof(float), call.stream), "clearing a loss"));
  return outcome(loss_figures(call.in(0).view(), labels_of(call), call.out(1).data<float>(), call.stream),
                 "the parts of the loss");
}

}  // namespace

Status cross_entropy(const Call& call) {
  if (call.out(1).columns() == figures) {
    if (call.outs() > 2) return {"the logarithms of probabilities need the whole vocabulary on one rank"};
    return write_figures(call);
  }
  const CudaBuffer& logits = call.in(0);
  const Labels labels = labels_of(call);
  float* losses = nullptr;
  PLUMBLINE_TRY(call.take(logits.rows(), losses));
  const TensorView logarithms = call.outs() > 2 ? call.out(2).view() : TensorView{};
  PLUMBLINE_TRY(outcome(token_losses(logits.view(), labels, call.out(1).data<float>(), losses, logarithms, call.stream),
                        "the losses of tokens"));
  return outcome(mean_loss(losses, labels, logits.rows(), call.attributes<model::LossAttributes>().weight,
                           call.out(0).data<float>(), call.stream),
                 "the mean loss");
}

Status cross_entropy_grad(const Call& call) {
  const CudaBuffer& logits = call.in(0);
  const Labels labels = labels_of(call);
  std::int64_t* count = nullptr;
  PLUMBLINE_TRY(call.take(1, count));
  PLUMBLINE_TRY(outcome(count_labeled(labels, logits.rows(), count, call.stream), "counting labels"));
  LossGradient gradient;
  gradient.weight = call.kernel.numbers.loss_scale * call.attributes<model::LossAttributes>().weight;
  gradient.count = count;
  if (call.ins() > 2) {
    gradient.sums = call.in(2).data<float>();
    gradient.stride = call.in(2).columns();
    gradient.are_logarithms = call.in(2).columns() != figures;
  }
  return outcome(loss_gradient(logits.view(), labels, gradient, call.out(0).view(), call.stream),
                 "the gradient of the loss");
}

}  // namespace plumbline::real::cuda
