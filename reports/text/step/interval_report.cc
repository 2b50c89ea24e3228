#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "reports/text/format.h"
#include "reports/text/step/sections.h"
#include "reports/text/table.h"

namespace plumbline::reports {
namespace {

using model::IntervalPart;
using model::PredictionInterval;
using model::Quantiles;

constexpr std::size_t most_parts = 8;

}  // namespace

std::string plus_minus(double half_width) { return fmt::format("±{}", percent(half_width)); }

std::string from_to(const std::string& low, const std::string& high) {
  const std::size_t unit = low.rfind(' ');
  const bool same = unit != std::string::npos && high.ends_with(low.substr(unit));
  return fmt::format("{} to {}", same ? low.substr(0, unit) : low, high);
}

std::string seconds_span(const Quantiles& quantiles) {
  return from_to(duration(quantiles.p10), duration(quantiles.p90));
}

std::string left_sentence(const PredictionInterval& interval) {
  if (interval.left_rows.empty()) return "";
  return fmt::format("Measured steps took {} times what is predicted ({}).", fixed(interval.left_factor, 2),
                     interval.left_rows);
}

std::string memory_sentence(const PredictionInterval& interval) {
  return fmt::format("{} to {} GB in eight of ten cases.", gigabytes(interval.peak_bytes.p10),
                     gigabytes(interval.peak_bytes.p90));
}

std::string run_interval_table(const PredictionInterval& interval) {
  if (!interval.days) return "";
  Table table("as clusters run it | >p10 | >middle | >p90");
  const auto row = [&table](const char* name, const std::optional<Quantiles>& quantiles, std::string (*text)(double)) {
    if (quantiles) table.add({name, text(quantiles->p10), text(quantiles->p50), text(quantiles->p90)});
  };
  row("days", interval.days, [](double days) { return fixed(days, 1); });
  row("GPU-hours", interval.gpu_hours, grouped);
  row("cost, with the range of the price", interval.cost_usd, [](double usd) { return "$" + grouped(usd); });
  return table.to_string();
}

std::string parts_section(const PredictionInterval& interval) {
  std::string out = paragraph(fmt::format(
      "The step time is its middle {}, from {} draws. Shares of the variance, and the interval after a measurement:",
      plus_minus(interval.time_s.half_width()), interval.draws));
  Table table("source | >share | to measure | >then");
  const std::size_t shown = std::min(interval.parts.size(), most_parts);
  for (std::size_t i = 0; i < shown; ++i) {
    const IntervalPart& part = interval.parts[i];
    table.add({part.source, percent(part.share), part.measurement,
               part.half_width_after ? plus_minus(*part.half_width_after) : ""});
  }
  out += table.to_string();
  std::vector<std::string> others;
  for (std::size_t i = shown; i < interval.parts.size(); ++i)
    others.push_back(fmt::format("{} {}", interval.parts[i].source, percent(interval.parts[i].share)));
  return others.empty() ? out : out + paragraph(fmt::format("Others: {}.", fmt::join(others, ", ")));
}

}  // namespace plumbline::reports
