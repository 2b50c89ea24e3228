#include "cli/validation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "model/version.h"
#include "reports/format.h"
#include "reports/table.h"

namespace plumbline::cli {
namespace {

using calibrate::Figure;
using calibrate::ValidationCase;
using Json = nlohmann::ordered_json;

std::optional<double> error_of(const Figure& figure, std::optional<double> value) {
  return value ? std::optional(*value / figure.value - 1) : std::nullopt;
}

std::string label(const Figure& figure) { return fmt::format("{}, {}", figure.name, figure.unit); }

std::string paragraph(const std::string& text) {
  std::string out;
  for (const std::string& line : reports::wrap(text, reports::terminal_width - 2)) out += "  " + line + '\n';
  return out;
}

std::string error_text(std::optional<double> error) {
  return error ? fmt::format("{:+.1f}%", *error * 100) : std::string();
}

// Every figure by every profile: the prediction and its error in one column each.
std::string profiles_table(const EvaluatedCase& evaluated) {
  std::vector<reports::Column> columns = {{"figure"}, {"published", reports::Align::right}};
  for (const std::string& profile : evaluated.definition.profiles) columns.push_back({profile, reports::Align::right});
  reports::Table table(columns);
  constexpr int error_width = 7;
  for (const EvaluatedFigure& row : evaluated.figures) {
    std::vector<std::string> cells = {label(row.figure), reports::number(row.figure.value)};
    for (const std::optional<double>& value : row.predicted) {
      cells.push_back(value ? fmt::format("{} {:>{}}", reports::number(*value), error_text(error_of(row.figure, value)),
                                          error_width)
                            : "-");
    }
    table.add(std::move(cells));
  }
  return table.to_string();
}

// The plan's own profile against the baseline and the tolerances.
std::string checks_table(const EvaluatedCase& evaluated) {
  const ValidationCase& definition = evaluated.definition;
  reports::Table table({{"figure"},
                        {definition.profiles.back(), reports::Align::right},
                        {fmt::format("MFU {:.0f} %", definition.naive_mfu * 100), reports::Align::right},
                        {"error", reports::Align::right},
                        {"tolerance", reports::Align::right},
                        {"verdict"}});
  bool any = false;
  for (const EvaluatedFigure& row : evaluated.figures) {
    if (!row.naive && !row.figure.tolerance) continue;
    any = true;
    const std::string tolerance = row.figure.tolerance ? reports::percent(*row.figure.tolerance) : "";
    const std::string verdict = !row.within ? "" : *row.within ? "within" : "EXCEEDED";
    table.add({label(row.figure), error_text(error_of(row.figure, row.predicted.back())),
               row.naive ? reports::number(*row.naive) : "", error_text(error_of(row.figure, row.naive)), tolerance,
               verdict});
  }
  return any ? table.to_string() : "";
}

// Each source once, with the figures that it gives.
std::string sources(const EvaluatedCase& evaluated) {
  std::vector<std::pair<std::string, std::string>> lines;  // source, figures
  for (const EvaluatedFigure& row : evaluated.figures) {
    auto found = std::ranges::find(lines, row.figure.source, &std::pair<std::string, std::string>::first);
    if (found == lines.end()) {
      lines.emplace_back(row.figure.source, row.figure.name);
    } else {
      found->second += "; " + row.figure.name;
    }
  }
  std::string out;
  for (const auto& [source, figures] : lines) out += paragraph(fmt::format("{}: {}", figures, source));
  const ValidationCase& definition = evaluated.definition;
  return out + paragraph(fmt::format("baseline, constant MFU {:.0f} %: {}", definition.naive_mfu * 100,
                                     definition.naive_source));
}

Json value_of(const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); }

Json figure_json(const EvaluatedFigure& row, const std::vector<std::string>& profiles) {
  Json predicted = Json::object();
  Json errors = Json::object();
  for (std::size_t i = 0; i < profiles.size(); ++i) {
    predicted[profiles[i]] = value_of(row.predicted[i]);
    errors[profiles[i]] = value_of(error_of(row.figure, row.predicted[i]));
  }
  return {{"name", row.figure.name},
          {"metric", row.figure.metric},
          {"unit", row.figure.unit},
          {"published", row.figure.value},
          {"predicted", predicted},
          {"error", errors},
          {"naive", value_of(row.naive)},
          {"naive_error", value_of(error_of(row.figure, row.naive))},
          {"tolerance", value_of(row.figure.tolerance)},
          {"within_tolerance", row.within ? Json(*row.within) : Json(nullptr)},
          {"source", row.figure.source}};
}

}  // namespace

bool EvaluatedCase::holds() const {
  return std::ranges::all_of(figures, [](const EvaluatedFigure& row) { return row.within.value_or(true); });
}

EvaluatedCase evaluate(const ValidationCase& definition, const std::vector<model::StepResult>& results,
                       const model::StepResult& naive) {
  EvaluatedCase evaluated{definition, naive.step.time_s, {}};
  for (const Figure& figure : definition.figures) {
    EvaluatedFigure row;
    row.figure = figure;
    for (const model::StepResult& result : results) row.predicted.push_back(calibrate::predicted(figure, result));
    row.naive = calibrate::baseline(figure, naive);
    if (figure.tolerance) {
      const std::optional<double> error = error_of(figure, row.predicted.back());
      row.within = error && std::abs(*error) <= *figure.tolerance;
    }
    evaluated.figures.push_back(std::move(row));
  }
  return evaluated;
}

std::string validation_table(const EvaluatedCase& evaluated) {
  std::string out;
  for (const std::string& line : reports::wrap(evaluated.definition.name, reports::terminal_width)) out += line + '\n';
  out += fmt::format("plan {}\n\n{}", evaluated.definition.plan, profiles_table(evaluated));
  const std::string checks = checks_table(evaluated);
  if (!checks.empty()) {
    out += fmt::format("\n{}", paragraph("Error of the plan's own profile, of a constant MFU, and what is tolerated:"));
    out += checks;
  }
  return out + "\n" + sources(evaluated);
}

std::string validation_json(const std::vector<EvaluatedCase>& cases) {
  Json json;
  json["plumbline"] = {{"version", model::version}, {"schema", model::schema}};
  json["passed"] = std::ranges::all_of(cases, &EvaluatedCase::holds);
  Json& list = json["cases"] = Json::array();
  for (const EvaluatedCase& evaluated : cases) {
    const ValidationCase& definition = evaluated.definition;
    Json figures = Json::array();
    for (const EvaluatedFigure& row : evaluated.figures) figures.push_back(figure_json(row, definition.profiles));
    list.push_back({{"name", definition.name},
                    {"plan", definition.plan},
                    {"profiles", definition.profiles},
                    {"naive",
                     {{"mfu", definition.naive_mfu},
                      {"step_time_s", evaluated.naive_step_s},
                      {"source", definition.naive_source}}},
                    {"passed", evaluated.holds()},
                    {"figures", figures}});
  }
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

}  // namespace plumbline::cli
