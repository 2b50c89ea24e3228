// AdamW as an operation: FP32 gradients and master weights, BF16 moments and weights.
#include <cmath>
#include <memory>
#include <vector>

#include "real/cuda/kernels/kernels.h"
#include "real/cuda/kernels/measuring/measuring.h"
#include "real/cuda/measure/comparison.h"
#include "real/cuda/measure/operation.h"
#include "real/cuda/measure/transfer.h"

namespace plumbline::real::cuda {
namespace {

constexpr std::uint64_t seed_gradient = 31, seed_master = 32, seed_first = 33, seed_second = 34, seed_runs = 35;
constexpr int sampled_runs = 16;
constexpr std::int64_t run_elements = 256;
// The step is so large that the change of a weight exceeds the rounding of the weight.
constexpr UpdateNumbers parameters = {0.1, 0.9, 0.95, 1e-8, 0.1, 1};

struct Slice {
  std::vector<float> gradient, master;
  std::vector<Bf16> first, second;
};

class Optimizer : public Operation {
 public:
  explicit Optimizer(const KernelCase& what) : elements_(what.elements) {}

  Status prepare(Toolbox& tools) override {
    PLUMBLINE_TRY(gradient_.allocate(elements_ * 4));
    PLUMBLINE_TRY(master_.allocate(elements_ * 4));
    PLUMBLINE_TRY(first_.allocate(elements_ * 2));
    PLUMBLINE_TRY(second_.allocate(elements_ * 2));
    PLUMBLINE_TRY(weight_.allocate(elements_ * 2));
    views_ = {vector(gradient_, Format::fp32), vector(master_, Format::fp32), vector(first_, Format::bf16),
              vector(second_, Format::bf16), vector(weight_, Format::bf16)};
    return fill(tools.stream);
  }

  Status run(cudaStream_t stream) override {
    return outcome(update(update_rule(parameters), views_, nullptr, 0, stream), "adamw");
  }

  Status check(Toolbox& tools, CheckOutcome& result) override {
    PLUMBLINE_TRY(weight_.set(0xff, tools.stream, "poisoning"));
    PLUMBLINE_TRY(outcome(cudaStreamSynchronize(tools.stream), "poisoning the weights"));
    std::vector<std::int64_t> starts;
    std::vector<Slice> before;
    for (const std::int64_t run :
         sampled_indices((elements_ + run_elements - 1) / run_elements, sampled_runs, seed_runs)) {
      starts.push_back(run * run_elements);
      before.emplace_back();
      PLUMBLINE_TRY(read(starts.back(), before.back()));
    }
    PLUMBLINE_TRY(run(tools.stream));
    PLUMBLINE_TRY(outcome(cudaStreamSynchronize(tools.stream), "running adamw"));
    Comparison changes, rounded;
    for (std::size_t i = 0; i < starts.size(); ++i) PLUMBLINE_TRY(compare(starts[i], before[i], changes, rounded));
    result = changes.outcome(fp32_tolerance);
    if (!rounded.outcome(bf16_tolerance).ok) {
      result.ok = false;
      result.note = "the moments or the BF16 weights are wrong";
    }
    return {};
  }

 private:
  TensorView vector(const DeviceMemory& memory, Format format) const {
    return {memory.as<void>(), nullptr, format, elements_, 1, 0};
  }

  Status fill(cudaStream_t stream) {
    PLUMBLINE_TRY(outcome(fill_float(master_.as<float>(), elements_, seed_master, 1.0f, stream), "filling weights"));
    PLUMBLINE_TRY(outcome(fill_float(gradient_.as<float>(), elements_, seed_gradient, 1.0f, stream), "filling"));
    PLUMBLINE_TRY(outcome(fill_bf16(first_.as<Bf16>(), elements_, seed_first, 1.0f, stream), "filling moments"));
    PLUMBLINE_TRY(outcome(fill_second_moment(second_.as<Bf16>(), elements_, seed_second, stream), "filling moments"));
    return outcome(cudaStreamSynchronize(stream), "filling the optimizer's state");
  }

  std::int64_t length(std::int64_t start) const { return std::min(run_elements, elements_ - start); }

  Status read(std::int64_t start, Slice& slice) const {
    PLUMBLINE_TRY(fetch(gradient_.as<float>() + start, length(start), slice.gradient));
    PLUMBLINE_TRY(fetch(master_.as<float>() + start, length(start), slice.master));
    PLUMBLINE_TRY(fetch(first_.as<Bf16>() + start, length(start), slice.first));
    return fetch(second_.as<Bf16>() + start, length(start), slice.second);
  }

  Status compare(std::int64_t start, const Slice& old, Comparison& changes, Comparison& rounded) const {
    Slice now;
    std::vector<Bf16> weight;
    PLUMBLINE_TRY(read(start, now));
    PLUMBLINE_TRY(fetch(weight_.as<Bf16>() + start, length(start), weight));
    const UpdateNumbers& p = parameters;
    const double correction1 = 1 - p.beta1, correction2 = 1 - p.beta2;  // of the first step
    for (std::size_t i = 0; i < now.master.size(); ++i) {
      const double gradient = old.gradient[i], master = old.master[i];
      const double first = p.beta1 * static_cast<double>(bf16_to_float(old.first[i])) + (1.0 - p.beta1) * gradient;
      const double second =
          p.beta2 * static_cast<double>(bf16_to_float(old.second[i])) + (1.0 - p.beta2) * gradient * gradient;
      const double direction = first / correction1 / (std::sqrt(second / correction2) + p.epsilon);
      const double change = -p.learning_rate * (direction + p.weight_decay * master);
      changes.add(static_cast<double>(now.master[i]) - master, change);
      rounded.add(bf16_to_float(now.first[i]), first);
      rounded.add(bf16_to_float(now.second[i]), second);
      rounded.add(bf16_to_float(weight[i]), master + change);
    }
    return {};
  }

  std::int64_t elements_;
  DeviceMemory gradient_, master_, first_, second_, weight_;
  UpdateViews views_;
};

}  // namespace

std::unique_ptr<Operation> make_adamw(const KernelCase& what) { return std::make_unique<Optimizer>(what); }

}  // namespace plumbline::real::cuda
