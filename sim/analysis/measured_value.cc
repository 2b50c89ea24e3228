#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <span>
#include <system_error>
#include <utility>

#include "model/base/text.h"
#include "sim/analysis/measured_step.h"

namespace plumbline::sim {
namespace {

struct MeasuredUnit {
  std::string_view name;
  double factor;
  MeasuredQuantity quantity = {};  // of a step
};

// Returns a number in one of an option's units, and the unit. `form` is what the option takes, for errors.
model::Result<std::pair<double, MeasuredUnit>> read_measured(std::string_view text, std::span<const MeasuredUnit> units,
                                                             const char* option, const char* form) {
  double number = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (status != std::errc()) return model::wrong_input(option, fmt::format("'{}' begins with no number", text), form);
  const std::string_view name = model::trimmed(text.substr(static_cast<std::size_t>(end - text.data())));
  if (name.empty()) return model::wrong_input(option, fmt::format("'{}' has no unit", text), form);
  const auto unit = std::ranges::find(units, name, &MeasuredUnit::name);
  if (unit == units.end()) {
    std::vector<std::string> names;
    for (const MeasuredUnit& known : units) names.emplace_back(known.name);
    return model::wrong_input(option, fmt::format("'{}' has the unknown unit '{}'", text, name),
                              model::known_names(name, names));
  }
  const double value = number * unit->factor;
  if (!std::isfinite(value) || value <= 0)
    return model::wrong_input(option, fmt::format("'{}' is not a finite number above 0", text), form);
  return std::pair(value, *unit);
}

}  // namespace

model::Result<double> parse_measured_peak(std::string_view memory) {
  static constexpr double binary_kilo = 1024;
  static constexpr MeasuredUnit memory_units[] = {
      {"MB", 1e6},
      {"GB", 1e9},
      {"MiB", binary_kilo * binary_kilo},
      {"GiB", binary_kilo * binary_kilo * binary_kilo},
  };
  return read_measured(memory, memory_units, "--measured-memory", "the peak of the fullest GPU, as 71GB or 68000MiB")
      .map([](const auto& read) { return read.first; });
}

model::Result<Measurement> parse_measurement(std::string_view step, std::optional<std::string_view> memory) {
  using enum MeasuredQuantity;
  static constexpr MeasuredUnit step_units[] = {
      {"s", 1, seconds},
      {"ms", 1e-3, seconds},
      {"min", 60, seconds},
      {"s/it", 1, seconds},
      {"tok/s", 1, tokens_per_s},
      {"ktok/s", 1e3, tokens_per_s},
      {"Mtok/s", 1e6, tokens_per_s},
      {"tokens/s", 1, tokens_per_s},
      {"tok/s/GPU", 1, tokens_per_s_per_gpu},
      {"ktok/s/GPU", 1e3, tokens_per_s_per_gpu},
      {"tokens/s/GPU", 1, tokens_per_s_per_gpu},
      {"samples/s", 1, samples_per_s},
      {"TFLOP/s", 1, tflops},
      {"TFLOP/s/GPU", 1, tflops},
      {"TFLOPS", 1, tflops},
      {"%", 1e-2, mfu},
  };
  constexpr const char* option = "--measured";
  const auto [value, unit] = TRY(read_measured(
      step, step_units, option,
      "a step as 2.1s, a time per output token as 35ms, 1.2Mtok/s, 7800tok/s/GPU, 230TFLOP/s of a GPU, or an MFU as "
      "41%"));
  if (unit.quantity == mfu && value > 1)
    return model::wrong_input(option, fmt::format("an MFU of '{}' is above the peak", step),
                              "at most 100%, or TFLOP/s of a GPU: 230TFLOP/s");
  Measurement measurement{{std::string(step), unit.quantity, value}, std::nullopt};
  if (memory) measurement.peak_bytes = TRY(parse_measured_peak(*memory));
  return measurement;
}

}  // namespace plumbline::sim
