#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "calibrate/detail/raw_case.h"
#include "model/text_file.h"

namespace plumbline::calibrate::detail {
namespace {

using model::Error;
using model::ErrorKind;

int line_of(const toml::node& node) { return static_cast<int>(node.source().begin.line); }

// Reads the keys of one table. The first error wins; what a failed read returns is never used.
class TableReader {
 public:
  TableReader(const toml::table& table, std::string prefix, const std::string& path, std::optional<Error>& error)
      : table_(table), prefix_(std::move(prefix)), path_(path), error_(error) {}

  std::string text(std::string_view key) {
    const toml::node* node = required(key);
    if (node == nullptr) return "";
    const auto value = node->value_exact<std::string>();
    if (!value || value->empty()) fail(key, line_of(*node), "expected a string that is not empty", "");
    return value.value_or("");
  }

  double positive(std::string_view key) {
    const toml::node* node = required(key);
    return node == nullptr ? 0 : positive(key, *node);
  }

  std::string optional_text(std::string_view key) {
    return table_.contains(key) ? text(key) : (known_.emplace_back(key), std::string());
  }

  std::optional<double> optional_positive(std::string_view key) {
    const toml::node* node = optional(key);
    return node == nullptr ? std::nullopt : std::optional(positive(key, *node));
  }

  std::int64_t whole(std::string_view key, std::optional<std::int64_t> fallback) {
    const toml::node* node = fallback ? optional(key) : required(key);
    if (node == nullptr) return fallback.value_or(1);
    const auto value = node->value_exact<std::int64_t>();
    constexpr std::int64_t most = 1'000'000'000;  // products of three stay finite
    if (value && *value > 0 && *value <= most) return *value;
    fail(key, line_of(*node), "expected a whole number above 0", "");
    return 1;
  }

  std::vector<std::string> texts(std::string_view key) {
    const toml::node* node = required(key);
    std::vector<std::string> values;
    if (node == nullptr) return values;
    if (const toml::array* list = node->as_array()) {
      for (const toml::node& item : *list) {
        if (const auto value = item.value_exact<std::string>()) values.push_back(*value);
      }
      if (values.size() == list->size() && !values.empty()) return values;
    }
    fail(key, line_of(*node), "expected a list of strings that is not empty", "");
    return values;
  }

  // Calls visit with a reader of the table under the key, if there is one.
  template <class Visit>
  void optional_table(std::string_view key, const Visit& visit) {
    const toml::node* node = optional(key);
    if (node == nullptr) return;
    if (!node->is_table()) return fail(key, line_of(*node), "expected a table", "");
    TableReader reader(*node->as_table(), fmt::format("{}{}.", prefix_, key), path_, error_);
    visit(reader);
    reader.finish();
  }

  const toml::node* required(std::string_view key) {
    const toml::node* node = optional(key);
    // The whole file has no line that is at fault.
    if (node == nullptr) fail(key, prefix_.empty() ? 0 : line_of(table_), "required key is missing", "");
    return node;
  }

  const toml::node* optional(std::string_view key) {
    known_.emplace_back(key);
    return table_.get(key);
  }

  // After all reads: whatever was not asked for is unknown.
  void finish() {
    for (const auto& [key, node] : table_) {
      if (std::ranges::find(known_, key.str()) != known_.end()) continue;
      const std::string nearest = model::nearest_name(key.str(), known_);
      fail(key.str(), line_of(node), "unknown key", nearest.empty() ? "" : fmt::format("did you mean '{}'?", nearest));
    }
  }

  void fail(std::string_view key, int line, std::string message, std::string hint) {
    if (error_) return;
    error_ = Error{ErrorKind::input, std::move(message), path_, line, prefix_ + std::string(key), std::move(hint)};
  }

 private:
  double positive(std::string_view key, const toml::node& node) {
    const auto value = node.is_number() ? node.value<double>() : std::nullopt;
    if (value && std::isfinite(*value) && *value > 0) return *value;
    fail(key, line_of(node), "expected a number above 0", "");
    return 0;
  }

