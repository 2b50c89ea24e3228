#include "reports/html/page.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

#include "model/base/version.h"
#include "reports/html/detail/page_template.h"
#include "reports/json/document.h"
#include "reports/trace/trace.h"

namespace plumbline::reports {

namespace {

std::string base64(std::string_view bytes) {
  constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t group = 0;
    for (std::size_t k = 0; k < 3; ++k)
      group = group << 8 | (i + k < bytes.size() ? static_cast<std::uint8_t>(bytes[i + k]) : 0U);
    for (std::size_t k = 0; k < 4; ++k) text += i + k <= bytes.size() ? digits[(group >> (18 - 6 * k)) & 63] : '=';
  }
  return text;
}

// Returns bytes in the form in which pages carry them.
std::string base64_of_gzip(std::string_view bytes) {
  std::string zipped;
  Gzip gzip([&zipped](std::string_view piece) {
    zipped += piece;
    return true;
  });
  gzip.write(bytes);
  gzip.finish();
  return base64(zipped);
}

using Json = nlohmann::ordered_json;

constexpr std::string_view data_mark = "<!--data-->";

// Returns JSON that cannot end the element it stands in: '<' occurs in its strings only, where an escape may replace
// it.
std::string inert(std::string_view json) {
  std::string text;
  text.reserve(json.size());
  for (const char c : json) {
    if (c == '<')
      text += "\\u003c";
    else
      text += c;
  }
  return text;
}

std::string data_block(std::string_view name, std::string_view json) {
  return fmt::format("<script type=\"application/json\" data-block=\"{}\">\n{}\n</script>\n", name, inert(json));
}

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
    return Json{{"row", kernel.row},         {"class", kernel.class_name}, {"gemm", kernel.gemm},
                {"section", kernel.section}, {"note", kernel.note},        {"flops", kernel.flops},
                {"bytes", kernel.bytes}};
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
  const Json works = list_of<Json>(timeline.works, [](const model::SpanWork& work) {
    return Json{{"class", work.class_name}, {"flops", work.flops}, {"bytes", work.bytes}};
  });
  const Json counters = list_of<Json>(timeline.counters, [](const model::Counter& counter) {
    return Json{
        {"rank", counter.rank}, {"name", counter.name}, {"series", counter.series}, {"count", counter.samples.size()}};
  });
  return {{"label", subject.label},
          {"ranks", ranks},
          {"end", timeline.end_ps / ps_per_ns},
          {"names", timeline.names},
          {"stage_layers", timeline.stage_layers},
          {"count", timeline.spans.size()},
          {"columns", list_of<Json>(span_columns, [&](const SpanColumn& column) { return column.name; })},
          {"kernels", kernels_of(timeline.kernels)},
          {"works", works},
          {"counters", counters},
          {"packed", packed(timeline)}};
}

}  // namespace

std::string page_html(const std::vector<PageResult>& results, const PageOrigin& origin) {
  const Json made_by = {
      {"command", origin.command}, {"version", model::version}, {"revision", origin.revision}, {"date", origin.date}};
  std::string data = data_block("made-by", text_of_json(made_by, 0));
  for (const PageResult& result : results) {
    data += data_block("name", text_of_json(Json(result.name), -1));
    data += data_block("result", result.json);
    data += data_block("extra", result.extra.empty() ? "null" : result.extra);
  }
  std::string page(page_template);
  return page.replace(page.find(data_mark), data_mark.size(), data);
}

model::Result<std::string> playground_html(const PageEngine& engine) {
  constexpr std::string_view mark = "<!--engine-->";
  if (engine.script.find("</script") != std::string::npos || engine.script.find("<!--") != std::string::npos)
    return model::wrong_input("", "the predictor of the playground would end the element it stands in",
                              "build it again with the em++ that docs/playground.md names");
  std::string page(playground_template);
  return page.replace(page.find(mark), mark.size(),
                      fmt::format("<script type=\"text/plain\" id=\"engine\">\n{}\n</script>\n"
                                  "<script type=\"text/plain\" id=\"module\">{}</script>\n"
                                  "<script type=\"application/json\" id=\"shipped\">{}</script>",
                                  engine.script, base64_of_gzip(engine.module), inert(engine.shipped)));
}

model::Result<PageResult> read_page_result(std::string text, const std::string& path) {
  const Json json = Json::parse(text, nullptr, false);
  constexpr const char* hint = "give the file that --json of a verb wrote";
  if (json.is_discarded()) return model::wrong_input_at(path, 0, "", "is not JSON", hint);
  const auto frame = json.find("plumbline");
  if (!json.is_object() || frame == json.end() || !frame->is_object() || !frame->contains("output"))
    return model::wrong_input_at(path, 0, "plumbline.output", "is not a result of this command", hint);
  return PageResult{.json = std::move(text), .extra = {}, .name = path};
}

std::string step_page_data(const std::vector<TraceSubject>& subjects, const std::vector<Comparison>& published) {
  Json timelines = Json::array();
  for (const TraceSubject& subject : subjects)
    if (!subject.timeline->spans.empty()) timelines.push_back(timeline_of(subject));
  const Json figures = list_of<Json>(published, [](const Comparison& one) {
    return Json{{"name", one.name},
                {"unit", one.unit},
                {"predicted", one.predicted},
                {"published", one.published},
                {"source", one.source}};
  });
  return text_of_json(Json{{"timelines", timelines}, {"published", figures}}, -1);
}

}  // namespace plumbline::reports
