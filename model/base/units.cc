#include "model/base/units.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <ranges>
#include <utility>

namespace plumbline::model {
namespace {

using enum UnitDimension;
using NamedUnit = std::pair<std::string_view, SiUnit>;
constexpr auto unit_names = std::to_array<NamedUnit>({
    {"1", {count, 1}},
    {"s", {seconds, 1}},
    {"ms", {seconds, 1e-3}},
    {"us", {seconds, 1e-6}},
    {"ns", {seconds, 1e-9}},
    {"ps", {seconds, 1e-12}},
    {"fs", {seconds, 1e-15}},
    {"min", {seconds, 60}},
    {"h", {seconds, 3600}},
    {"day", {seconds, 86400}},
    {"B", {bytes, 1}},
    {"MB", {bytes, 1e6}},
    {"GB", {bytes, 1e9}},
    {"GiB", {bytes, 1024.0 * 1024 * 1024}},
    {"Gb/s", {bytes_per_second, 1e9 / 8}},
    {"GB/s", {bytes_per_second, 1e9}},
    {"TB/s", {bytes_per_second, 1e12}},
    {"GFLOP/s", {flops_per_second, 1e9}},
    {"TFLOP/s", {flops_per_second, 1e12}},
    {"PFLOP/s", {flops_per_second, 1e15}},
    {"W", {watts, 1}},
    {"J", {joules, 1}},
    {"pJ/FLOP", {joules_per_flop, 1e-12}},
    {"pJ/B", {joules_per_byte, 1e-12}},
    {"MHz", {hertz, 1e6}},
    {"USD", {usd, 1}},
    {"USD/GPU-h", {usd_per_gpu_hour, 1}},
    {"USD/kWh", {usd_per_kwh, 1}},
    {"year", {years, 1}},
});

}  // namespace

std::string_view to_string(UnitDimension dimension) {
  static constexpr auto names = std::to_array<std::string_view>(
      {"a count", "a time", "bytes", "bytes per second", "floating-point operations per second", "power", "an energy",
       "an energy per floating-point operation", "an energy per byte", "a frequency", "a price",
       "a price of a GPU-hour", "a price of electricity", "years"});
  return names[static_cast<std::size_t>(dimension)];
}

Result<SiUnit> si_unit(std::string_view unit) {
  if (const auto found = std::ranges::find(unit_names, unit, &NamedUnit::first); found != unit_names.end())
    return found->second;
  return wrong_input("", fmt::format("unknown unit '{}'", unit),
                     fmt::format("known units: {}", fmt::join(unit_names | std::views::keys, ", ")));
}

Result<std::int64_t> parse_binary_size(std::string_view text, std::string key) {
  constexpr std::int64_t most = std::int64_t{1} << 50;
  std::int64_t value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string_view rest(end, static_cast<std::size_t>(text.data() + text.size() - end));
  constexpr std::string_view letters = "KMG";
  const std::size_t letter = rest.size() == 1 ? letters.find(rest[0]) : std::string_view::npos;
  if (status == std::errc() && (rest.empty() || letter != std::string_view::npos) && value > 0 && value <= most) {
    const std::int64_t factor = rest.empty() ? 1 : std::int64_t{1} << (10 * (letter + 1));
    if (value <= most / factor) return value * factor;
  }
  return wrong_input(std::move(key), fmt::format("'{}' is no size in bytes", text),
                     "a whole number above 0, with K, M or G for powers of 1024, up to 1048576G");
}

}  // namespace plumbline::model
