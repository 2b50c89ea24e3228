// Time that may be spent. Cases come in order of value; one that would run past the end is passed over.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>

#include "real/measure/kernel_case/kernel_case.h"

namespace plumbline::real {

// "8m", "90s", "1.5h" or plain seconds; nullopt for anything else, for zero and for negative times.
std::optional<double> parse_duration(const std::string& text);

// Seconds that measuring a case takes on a device on which no run of it is shorter than `floor_s`, or that cannot run
// it (a negative floor): allocation and checking, then the samples of every variant at twice that time. A guess that
// Budget corrects by what the cases really took.
double estimated_seconds(const KernelCase& value, double floor_s, int samples);

// In how many rounds a case is measured: hot and cold samples take turns, as do those alone and beside a copy. What is
// soaked first is sampled in one go, since a pause would let the chip cool.
std::size_t rounds_of(const KernelCase& value);

class Budget {
 public:
  // `seconds` from now on; none: no limit. `clock` returns seconds on any steady scale.
  Budget(std::optional<double> seconds, std::function<double()> clock);

  // Whether a case estimated at `estimate` seconds still fits.
  bool fits(double estimate) const;
  // Tells what a case took, estimated and measured, so that later estimates are corrected.
  void spent(double estimate, double seconds);
  double elapsed() const;
  // Seconds until the end; nullopt without a limit.
  std::optional<double> left() const;

 private:
  std::optional<double> seconds_;
  std::function<double()> clock_;
  double start_ = 0;
  double correction_ = 1;  // measured over estimated time, smoothed
};

}  // namespace plumbline::real
