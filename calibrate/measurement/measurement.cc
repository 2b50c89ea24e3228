#include "calibrate/measurement/measurement.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

namespace plumbline::calibrate {

double extent_of(const Measurement& measurement, std::string_view name) {
  const auto found = std::ranges::find(measurement.shape, name, &Shape::value_type::first);
  return found == measurement.shape.end() ? 0 : static_cast<double>(found->second);
}

double typical_seconds(const Measurement& m) {
  std::vector<double> samples = m.time.samples;
  if (samples.empty()) return m.time.p50;
  std::ranges::sort(samples);
  constexpr std::size_t twentieth = 20;
  samples.resize(samples.size() - samples.size() / twentieth);
  return std::accumulate(samples.begin(), samples.end(), 0.0) / static_cast<double>(samples.size());
}

double relative_spread(const Measurement& m) {
  // The 10th to 90th percentile of a normal distribution, in standard deviations.
  constexpr double to_deviation = 1.4826, tenth_to_ninetieth = 2.5631;
  if (m.time.mad) return to_deviation * *m.time.mad / m.time.p50;
  if (!m.time.p10 || !m.time.p90) return 0;
  return (*m.time.p90 - *m.time.p10) / tenth_to_ninetieth / m.time.p50;
}

double environment_number(const Measurements& file, const char* key) {
  for (const Environment& environment : file.environments) {
    const auto json = nlohmann::json::parse(environment.properties, nullptr, false);
    if (json.is_object() && json.contains(key) && json[key].is_number()) return json[key].get<double>();
  }
  return 0;
}

}  // namespace plumbline::calibrate
