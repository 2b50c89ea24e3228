#include "calibrate/validation_case.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "calibrate/metric.h"
#include "model/economics.h"
#include "model/metrics.h"
#include "model/text_file.h"

namespace plumbline::calibrate {
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

  std::optional<double> optional_positive(std::string_view key) {
    const toml::node* node = optional(key);
    return node == nullptr ? std::nullopt : std::optional(positive(key, *node));
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

Figure read_figure(const toml::table& table, const std::string& path, std::optional<Error>& error) {
  TableReader reader(table, "figure.", path, error);
  Figure figure;
  figure.metric = reader.text("metric");
  figure.name = reader.text("name");
  figure.unit = reader.text("unit");
  figure.value = reader.positive("value");
  figure.scale = reader.optional_positive("scale").value_or(1);
  figure.tolerance = reader.optional_positive("tolerance");
  figure.source = reader.text("source");
  reader.finish();
  if (error) return figure;
  if (const auto known = check_metric(figure.metric); !known)
    reader.fail("metric", line_of(*table.get("metric")), known.error().message, known.error().hint);
  return figure;
}

void read_naive(const toml::node& node, ValidationCase& result, const std::string& path, std::optional<Error>& error) {
  if (!node.is_table()) {
    if (!error) error = Error{ErrorKind::input, "expected a table", path, line_of(node), "naive", ""};
    return;
  }
  TableReader reader(*node.as_table(), "naive.", path, error);
  result.naive_mfu = reader.positive("mfu");
  result.naive_source = reader.text("source");
  reader.finish();
}

ValidationCase read_case(const toml::table& root, const std::string& path, std::optional<Error>& error) {
  ValidationCase result;
  TableReader reader(root, "", path, error);
  result.name = reader.text("name");
  result.plan = reader.text("plan");
  result.profiles = reader.texts("profiles");
  if (const toml::node* naive = reader.required("naive")) read_naive(*naive, result, path, error);
  const toml::node* figures = reader.required("figure");
  if (figures != nullptr && (!figures->is_array_of_tables() || figures->as_array()->empty()))
    reader.fail("figure", line_of(*figures), "expected a list of tables", "write each as [[figure]]");
  reader.finish();
  if (error) return result;
  for (const toml::node& figure : *figures->as_array())
    result.figures.push_back(read_figure(*figure.as_table(), path, error));
  return result;
}

}  // namespace

model::Result<ValidationCase> load_case(const std::string& path) {
  const auto text = model::read_text_file(path);
  if (!text) return tl::unexpected(text.error());
  std::optional<Error> error;
  try {
    ValidationCase result = read_case(toml::parse(*text, path), path, error);
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

std::optional<double> predicted(const Figure& figure, const model::StepResult& result) {
  const std::optional<double> value = metric_value(figure.metric, result);
  return value ? std::optional(*value * figure.scale) : std::nullopt;
}

model::StepResult naive_result(const model::Plan& plan, const model::Architecture& architecture,
                               const model::ClusterShape& cluster, double mfu) {
  const model::ModelMetrics metrics = model::model_metrics(architecture, plan.batch.sequence_length);
  const auto tokens = static_cast<double>(plan.batch.global_batch_size * plan.batch.sequence_length);
  const auto gpus = static_cast<double>(plan.cluster.gpus);
  const double rate = gpus * cluster.device.bf16_peak.value() * mfu;
  model::StepResult result;
  result.step.time_s = tokens * metrics.flops_per_token / rate;
  result.step.tokens_per_s = tokens / result.step.time_s;
  result.step.tokens_per_s_per_gpu = result.step.tokens_per_s / gpus;
  result.run = model::run_cost(plan, result.step.time_s);
  return result;
}

std::optional<double> baseline(const Figure& figure, const model::StepResult& naive) {
  return follows_from_step_time(figure.metric) ? predicted(figure, naive) : std::nullopt;
}

}  // namespace plumbline::calibrate
