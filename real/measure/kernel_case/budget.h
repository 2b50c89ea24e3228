// The time budget of a sweep. Cases come in order of value; a case that would exceed the budget is skipped.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>

#include "real/measure/kernel_case/kernel_case.h"

namespace plumbline::real {

// Parses "8m", "90s", "1.5h" or plain seconds to seconds; nullopt for anything else, for zero and for negative times.
std::optional<double> parse_duration(const std::string& text);

// Estimates the seconds that measuring a case takes: allocation and checking, then the samples of every variant at
// twice `floor_s`. `floor_s` is a lower bound of one run on the device, in seconds; negative where it cannot run it.
// Budget corrects the estimate by the times that cases really took.
double estimated_seconds(const KernelCase& value, double floor_s, int samples);

// Returns in how many rounds a case is measured. Hot and cold samples alternate, as do samples alone and overlapped
// with a copy. A case with a soak is sampled in one round, since the GPU would cool during a pause.
std::size_t rounds_of(const KernelCase& value);

class Budget {
 public:
  // The budget lasts for `seconds` from now on; nullopt: no limit. `clock` returns seconds of any steady clock.
  Budget(std::optional<double> seconds, std::function<double()> clock);

  // Returns whether a case estimated at `estimate` seconds still fits.
  bool fits(double estimate) const;
  // Records the estimated and the measured seconds of a case, which correct later estimates.
  void spent(double estimate, double seconds);
  double elapsed() const;
  // Returns the seconds until the end; nullopt without a limit.
  std::optional<double> left() const;

 private:
  std::optional<double> seconds_;
  std::function<double()> clock_;
  double start_ = 0;
  double correction_ = 1;  // measured over estimated time, smoothed
};

}  // namespace plumbline::real
