#include "cli/measurement_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "reports/text/format.h"

namespace plumbline::cli {
namespace {

using calibrate::Measurement;

constexpr double tera = 1e12, giga = 1e9;

std::int64_t extent(const calibrate::Shape& shape, std::string_view name) {
  const auto found = std::ranges::find(shape, name, &calibrate::Shape::value_type::first);
  return found == shape.end() ? 0 : found->second;
}

}  // namespace

std::string shape_text(const calibrate::Subject& subject) {
  const calibrate::Shape& shape = subject.shape;
  const std::int64_t m = extent(shape, "m"), n = extent(shape, "n"), k = extent(shape, "k");
  std::string text;
  if (m > 0 && n > 0 && k > 0) {
    const std::int64_t groups = extent(shape, "groups");
    return (groups > 1 ? fmt::format("{} x ", groups) : "") + fmt::format("{}x{}x{}", m, n, k);
  }
  for (const auto& [name, value] : shape) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, value);
  return text;
}

std::string joined(std::initializer_list<std::string> words, const char* separator) {
  std::string text;
  for (const std::string& word : words) {
    if (!word.empty()) text += (text.empty() ? "" : separator) + word;
  }
  return text;
}

std::string variant_text(const Measurement& m) {
  const std::int64_t ctas = m.communication_ctas.value_or(0), target = m.target_sms.value_or(0);
  const bool of_cpu = m.variant == "cpu" || m.variant == "wall";  // the clock
  const std::int64_t cores = of_cpu ? m.sms.value_or(1) : 1;
  return joined({m.cache, cores > 1 ? fmt::format("{} cores", cores) : "", m.variant,
                 ctas > 0 ? fmt::format("{} {}", ctas, of_cpu ? "copying" : "CTAs") : "",
                 ctas > 0 && m.copy_to == "host" ? "to host" : "",
                 ctas > 0 && m.copy_rate ? fmt::format("{:.0f} GB/s", *m.copy_rate / giga) : "",
                 target > 0 ? fmt::format("for {} SMs", target) : ""},
                ", ");
}

std::string rate_text(const Measurement& m) {
  if (m.flop_rate()) return reports::number(*m.flop_rate() / tera) + " TFLOP/s";
  if (m.byte_rate()) return reports::number(*m.byte_rate() / giga) + " GB/s";
  return "";
}

std::string share_text(const Measurement& m, const model::Device* device) {
  if (device == nullptr) return "";
  if (m.flop_rate()) {
    const auto peak = calibrate::peak_flop_rate(*device, m.format);
    return peak ? reports::percent(*m.flop_rate() / *peak) : "";
  }
  if (!m.byte_rate() || m.cache.empty()) return "";
  return reports::percent(*m.byte_rate() / device->memory_bandwidth.value());
}

std::string spread_text(const Measurement& m) {
  if (!m.time.p10 || !m.time.p90) return "";
  return fmt::format("{:.1f} %", (*m.time.p90 - *m.time.p10) / m.time.p50 * 100);
}

std::string check_text(const Measurement& m) {
  if (!m.check) return "";
  return fmt::format("{} {:.1e}", m.check->ok ? "ok" : "WRONG", m.check->relative_error);
}

}  // namespace plumbline::cli
