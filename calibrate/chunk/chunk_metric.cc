#include "calibrate/chunk/chunk_metric.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string>
#include <vector>

namespace plumbline::calibrate {
namespace {

using Value = std::optional<double>;

struct Quantity {
  std::string_view name;  // "time_s"; those that end in a dot take an argument
  Value (*read)(const ChunkSummary& chunk, std::string_view argument);
};

std::optional<int> whole(std::string_view text) {
  int value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  return status == std::errc() && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

Value compute_share(const ChunkSummary& chunk, std::string_view) {
  return chunk.seconds > 0 ? Value(chunk.compute_busy / chunk.seconds) : std::nullopt;
}

Value span(const ChunkSummary& chunk, std::string_view argument) {
  const std::size_t dot = argument.rfind('.');
  if (dot == std::string_view::npos) return std::nullopt;
  const std::optional<int> slot = whole(argument.substr(dot + 1));
  const auto wanted = [&](const ChunkSummary::Span& s) { return s.name == argument.substr(0, dot) && s.slot == slot; };
  const auto found = std::ranges::find_if(chunk.spans, wanted);
  return found == chunk.spans.end() ? std::nullopt : Value(found->end - found->start);
}

// Periods begin with that of slot 1.
Value period(const ChunkSummary& chunk, std::string_view argument) {
  const std::optional<int> slot = whole(argument);
  if (!slot || *slot < 1 || static_cast<std::size_t>(*slot) > chunk.periods.size()) return std::nullopt;
  return chunk.periods[static_cast<std::size_t>(*slot) - 1];
}

Value class_time(const ChunkSummary& chunk, std::string_view argument) {
  const auto found = std::ranges::find(chunk.classes, argument, &ChunkSummary::ClassTime::row);
  return found == chunk.classes.end() ? std::nullopt : Value(found->seconds);
}

Value product(const ChunkSummary& chunk, std::string_view argument) {
  const auto wanted = [&](const ChunkSummary::Product& p) { return p.name + "." + p.kind == argument; };
  const auto found = std::ranges::find_if(chunk.products, wanted);
  return found == chunk.products.end() ? std::nullopt : Value(found->mean());
}

Value product_sum(const ChunkSummary& chunk, std::string_view argument) {
  Value sum;
  while (true) {
    const std::string_view kind = argument.substr(0, argument.find('+'));
    for (const ChunkSummary::Product& p : chunk.products)
      if (p.kind == kind) sum = sum.value_or(0) + p.mean();
    if (kind.size() == argument.size()) return sum;
    argument.remove_prefix(kind.size() + 1);
  }
}

template <double ChunkSummary::*field>
Value total(const ChunkSummary& chunk, std::string_view) {
  return chunk.*field;
}

constexpr Quantity quantities[] = {
    {"time_s", total<&ChunkSummary::seconds>},
    {"compute_busy_s", total<&ChunkSummary::compute_busy>},
    {"compute_busy_share", compute_share},
    {"communication_busy_s", total<&ChunkSummary::communication_busy>},
    {"exposed_communication_s", total<&ChunkSummary::exposed_communication>},
    {"span_s.", span},
    {"period_s.", period},
    {"class_s.", class_time},
    {"gemm_s.", product},
    {"gemm_sum_s.", product_sum},
};

// The quantity of a metric and what stands behind its name.
struct Split {
  const Quantity* quantity = nullptr;
  std::string_view argument;
};

Split split(std::string_view metric) {
  if (!metric.starts_with(chunk_metric_prefix)) return {};
  metric.remove_prefix(chunk_metric_prefix.size());
  for (const Quantity& quantity : quantities) {
    const bool takes_argument = quantity.name.ends_with('.');
    if (takes_argument ? metric.starts_with(quantity.name) && metric.size() > quantity.name.size()
                       : metric == quantity.name)
      return {&quantity, metric.substr(quantity.name.size())};
  }
  return {};
}

}  // namespace

std::optional<double> chunk_value(std::string_view metric, const ChunkSummary& chunk) {
  const auto [quantity, argument] = split(metric);
  return quantity == nullptr ? std::nullopt : quantity->read(chunk, argument);
}

model::Result<void> check_chunk_metric(std::string_view metric) {
  if (split(metric).quantity != nullptr) return {};
  std::vector<std::string> known;
  for (const Quantity& quantity : quantities) {
    std::string_view name = quantity.name;
    if (name.ends_with('.')) name.remove_suffix(1);
    known.push_back(fmt::format("{}{}", chunk_metric_prefix, name));
  }
  const std::size_t argument = metric.find('.', std::min(metric.size(), chunk_metric_prefix.size()));
  const std::string nearest = model::nearest_name(metric.substr(0, argument), known);
  return tl::unexpected(model::Error{
      model::ErrorKind::input, fmt::format("unknown metric '{}'", metric), "", 0, "metric",
      nearest.empty() ? fmt::format("known: {}", fmt::join(known, ", "))
                      : fmt::format("did you mean '{}'? docs/validation.md lists what follows it", nearest)});
}

}  // namespace plumbline::calibrate
