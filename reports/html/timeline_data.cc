#include "reports/html/timeline_data.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

#include "reports/html/detail/base64_of_gzip.h"
#include "reports/json/document.h"

namespace plumbline::reports {
namespace {

using Json = nlohmann::ordered_json;
using model::Span;

constexpr std::int64_t ps_per_ns = 1000;

// Integers column by column.
class Packed {
 public:
  template <class Rows, class Value>
  void add(const Rows& rows, const Value& value) {
    std::int64_t last = 0;
    for (const auto& row : rows) {
      const auto now = static_cast<std::int64_t>(value(row));
      add_integer(now - last);
      last = now;
    }
  }

  std::string text() const { return base64_of_gzip(bytes_); }

 private:
  void add_integer(std::int64_t value) {
    std::uint64_t rest = (static_cast<std::uint64_t>(value) << 1) ^ static_cast<std::uint64_t>(value >> 63);
    for (; rest >= 0x80; rest >>= 7) bytes_ += static_cast<char>((rest & 0x7f) | 0x80);
    bytes_ += static_cast<char>(rest);
  }

  std::string bytes_;
};

struct SpanColumn {
  std::string_view name;
  std::int64_t (*value)(const Span& span);
};

constexpr std::array<SpanColumn, 14> span_columns = {{
    {"name", [](const Span& s) { return std::int64_t{s.name}; }},
    {"rank", [](const Span& s) { return std::int64_t{s.rank}; }},
    {"stream", [](const Span& s) { return static_cast<std::int64_t>(s.stream); }},
    {"depth", [](const Span& s) { return std::int64_t{s.depth}; }},
    {"start", [](const Span& s) { return s.start_ps / ps_per_ns; }},
    {"end", [](const Span& s) { return s.end_ps() / ps_per_ns; }},
    {"layer", [](const Span& s) { return std::int64_t{s.layer}; }},
    {"micro_batch", [](const Span& s) { return std::int64_t{s.micro_batch}; }},
    {"stage", [](const Span& s) { return std::int64_t{s.stage}; }},
    {"backward_stage", [](const Span& s) { return std::int64_t{s.overlapped_stage}; }},
    {"backward_micro_batch", [](const Span& s) { return std::int64_t{s.overlapped_micro_batch}; }},
    {"peer", [](const Span& s) { return std::int64_t{s.peer}; }},
    {"kernel", [](const Span& s) { return std::int64_t{s.kernel}; }},
    {"work", [](const Span& s) { return std::int64_t{s.work}; }},
}};

Json kernels_of(const std::vector<model::Kernel>& kernels) {
  return list_of<Json>(kernels, [&](const model::Kernel& kernel) {
    return joined<Json>(
        {{{"row", kernel.row}, {"class", kernel.class_name}}, FIELDS(kernel, gemm, section, note, flops, bytes)});
  });
}

Json works_of(const std::vector<model::SpanWork>& works) {
  return list_of<Json>(works, [&](const model::SpanWork& work) {
    return Json{{"class", work.class_name}, {"flops", work.flops}, {"bytes", work.bytes}};
  });
}

Json counters_of(const std::vector<model::Counter>& counters) {
  return list_of<Json>(counters, [&](const model::Counter& counter) {
    return joined<Json>({FIELDS(counter, rank, name, series), {{"count", counter.samples.size()}}});
  });
}

std::string packed(const model::Timeline& timeline) {
  using Sample = model::Counter::Sample;
  Packed integers;
  for (const SpanColumn& column : span_columns) integers.add(timeline.spans, column.value);
  for (const model::Counter& counter : timeline.counters) {
    integers.add(counter.samples, [](const Sample& sample) { return sample.time_ps / ps_per_ns; });
    for (std::size_t i = 0; i < counter.series.size(); ++i)
      integers.add(counter.samples, [i](const Sample& sample) { return std::llround(sample.values[i]); });
  }
  return integers.text();
}

Json timeline_of(const TraceSubject& subject) {
  const model::Timeline& timeline = *subject.timeline;
  Json ranks = Json::array();
  for (std::size_t rank = 0; rank < static_cast<std::size_t>(timeline.ranks); ++rank)
    ranks.push_back(rank < subject.rank_names.size() ? subject.rank_names[rank] : fmt::format("rank {}", rank));
  return {{"label", subject.label},
          {"ranks", ranks},
          {"end", timeline.end_ps / ps_per_ns},
          {"names", timeline.names},
          {"stage_layers", timeline.stage_layers},
          {"count", timeline.spans.size()},
          {"columns", list_of<Json>(span_columns, [&](const SpanColumn& column) { return column.name; })},
          {"kernels", kernels_of(timeline.kernels)},
          {"works", works_of(timeline.works)},
          {"counters", counters_of(timeline.counters)},
          {"packed", packed(timeline)}};
}

}  // namespace

std::string step_page_data(const std::vector<TraceSubject>& subjects, const std::vector<Comparison>& published) {
  Json timelines = Json::array();
  for (const TraceSubject& subject : subjects)
    if (!subject.timeline->spans.empty()) timelines.push_back(timeline_of(subject));
  return text_of_json(
      Json{{"timelines", timelines}, {"published", LISTED(published, name, unit, predicted, published, source)}}, -1);
}

}  // namespace plumbline::reports
