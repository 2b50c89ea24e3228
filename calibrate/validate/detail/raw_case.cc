#include "calibrate/validate/detail/raw_case.h"

#include <fmt/format.h>

#include <optional>
#include <string>
#include <utility>

#include "calibrate/toml/table_reader.h"

namespace plumbline::calibrate::detail {
namespace {

void read_questions(TableReader& reader, Figure& figure) {
  reader.optional_table("gemm", [&](TableReader& table) {
    GemmQuestion question;
    question.groups = table.whole("groups", 1);
    question.m = table.whole("m", std::nullopt);
    question.n = table.whole("n", std::nullopt);
    question.k = table.whole("k", std::nullopt);
    question.sms = table.has("sms") ? table.whole("sms", std::nullopt) : 0;
    const auto type = model::parse_precision(table.has("type") ? table.text("type") : "fp8");
    if (!type) return table.fail("type", table.line_of("type"), type.error().message, type.error().hint);
    question.type = *type;
    figure.question = question;
  });
  reader.optional_table("memory_factor", [&](TableReader& table) {
    SlowdownQuestion question;
    question.kind = table.text("class");
    question.co_runner = table.text("beside");
    question.held = table.whole("held", std::nullopt);
    question.rows = table.whole("rows", question.rows);
    question.columns = table.whole("columns", question.columns);
    figure.question = question;
  });
}

RawFigure read_figure(TableReader& reader) {
  RawFigure raw;
  raw.lines[""] = reader.line();
  for (const std::string& key : reader.keys()) raw.lines[key] = reader.line_of(key);
  Figure& figure = raw.figure;
  figure.metric = reader.text("metric");
  figure.name = reader.optional_text("name");
  figure.group = reader.optional_text("group");
  figure.unit = reader.text("unit");
  raw.value = reader.optional_positive("value");
  raw.published = reader.optional_text("published");
  raw.row = reader.optional_text("row");
  read_questions(reader, figure);
  figure.scale = reader.optional_positive("scale").value_or(1);
  figure.tolerance = reader.optional_positive("tolerance");
  figure.absolute_tolerance = reader.optional_positive("absolute_tolerance");
  figure.at_most = reader.optional_positive("at_most");
  figure.aim = reader.optional_positive("aim");
  if (figure.aim && figure.aim > figure.tolerance)
    reader.fail("aim", raw.line_of("aim"), "an aim is narrower than its tolerance", "");
  figure.source = reader.optional_text("source");
  return raw;
}

Aggregate read_aggregate(TableReader& reader) {
  Aggregate aggregate;
  aggregate.name = reader.text("name");
  aggregate.over = reader.text("over");
  aggregate.tolerance = reader.positive("tolerance");
  const std::string statistic = reader.text("statistic");
  using enum Aggregate::Statistic;
  bool known = false;
  for (const auto candidate : {median_absolute_error, rms_error}) {
    if (to_string(candidate) != statistic) continue;
    aggregate.statistic = candidate;
    known = true;
  }
  if (!known)
    reader.fail("statistic", reader.line(), fmt::format("'{}' is not known", statistic),
                fmt::format("known: {}, {}", to_string(median_absolute_error), to_string(rms_error)));
  return aggregate;
}

void read_case(TableReader& reader, RawCase& raw) {
  ValidationCase& definition = raw.definition;
  definition.name = reader.text("name");
  definition.plan = reader.text("plan");
  definition.profiles = reader.texts("profiles");
  raw.source = reader.optional_text("source");
  raw.chunk = reader.optional_text("chunk");
  raw.table = reader.optional_text("table");
  raw.chunk_line = reader.line_of("chunk");
  raw.table_line = reader.line_of("table");
  reader.require("naive");
  reader.optional_table("naive", [&](TableReader& table) {
    definition.naive_mfu = table.positive("mfu");
    definition.naive_source = table.text("source");
  });
  reader.require("figure");
  reader.optional_tables("figure", [&](TableReader& table) { raw.figures.push_back(read_figure(table)); });
  reader.optional_tables("aggregate", [&](TableReader& table) {
    definition.aggregates.push_back(read_aggregate(table));
    raw.aggregate_lines.push_back(table.line());
  });
}

}  // namespace

int RawFigure::line_of(std::string_view key) const {
  const auto found = lines.find(key);
  return found == lines.end() ? lines.at("") : found->second;
}

model::Result<RawCase> read_raw_case(const std::string& path) {
  RawCase raw;
  TRY(read_table_file(path, [&raw](TableReader& reader) { read_case(reader, raw); }));
  return raw;
}

}  // namespace plumbline::calibrate::detail