  const toml::table& table_;
  std::string prefix_;
  const std::string& path_;
  std::optional<Error>& error_;
  std::vector<std::string> known_;
};

void read_questions(TableReader& reader, Figure& figure) {
  reader.optional_table("gemm", [&](TableReader& table) {
    ProductQuestion question;
    question.groups = table.whole("groups", 1);
    question.m = table.whole("m", std::nullopt);
    question.n = table.whole("n", std::nullopt);
    question.k = table.whole("k", std::nullopt);
    question.sms = table.optional("sms") == nullptr ? 0 : table.whole("sms", std::nullopt);
    const toml::node* node = table.optional("type");
    const auto type = model::parse_precision(node == nullptr ? "fp8" : table.text("type"));
    if (!type) return table.fail("type", line_of(*node), type.error().message, type.error().hint);
    question.type = *type;
    figure.question = question;
  });
  reader.optional_table("memory_factor", [&](TableReader& table) {
    SlowdownQuestion question;
    question.kind = table.text("class");
    question.beside = table.text("beside");
    question.held = table.whole("held", std::nullopt);
    question.rows = table.whole("rows", question.rows);
    question.columns = table.whole("columns", question.columns);
    figure.question = question;
  });
}

RawFigure read_figure(const toml::table& table, const std::string& path, std::optional<Error>& error) {
  TableReader reader(table, "figure.", path, error);
  RawFigure raw;
  raw.lines[""] = line_of(table);
  for (const auto& [key, node] : table) raw.lines[std::string(key.str())] = line_of(node);
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
    reader.fail("aim", raw.line_of("aim"), "an aim is narrower than the tolerance beside it", "");
  figure.source = reader.optional_text("source");
  reader.finish();
  return raw;
}

Aggregate read_aggregate(const toml::table& table, const std::string& path, std::optional<Error>& error) {
  TableReader reader(table, "aggregate.", path, error);
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
    reader.fail("statistic", line_of(table), fmt::format("'{}' is not known", statistic),
                fmt::format("known: {}, {}", to_string(median_absolute_error), to_string(rms_error)));
  reader.finish();
  return aggregate;
}

// The tables of a list under the key, each with `read`; nothing when the file does not have it.
template <class Read>
void read_list(TableReader& reader, const toml::node* list, std::string_view key, const Read& read) {
  if (list == nullptr) return;
  if (!list->is_array_of_tables() || list->as_array()->empty())
    return reader.fail(key, line_of(*list), "expected a list of tables", fmt::format("write each as [[{}]]", key));
  for (const toml::node& item : *list->as_array()) read(*item.as_table());
}

int line_or_zero(const toml::node* node) { return node == nullptr ? 0 : line_of(*node); }

RawCase read_case(const toml::table& root, const std::string& path, std::optional<Error>& error) {
  RawCase raw;
  ValidationCase& definition = raw.definition;
  TableReader reader(root, "", path, error);
  definition.name = reader.text("name");
  definition.plan = reader.text("plan");
  definition.profiles = reader.texts("profiles");
  raw.source = reader.optional_text("source");
  raw.chunk = reader.optional_text("chunk");
  raw.table = reader.optional_text("table");
  raw.chunk_line = line_or_zero(root.get("chunk"));
  raw.table_line = line_or_zero(root.get("table"));
  reader.required("naive");
  reader.optional_table("naive", [&](TableReader& table) {
    definition.naive_mfu = table.positive("mfu");
    definition.naive_source = table.text("source");
  });
  const toml::node* figures = reader.required("figure");
  const toml::node* aggregates = reader.optional("aggregate");
  reader.finish();
  read_list(reader, figures, "figure",
            [&](const toml::table& table) { raw.figures.push_back(read_figure(table, path, error)); });
  read_list(reader, aggregates, "aggregate", [&](const toml::table& table) {
    definition.aggregates.push_back(read_aggregate(table, path, error));
    raw.aggregate_lines.push_back(line_of(table));
  });
  return raw;
}

}  // namespace

int RawFigure::line_of(std::string_view key) const {
  const auto found = lines.find(key);
  return found == lines.end() ? lines.at("") : found->second;
}

model::Result<RawCase> read_raw_case(const std::string& path) {
  const auto text = model::read_text_file(path);
  if (!text) return tl::unexpected(text.error());
  std::optional<Error> error;
  try {
    RawCase result = read_case(toml::parse(*text, path), path, error);
    if (!error) return result;
  } catch (const toml::parse_error& failure) {
    error = Error{ErrorKind::input,
                  std::string(failure.description()),
                  path,
                  static_cast<int>(failure.source().begin.line),
                  "",
                  ""};
  }
  return tl::unexpected(*error);
}

}  // namespace plumbline::calibrate::detail
