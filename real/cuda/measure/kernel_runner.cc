// Single kernels: hot and cold samples in turns, or hot ones at full power.
#include <array>
#include <chrono>
#include <utility>

#include "real/cuda/measure/case_runner.h"
#include "real/cuda/measure/operation.h"
#include "real/cuda/measure/timing.h"

namespace plumbline::real::cuda {
namespace {

class KernelRunner final : public OperationRunner {
 public:
  using OperationRunner::OperationRunner;

  Status prepare() override {
    PLUMBLINE_TRY(prepare_operation(tools_.stream, "timed with events"));
    findings_.front().note = "timed with " + sampled_.method();
    return {};
  }

 protected:
  Status take(std::size_t round, Times& times) override {
    if (what_.soak > 0 && round == 0) return soak();
    PLUMBLINE_TRY(sampled_.hot(samples_, tools_.stream, times[0], [this] { read_clock(tools_.stream, 0); }));
    finish_clock(0);
    if (times.size() == 1) return {};
    findings_[1].clock = findings_[0].clock;
    return sample_cold(sampled_.work(), samples_, tools_, times[1]);
  }

 private:
  // Runs back to back, with occasional waits that keep the queue short.
  Status soak() const {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(what_.soak);
    std::vector<double> discarded;
    while (std::chrono::steady_clock::now() < end) {
      PLUMBLINE_TRY(sampled_.hot(20, tools_.stream, discarded));
      discarded.clear();
    }
    return {};
  }
};

}  // namespace

Status OperationRunner::prepare_operation(cudaStream_t stream, const std::string& note) {
  operation_ = make_operation(what_);
  PLUMBLINE_TRY(operation_->prepare(tools_));
  CheckOutcome check;
  PLUMBLINE_TRY(operation_->check(tools_, check));
  PLUMBLINE_TRY(passed(check));
  PLUMBLINE_TRY(sampled_.prepare([this](cudaStream_t on) { return operation_->run(on); }, stream));
  for (Findings& each : findings_) {
    each.check = check;
    each.algorithm = operation_->algorithm();
    each.note = note;
  }
  return {};
}

std::unique_ptr<Operation> make_operation(const KernelCase& what) {
  using Make = std::unique_ptr<Operation> (*)(const KernelCase&);
  static constexpr std::array<std::pair<const char*, Make>, 8> makers = {{{"attention", make_attention},
                                                                          {"cached_attention", make_cached_attention},
                                                                          {"gemm", make_gemm},
                                                                          {"rmsnorm", make_rmsnorm},
                                                                          {"swiglu", make_swiglu},
                                                                          {"quantise", make_quantize},
                                                                          {"permute", make_permute},
                                                                          {"adamw", make_adamw}}};
  for (const auto& [name, make] : makers)
    if (what.operation() == name) return make(what);
  return nullptr;
}

std::unique_ptr<CaseRunner> make_kernel_runner(const KernelCase& what, Toolbox& tools, int samples) {
  return std::make_unique<KernelRunner>(what, tools, samples);
}

}  // namespace plumbline::real::cuda
