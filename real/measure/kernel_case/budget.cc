#include "real/measure/kernel_case/budget.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

namespace plumbline::real {
namespace {

// The correction is a moving average in which the newest case counts a quarter, within limits against odd cases.
constexpr double weight = 0.25, least_correction = 0.2, most_correction = 10;
// The seconds of a case for allocating, filling and checking, and those for each byte (assumed).
constexpr double overhead_seconds = 0.1, setup_seconds_per_byte = 1.0 / 200e9;
constexpr double attention_seconds = 1.5;  // the library compiles one plan per new shape, two for gradients

}  // namespace

std::optional<double> parse_duration(const std::string& text) {
  if (text.empty() || !(text[0] >= '0' && text[0] <= '9')) return std::nullopt;
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  const std::string unit = end;
  const double factor = unit.empty() || unit == "s" ? 1 : unit == "m" ? 60 : unit == "h" ? 3600 : 0;
  if (number * factor <= 0 || number * factor > 1e7) return std::nullopt;
  return number * factor;
}

double estimated_seconds(const KernelCase& value, double floor_s, int samples) {
  const std::vector<Subject> subjects = subjects_of(value);
  const double runs = static_cast<double>(subjects.size()) * (samples + 5);
  const double plans = value.operation() == "attention" ? attention_seconds : 0;
  const double bytes = is_collective(value) ? 0 : subjects.front().bytes;
  return overhead_seconds + plans + static_cast<double>(value.soak) + 2 * std::max(floor_s, 0.0) * runs +
         setup_seconds_per_byte * bytes;
}

std::size_t rounds_of(const KernelCase& value) {
  constexpr std::size_t turns = 5;
  return value.soak > 0 ? 1 : turns;
}

Budget::Budget(std::optional<double> seconds, std::function<double()> clock)
    : seconds_(seconds), clock_(std::move(clock)), start_(clock_()) {}

bool Budget::fits(double estimate) const {
  const std::optional<double> rest = left();
  return !rest || estimate * correction_ <= *rest;
}

void Budget::spent(double estimate, double seconds) {
  if (estimate <= 0) return;
  const double corrected = (1 - weight) * correction_ + weight * seconds / estimate;
  correction_ = std::clamp(corrected, least_correction, most_correction);
}

double Budget::elapsed() const { return clock_() - start_; }

std::optional<double> Budget::left() const {
  if (!seconds_) return std::nullopt;
  return *seconds_ - elapsed();
}

}  // namespace plumbline::real
