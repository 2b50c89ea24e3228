// Single kernels: hot and cold samples in turns, or hot ones at full power.
#include <fmt/format.h>

#include <array>
#include <chrono>
#include <cmath>
#include <utility>

#include "real/cuda/kernels/measuring/measuring.h"
#include "real/cuda/measure/case_runner.h"
#include "real/cuda/measure/operation.h"
#include "real/cuda/measure/timing.h"
#include "real/executor/infeasible.h"

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

constexpr std::int64_t cycle_count_ns = 50000;  // long enough for a device clock with ticks of a microsecond

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

model::Result<std::vector<Sample>> CaseRunner::round(std::size_t number) {
  constexpr double micro = 1e-6;
  Times times(findings_.size());
  copy_rate_ = 0;
  if (const Status taken = take(number, times); !taken.ok()) return infeasible(taken.failure);
  std::vector<Sample> samples;
  for (std::size_t subject = 0; subject < times.size(); ++subject) {
    const double rate = subject + 1 == times.size() ? copy_rate_ : 0;
    for (const double time : times[subject]) samples.push_back({subject, time * micro, rate});
  }
  return samples;
}

void CaseRunner::read_clock(cudaStream_t stream, std::size_t subject) {
  ClockReading& into = findings_[subject].clock;
  auto* cycles = tools_.cycles.as<std::int64_t>();
  cycles[0] = cycles[1] = 0;
  if (count_cycles(cycle_count_ns, cycles, stream) != cudaSuccess) cudaGetLastError();
  if (!tools_.nvml) return;
  const std::optional<std::string> before = into.throttle;
  into = tools_.nvml->read();
  if (before && *before != "none" && into.throttle && *into.throttle != *before)
    into.throttle = *into.throttle == "none" ? *before : *before + "|" + *into.throttle;
}

void CaseRunner::finish_clock(std::size_t subject) {
  const auto* cycles = tools_.cycles.as<volatile std::int64_t>();
  if (cycles[1] <= 0) return;
  const double mhz = 1e3 * static_cast<double>(cycles[0]) / static_cast<double>(cycles[1]);
  findings_[subject].clock.sm_mhz = static_cast<int>(std::lround(mhz));
}

Status passed(const CheckOutcome& outcome) {
  if (outcome.ok) return {};
  return {fmt::format("wrong numbers: relative error {:.3g}, tolerance {:.3g}{}{}", outcome.relative_error,
                      outcome.tolerance, outcome.note.empty() ? "" : "; ", outcome.note)};
}

}  // namespace plumbline::real::cuda
