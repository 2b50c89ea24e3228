// What measured steps and deployments have in common in JSON.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "model/result/measured_step.h"
#include "reports/json/detail/fields.h"

namespace plumbline::reports {

// Shares of runs are written in percent.
inline constexpr double hundred = 100;

inline auto causes_of(const model::MeasuredStep& measured, const char* time, const char* meaning) {
  return List(measured.causes, [time, meaning](auto& to, const model::MeasuredCause& one) {
    to("cause", "a source of the uncertainty, or a key of the plan", one.name);
    to(time, meaning, one.time_s);
    to("reaches", "whether that is as far as the measured one", one.reaches);
    to("try", "what would show it: a measurement, or an option", unless_empty(one.remedy));
  });
}

// Of a deployment there is no lower bound, below which a measurement would be impossible.
inline Word verdict_of(const model::MeasuredStep& measured, bool bounded) {
  std::vector<std::string_view> words = {"as-predicted", "slower", "faster", "impossible"};
  const std::string_view word = words[static_cast<std::size_t>(measured.verdict)];
  if (!bounded) words.pop_back();
  return {word, words};
}

}  // namespace plumbline::reports
