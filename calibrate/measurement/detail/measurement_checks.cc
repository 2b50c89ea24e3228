// Plausibility checks of a record.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "calibrate/measurement/detail/measurement_record.h"

namespace plumbline::calibrate {
namespace {

constexpr double tera = 1e12, giga = 1e9, micro = 1e-6;
constexpr double rounding = 0.02;    // for publications that print few digits
constexpr double above_peak = 1.05;  // a GPU may clock higher than its datasheet reckons with

model::Result<void> check_times(const Times& time) {
  const std::array<std::pair<const char*, std::optional<double>>, 4> rising = {
      {{"time_us.min", time.min}, {"time_us.p10", time.p10}, {"time_us.p50", time.p50}, {"time_us.p90", time.p90}}};
  const char* below = nullptr;
  double least = 0;
  for (const auto& [key, value] : rising) {
    if (!value) continue;
    if (below != nullptr && *value < least)
      return model::wrong_input(
          key, fmt::format("{:.6g} us is less than {}, {:.6g} us", *value / micro, below, least / micro),
          "min <= p10 <= p50 <= p90");
    below = key;
    least = *value;
  }
  return {};
}

// Checks that the samples agree with the other figures, which are computed from them.
model::Result<void> check_samples(const Measurement& m) {
  const std::vector<double>& samples = m.time.samples;
  if (samples.empty()) return {};
  if (m.samples && *m.samples != static_cast<std::int64_t>(samples.size()))
    return model::wrong_input("samples_s",
                              fmt::format("{} samples are listed, {} are stated", samples.size(), *m.samples));
  const auto [least, most] = std::ranges::minmax_element(samples);
  if (m.time.p50 < *least * (1 - rounding) || m.time.p50 > *most * (1 + rounding))
    return model::wrong_input("samples_s",
                              fmt::format("time_us.p50, {:.6g} us, lies outside of them", m.time.p50 / micro),
                              "samples_s is in seconds");
  return {};
}

// Checks that a stated rate is the work over the median time, within rounding. Otherwise one of the three is not in the
// unit of its key.
model::Result<void> check_rate(const char* key, std::optional<double> stated, std::optional<double> rate, double unit) {
  if (!stated || !rate || std::abs(*stated / *rate - 1) <= rounding) return {};
  return model::wrong_input(
      key, fmt::format("{:.6g} is stated, but work over time_us.p50 is {:.6g}", *stated / unit, *rate / unit),
      "one of them is not in the unit of its key");
}

model::Result<void> check_word(const char* key, const std::string& word, const std::vector<std::string>& known) {
  if (word.empty() || std::ranges::find(known, word) != known.end()) return {};
  return model::wrong_input(key, fmt::format("'{}' is not known", word),
                            fmt::format("one of {}", fmt::join(known, ", ")));
}

model::Result<void> check_gemm(const Measurement& m) {
  const std::optional<double> expected = detail::gemm_flops(m);
  if (!m.flops || !expected || std::abs(*m.flops / *expected - 1) <= rounding) return {};
  return model::wrong_input("flops",
                            fmt::format("{:.6g} FLOP, but 2 m n k of the shape is {:.6g}", *m.flops, *expected),
                            "of all groups together");
}

}  // namespace

std::optional<double> detail::gemm_flops(const Measurement& m) {
  const double products = extent_of(m, "m") * extent_of(m, "n") * extent_of(m, "k");  // 0 where one is not stated
  if (m.op != "gemm" || products == 0) return std::nullopt;
  return 2 * products * std::max(1.0, extent_of(m, "groups"));
}

model::Result<void> detail::check_values(const Record& record) {
  const Measurement& m = record.measurement;
  const std::array<model::Result<void>, 7> checks = {
      check_word("phase", m.phase, {"F", "I", "W", "B"}),
      check_word("cache", m.cache, {"hot", "cold"}),
      check_times(m.time),
      check_samples(m),
      check_gemm(m),
      check_rate("tflops", record.stated_flop_rate, m.flop_rate(), tera),
      check_rate("gbps", record.stated_byte_rate, m.byte_rate(), giga),
  };
  for (const auto& check : checks)
    if (!check) return check;
  return {};
}

std::optional<double> peak_flop_rate(const model::Device& device, std::string_view format) {
  const bool fp8 = format.starts_with("fp8");
  const double peak = (fp8 ? device.fp8_peak : device.bf16_peak).value();
  // Wider formats are no faster than BF16; the peak of any other format is unknown.
  const bool known = fp8 || format == "bf16" || format == "fp16" || format == "tf32" || format == "fp32";
  return known && peak > 0 ? std::optional(peak) : std::nullopt;
}

model::Result<void> detail::check_peaks(const Measurement& m, const model::Device& device) {
  const std::optional<double> peak = peak_flop_rate(device, m.format);
  if (peak && m.flop_rate() && *m.flop_rate() > above_peak * *peak)
    return model::wrong_input("tflops",
                              fmt::format("{:.4g} TFLOP/s in {} is above the datasheet peak of {}, {:.4g} TFLOP/s",
                                          *m.flop_rate() / tera, m.format, device.name, *peak / tera),
                              "the time or the work is not what its key claims");
  if (m.cache != "cold" || !m.bytes) return {};
  // The last written results may still be in the cache when the time ends: at most half the bytes and the cache's size.
  constexpr double cache_bytes = 50e6;
  const double through_memory = *m.bytes - std::min(cache_bytes, *m.bytes / 2);
  const double bandwidth = device.memory_bandwidth.value();
  if (through_memory / m.time.p50 > above_peak * bandwidth)
    return model::wrong_input(
        "gbps",
        fmt::format("{:.4g} GB/s from a cold cache is above the datasheet bandwidth of {}, {:.4g} GB/s",
                    *m.byte_rate() / giga, device.name, bandwidth / giga),
        "the time or the bytes are not what their key claims");
  return {};
}

}  // namespace plumbline::calibrate
