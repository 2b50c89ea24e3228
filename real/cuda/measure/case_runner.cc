#include "real/cuda/measure/case_runner.h"

#include <fmt/format.h>

#include <cmath>

#include "real/cuda/kernels/measuring/measuring.h"
#include "real/executor/infeasible.h"

namespace plumbline::real::cuda {
namespace {

constexpr std::int64_t cycle_count_ns = 50000;  // long enough for a device clock with ticks of a microsecond

}  // namespace

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
