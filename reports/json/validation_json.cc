#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "calibrate/residuals/regression.h"
#include "calibrate/validate/step_case.h"
#include "reports/json/detail/shared_fields.h"
#include "reports/text/compare/validation_report.h"

namespace plumbline::reports {
namespace {

using Json = nlohmann::ordered_json;

// Returns values by the names of their profiles.
Stated<Json> by_profile(const std::vector<std::string>& profiles, const std::vector<std::optional<double>>& values) {
  Json json = Json::object();
  for (std::size_t i = 0; i < values.size(); ++i) json[profiles[i]] = written<Json>(values[i]);
  return {json, {{"type", "object"}, {"additionalProperties", {{"type", {"number", "null"}}}}}};
}

void ends_of_range(auto& to, const model::Quantiles& range) {
  to("p10", "one in ten lies below", range.p10);
  to("p50", "the median", range.p50);
  to("p90", "nine in ten lie below", range.p90);
}

// Returns where a published figure lies in the intervals of the profiles that have one.
Stated<Json> intervals_by_profile(const calibrate::EvaluatedFigure& row, const std::vector<std::string>& profiles) {
  const auto of = [&row](const model::Quantiles& interval) {
    return Object([&row, interval](auto& to) {
      ends_of_range(to, interval);
      to("inside", "whether the measurement lies in the range", interval.contains(row.figure.value));
      to("share_below", "share of the range below the measurement", interval.share_below(row.figure.value));
    });
  };
  Json json = Json::object();
  for (std::size_t i = 0; i < row.intervals.size(); ++i)
    if (const auto& interval = row.intervals[i]) json[profiles[i]] = written<Json>(of(*interval));
  return {json, {{"type", "object"}, {"additionalProperties", Schema<Json>::of(of(model::Quantiles()))}}};
}

void figure_fields(auto& to, const calibrate::EvaluatedFigure& row, const std::vector<std::string>& profiles) {
  const calibrate::Figure& figure = row.figure;
  std::vector<std::optional<double>> errors;
  for (const std::optional<double>& value : row.predicted) errors.push_back(calibrate::error_of(figure, value));
  to("name", "name of the figure", figure.name);
  to("metric", "quantity that is looked at", figure.metric);
  to("group", "name of the figures that belong together", unless_empty(figure.group));
  to("unit", "unit of the value", figure.unit);
  to("published", "the published figure", figure.value);
  to("predicted", "what was predicted", by_profile(profiles, row.predicted));
  to("error", "prediction over measurement, less 1", by_profile(profiles, errors));
  to("interval", "range with p10, p50 and p90", intervals_by_profile(row, profiles));
  to("naive", "the prediction of FLOPs over peak times a typical utilization", row.naive);
  to("naive_error", "error of the naive prediction, relative", calibrate::error_of(figure, row.naive));
  to("tolerance", "largest error that passes, relative", figure.tolerance);
  to("absolute_tolerance", "largest difference that passes, in the unit of the figure", figure.absolute_tolerance);
  to("at_most", "whether the published figure is an upper limit", figure.at_most);
  to("aim", "error that the project aims at", figure.aim);
  to("within_tolerance", "whether the error is within the tolerance", row.within);
  to("source", "where it is from", figure.source);
}

void aggregate_fields(auto& to, const calibrate::EvaluatedAggregate& row, const std::vector<std::string>& profiles) {
  to("name", "name of the aggregate", row.aggregate.name);
  to("over", "figures that the statistic is of", row.aggregate.over);
  to("statistic", "statistic of the errors", row.aggregate.statistic);
  to("value", "the value", by_profile(profiles, row.values));
  to("tolerance", "largest error that passes, relative", row.aggregate.tolerance);
  to("within_tolerance", "whether the error is within the tolerance", row.within);
}

constexpr const char* of_passed = "whether all figures of the case are within their tolerances";
constexpr const char* of_naive = "the prediction of FLOPs over peak times a typical utilization";

std::optional<calibrate::IntervalScore> score_of(const calibrate::IntervalScore& score) {
  return where(score.rows > 0, score);
}

}  // namespace

void fields(auto& to, const calibrate::EvaluatedCase& evaluated) {
  const calibrate::ValidationCase& definition = evaluated.definition;
  to("name", "name of the case", definition.name);
  to("plan", "plan of the case", definition.plan);
  to("profiles", "profiles of the predictions", definition.profiles);
  to("naive", of_naive, Object([&](auto& part_to) {
       part_to("mfu", "model FLOPs utilization", definition.naive_mfu);
       part_to("step_time_s", "seconds of the naive step", if_finite(evaluated.naive_step_s));
       part_to("source", "where it is from", definition.naive_source);
     }));
  to("passed", of_passed, evaluated.holds());
  to("figures", "published figures, predicted",
     List(evaluated.figures, [&](auto& row_to, const calibrate::EvaluatedFigure& row) {
       figure_fields(row_to, row, definition.profiles);
     }));
  to("aggregates", "statistics over several figures, each with its tolerance",
     List(evaluated.aggregates, [&](auto& row_to, const calibrate::EvaluatedAggregate& row) {
       aggregate_fields(row_to, row, definition.profiles);
     }));
}

void fields(auto& to, const calibrate::PredictedRange& range) {
  ends_of_range(to, range.quantiles);
  to("pit", "where the measured value lies", if_finite(range.below()));
}

void memory_of_step(auto& to, const calibrate::ComparedStep& row) {
  const auto& measured = row.step.memory_bytes;
  const auto error = measured && row.peak_bytes ? std::optional(*row.comparable_bytes - *measured) : std::nullopt;
  to("measured_bytes", "measured peak of memory", measured);
  to("predicted_peak_bytes", "predicted peak of memory", row.peak_bytes);
  to("predicted_comparable_bytes", "predicted bytes of what the source counts", row.comparable_bytes);
  to("error_bytes", "predicted less measured bytes, relative", error);
  to("interval", "range with p10, p50 and p90", row.ranges.memory);
  to("fits", "whether it fits in memory",
     row.peak_bytes ? std::optional(*row.peak_bytes <= row.capacity_bytes) : std::nullopt);
  to("fits_probability", "probability to fit in memory", row.ranges.fits_probability);
}

void fields(auto& to, const calibrate::ComparedStep& row) {
  const calibrate::PublishedStep& step = row.step;
  const auto memory = where(step.memory_bytes || row.peak_bytes, &row);
  to("id", "identifier", step.id);
  to("set", "set that the step belongs to", step.set);
  to("variant", "what differs from the other steps of the row", step.variant);
  to("model", "name of the model", step.model);
  to("hardware", "GPU and cluster of the published step", step.hardware);
  to("layout", "degrees of parallelism in words", step.layout());
  to("profile", "profile with the constants", unless_empty(row.profile));
  to("measured_s", "measured seconds", step.seconds);
  to("measured_from", "how the figure was measured", unless_empty(step.time));
  to("predicted_s", "predicted seconds", row.predicted);
  to("error", "prediction over measurement, less 1", row.prediction_error());
  to("interval", "range with p10, p50 and p90", row.ranges.step);
  to("baseline_s", "step of the baseline", row.baseline);
  to("baseline_error", "error of the baseline, relative", row.baseline_error());
  to("memory", "memory of the ranks", Maybe(memory, [](auto& memory_to, const calibrate::ComparedStep* of) {
       static const calibrate::ComparedStep none;
       memory_of_step(memory_to, of == nullptr ? none : *of);
     }));
  to("lacks", "what the source does not state", row.lacking);
  to("assumed", "what was assumed because the source is silent", step.assumed);
  to("not_modelled", "what the step has and the prediction has not", row.missing);
  to("held_out", "whether no constant rests on the set", row.held_out);
  to("not_simulated", "why the step is not predicted", row.error ? std::optional(row.error->message) : std::nullopt);
  to("source", "where it is from", step.source);
}

void fields(auto& to, const calibrate::ErrorStatistics& errors) {
  to("median_absolute", "median absolute error, relative", errors.median_absolute);
  to("largest", "largest absolute error, relative", errors.largest);
  to("mean_absolute", "mean absolute error, relative", errors.mean_absolute);
  to("bias", "mean error, relative", errors.bias);
}

void fields(auto& to, const calibrate::PlanOrder& order) {
  to("name", "name of the order", order.name);
  to("runs", "measured runs", order.clusters);
  to("plans", "how many plans are ranked", order.rows);
  to("tau", "rank correlation by Kendall", order.tau);
  to("regret", "measured time of the plan ranked first over the best, less 1", order.regret);
  to("random_regret", "regret of a plan drawn at random", order.random_regret);
}

void fields(auto& to, const calibrate::IntervalScore& score) {
  to("rows", "rows", score.rows);
  to("coverage", "share of the measured values inside", score.coverage);
  to("half_width", "mean half width of the range, relative", score.half_width);
  to("pinball", "mean pinball loss of the range", score.pinball);
  to("middle", "errors of the median of the range", score.middle);
  to("tenths", "measured values in each tenth of the predicted distribution", score.tenths);
}

void fields(auto& to, const calibrate::StepSummary& summary) {
  to("name", "name of the summary", summary.name);
  to("rows", "rows", summary.prediction.rows);
  to("prediction", "errors of the prediction", summary.prediction);
  to("baseline", "what the errors of a prediction without the method are", summary.baseline);
  to("memory", "memory of the ranks", where(summary.memory.rows > 0, summary.memory));
  to("stated_fits", "plans with a stated fit in memory", summary.stated_fits);
  to("right_fits", "plans whose fit in memory was predicted right", summary.right_fits);
}

void fields(auto& to, const calibrate::ResidualRegression& set) {
  to("name", "name of the residual", set.name);
  to("rows", "rows", set.rows);
  to("before", "spread of errors as they are", set.before);
  to("after", "spread of errors after the causes are taken out", set.after);
  to("causes", "what errors have in common, the largest share first",
     List(set.causes, [](auto& cause_to, const calibrate::ResidualCause& cause) {
       cause_to("cause", "what causes it", cause.cause);
       cause_to("share", "share of the steps", cause.share);
       cause_to("excess", "mean error of the steps with the cause over that of the others", cause.excess);
       cause_to("uncertainty", "standard error of the excess", cause.uncertainty);
       cause_to("explains", "share of the spread of errors that it explains", cause.explains);
     }));
}

void fields(auto& to, const calibrate::StepComparison& comparison) {
  const calibrate::StepCase& definition = comparison.definition;
  to("name", "name of the case", definition.name);
  to("naive", of_naive, Object([&](auto& part_to) {
       part_to("mfu", "model FLOPs utilization", definition.naive_mfu);
       part_to("source", "where it is from", definition.naive_source);
     }));
  to("passed", of_passed, comparison.holds());
  to("steps", "published steps, predicted", comparison.steps);
  to("summaries", "errors by set", comparison.summaries);
  to("orders", "whether plans are ranked as measured", comparison.orders);
  to("scatter", "spread of errors between plans of one model", Object([&](auto& part_to) {
       part_to("schedules", "schedules one by one", if_finite(comparison.scatter.schedules));
       part_to("layouts", "what was varied between the compared plans", if_finite(comparison.scatter.layouts));
     }));
  to("residuals", "what errors of predicted steps have in common", comparison.residuals);
  to("demands", "what is asked of the errors on a set of steps",
     List(comparison.demands, [](auto& row_to, const calibrate::ComparedDemand& row) {
       fields(row_to, row.summary);
       row_to("mean_absolute_error_tolerance", "largest mean absolute error that passes",
              row.demand.mean_absolute_error);
       row_to("bias_tolerance", "largest mean error that passes", row.demand.bias);
       row_to("within_tolerance", "whether the error is within the tolerance", row.holds());
       row_to("reaches_aim", "whether the aim is reached", row.reaches_aim());
     }));
}

// A set and how well its ranges hold.
void fields(auto& to, const std::pair<std::string, calibrate::RangeScores>& set) {
  const auto& [name, ranges] = set;
  const calibrate::FitVerdicts& fits = ranges.fits;
  to("name", "name of the choice", name);
  to("step", "ranges of the step time", score_of(ranges.step));
  to("baseline", "what the errors of a prediction without the method are", score_of(ranges.baseline));
  to("memory", "ranges of the memory", score_of(ranges.memory));
  to("fits_brier", "Brier score of the probability to fit", if_finite(fits.brier));
  to("fits", "verdicts on memory of rows of which it is known whether they ran", Object([&fits](auto& part_to) {
       part_to("rows", "rows with a probability to fit", fits.rows);
       part_to("fit", "rows said to fit, with 95 % or more", fits.fit);
       part_to("fit_wrong", "of those, rows that ended for lack of memory", fits.fit_wrong);
       part_to("unfit", "rows said not to fit, with less than 5 %", fits.unfit);
       part_to("unfit_wrong", "of those, rows that ran", fits.unfit_wrong);
     }));
}

namespace {

// Errors of a table's or family's rows by a profile, with the goal of a family.
struct ComponentRow {
  std::string profile;
  calibrate::HeldOutSummary errors;
  std::optional<double> goal, goal_p90;
};

std::vector<ComponentRow> component_rows(const calibrate::ComponentComparison& comparison) {
  std::vector<ComponentRow> rows;
  for (const calibrate::ComponentErrors& errors : comparison.profiles)
    for (const calibrate::HeldOutSummary& of : errors.summaries) {
      const calibrate::ComponentGoal* goal = of.table.empty() ? comparison.goal(of.family) : nullptr;
      rows.push_back({errors.profile, of, std::nullopt, std::nullopt});
      if (goal == nullptr) continue;
      rows.back().goal = goal->median;
      rows.back().goal_p90 = goal->p90;
    }
  return rows;
}

}  // namespace

void fields(auto& to, const calibrate::ComponentComparison& comparison) {
  const std::vector<ComponentRow> rows = component_rows(comparison);
  to("name", "name of the case", comparison.definition.name);
  to("passed", of_passed, comparison.holds());
  to("components", "errors on measured kernels and collectives, by table",
     List(rows, [](auto& row_to, const ComponentRow& row) {
       row_to("profile", "profile with the constants", row.profile);
       row_to("family", "class of kernels or collectives", row.errors.family);
       row_to("table", "component table", unless_empty(row.errors.table));
       row_to("fitted_rows", "rows that constants were fitted to", row.errors.fitted_rows);
       row_to("rows", "rows", row.errors.rows);
       row_to("median", "median error, relative", row.errors.median);
       row_to("p90", "nine in ten lie below", row.errors.p90);
       row_to("roofline_median", "median error of the roofline", row.errors.roofline_median);
       row_to("roofline_p90", "error of the roofline in nine of ten rows", row.errors.roofline_p90);
       row_to("goal", "median error that the project aims at", row.goal);
       row_to("goal_p90", "error of nine in ten rows that the project aims at", row.goal_p90);
     }));
}

void fields(auto& to, const calibrate::ServingSummary& summary) {
  to("name", "name of the summary", summary.name);
  to("figure", "figure whose errors are summed up", summary.figure);
  to("prediction", "errors of the prediction", summary.prediction);
  to("roofline", "errors of the roofline prediction", summary.roofline);
  to("interval", "range with p10, p50 and p90", score_of(summary.interval));
}

void fields(auto& to, const calibrate::ComparedServing& row) {
  to("id", "identifier", row.row.id);
  to("set", "set of steps that it belongs to", row.row.set);
  to("average", "whether the source states a mean over a varying load, or one that cannot be its own", row.row.average);
  to("lacking", "what the source does not state", row.lacking);
  to("error", "why it is not predicted", row.error ? std::optional(row.error->message) : std::nullopt);
  to("figures", "published figures, predicted",
     List(row.figures, [](auto& figure_to, const calibrate::ComparedFigure& figure) {
       figure_to("name", "name of the figure", figure.name);
       figure_to("published", "the published figure", figure.published);
       figure_to("predicted", "what was predicted", figure.predicted);
       figure_to("error", "prediction over measurement, less 1", figure.error());
       figure_to("roofline", "errors of the roofline prediction", figure.roofline);
     }));
}

void fields(auto& to, const calibrate::ServingComparison& comparison) {
  to("name", "name of the case", comparison.definition.name);
  to("passed", of_passed, comparison.holds());
  to("deployments", "published deployments that serve, predicted", comparison.rows);
  to("summaries", "errors by set", comparison.summaries);
  to("demands", "what is asked of the errors on a set of steps",
     List(comparison.demands, [](auto& row_to, const calibrate::ComparedServingDemand& demand) {
       fields(row_to, demand.summary);
       row_to("aim", "error that the project aims at", demand.demand.aim);
       row_to("tolerance", "largest error that passes, relative", demand.demand.limit);
       row_to("within_tolerance", "whether the error is within the tolerance", demand.holds());
       row_to("reaches_aim", "whether the aim is reached", demand.reaches_aim());
     }));
  to("orders", "whether plans are ranked as measured", comparison.orders);
  to("tensor_ratios", "predicted over measured bytes of tensors",
     List(comparison.ratios, [](auto& row_to, const calibrate::TensorRatios& ratios) {
       row_to("set", "set of steps that it belongs to", ratios.set);
       row_to("rows", "rows", ratios.rows);
       row_to("median_error", "median error, relative", ratios.median_error);
     }));
  to("splits", "TPOT = a + P / OSL over output lengths, by set",
     List(comparison.splits, [](auto& row_to, const calibrate::TokenTimeSplit& split) {
       row_to("set", "set of rows", split.set);
       row_to("deployments", "deployments of two output lengths or more", split.decode.rows);
       row_to("decode", "errors of a", split.decode);
       row_to("prompts", "differences of P / OSL over the TPOT of the shortest output", split.prompts);
     }));
  to("engines", "rows that state all that decides them",
     List(comparison.engines, [](auto& row_to, const calibrate::ComparableRows& rows) {
       row_to("engine", "engine that serves", rows.engine);
       row_to("rows", "rows", rows.rows);
       row_to("sets", "their sets", rows.sets);
     }));
}

namespace {

Stated<Json> cases_of(const ValidationOutcome& outcome) {
  Json list = Json::array(), forms = Json::array();
  const auto add = [&](const auto& cases) {
    using Case = typename std::decay_t<decltype(cases)>::value_type;
    for (const Case& one : cases) list.push_back(written<Json>(one));
    forms.push_back(Schema<Json>::in_full(Case()));
  };
  add(outcome.figures);
  add(outcome.steps);
  add(outcome.components);
  add(outcome.serving);
  return {list, {{"type", "array"}, {"items", {{"anyOf", forms}}}}};
}

}  // namespace

void fields(auto& to, const ValidationOutcome& outcome) {
  const calibrate::IntervalScores scores = calibrate::interval_scores(outcome.steps);
  const bool passed = scores.holds() && std::ranges::all_of(outcome.figures, &calibrate::EvaluatedCase::holds) &&
                      std::ranges::all_of(outcome.steps, &calibrate::StepComparison::holds) &&
                      std::ranges::all_of(outcome.components, &calibrate::ComponentComparison::holds) &&
                      std::ranges::all_of(outcome.serving, &calibrate::ServingComparison::holds);
  to("passed", "whether all cases passed", passed);
  to("cases", "of figures, of steps, of components, of deployments", cases_of(outcome));
  to("intervals", "how good the predicted ranges are", scores.scores);
  to("complete", "false: it was interrupted", outcome.complete);
}

namespace {

bool lists_objects(const Json& value) { return value.is_array() && !value.empty() && value.front().is_object(); }

// Adds a row of a table, or, where it has a list of objects (the figures of a deployment), one for each of these.
void add_rows(const Json& head, const Json& object, Json& rows) {
  Json row = head;
  row.update(object);
  const auto list = std::ranges::find_if(object.items(), [](const auto& item) { return lists_objects(item.value()); });
  if (list == object.items().end()) {
    rows.push_back(std::move(row));
    return;
  }
  for (const Json& part : list.value()) {
    row[list.key()] = part;
    rows.push_back(row);
  }
}

// A predicted range of an entry, and the measured value where there is one.
void ledger_range(auto& to, const model::Quantiles& range, std::optional<double> measured) {
  const double value = measured.value_or(1);
  ends_of_range(to, range);
  to("measured", "what was measured", measured);
  to.only_where(measured.has_value(), "inside", "whether the measurement lies in the range, or how many do",
                range.contains(value));
  to.only_where(measured.has_value(), "share_below", "share of the range below the measurement",
                range.share_below(value));
  to.only_where(measured.has_value(), "error", "prediction over measurement, less 1", range.p50 / value - 1);
}

}  // namespace

void fields(auto& to, const calibrate::LedgerEntry& entry) {
  const auto& measured = entry.measured;
  to("file", "file of the entry", entry.path);
  to("date", "day on which it was made (ISO 8601)", entry.date);
  to("revision", "commit of the code", entry.revision);
  to("plan", "the plan", entry.plan);
  to("profile", "profile with the constants", entry.profile);
  to("stack", "software stack", unless_empty(entry.stack));
  to("constants_hash", "hash of all constants of the prediction", entry.constants_hash);
  to("time_s", "seconds of the step", Object([&](auto& part_to) {
       ledger_range(part_to, entry.time, measured ? std::optional(measured->time_s) : std::nullopt);
     }));
  to("peak_bytes", "bytes of the fullest rank", Object([&](auto& part_to) {
       ledger_range(part_to, entry.peak_bytes, measured ? measured->peak_bytes : std::nullopt);
     }));
  to("measured_date", "day of the measurement (ISO 8601)", measured ? std::optional(measured->date) : std::nullopt);
  to("source", "where it is from", measured ? std::optional(measured->source) : std::nullopt);
}

namespace {

void ledger_fields(auto& to, const std::vector<calibrate::LedgerEntry>& entries) {
  const auto inside = [](const calibrate::LedgerEntry& entry) {
    return entry.measured && entry.time.contains(entry.measured->time_s);
  };
  const auto measured = std::ranges::count_if(entries, [](const auto& entry) { return entry.measured.has_value(); });
  to("measured", "entries with a measurement", measured);
  to("open", "predictions without a measurement yet", static_cast<std::ptrdiff_t>(entries.size()) - measured);
  to("inside", "how many measurements lie in their range", std::ranges::count_if(entries, inside));
  to("entries", "predictions that were written down before their measurement", entries);
}

}  // namespace

std::string validation_json(const ValidationOutcome& outcome) { return document("validate", written<Json>(outcome)); }

std::string validation_csv(const ValidationOutcome& outcome) {
  Json rows = Json::array();
  for (const Json& one : cases_of(outcome).value)
    for (const auto& [table, list] : one.items()) {
      if (!lists_objects(list)) continue;
      for (const Json& row : list) add_rows({{"case", one["name"]}, {"table", table}}, row, rows);
    }
  for (const auto& set : calibrate::interval_scores(outcome.steps).scores)
    add_rows({{"case", nullptr}, {"table", "intervals"}}, written<Json>(set), rows);
  return csv_of_rows(rows);
}

std::string validation_schema() { return schema_of<Json, ValidationOutcome>(); }

std::string ledger_json(const std::vector<calibrate::LedgerEntry>& entries) {
  return document("validate-ledger", object_of<Json>([&](auto& to) { ledger_fields(to, entries); }));
}

std::string ledger_csv(const std::vector<calibrate::LedgerEntry>& entries) {
  return csv_of_rows(written<Json>(entries));
}

std::string ledger_schema() {
  return keys_schema<Json>([](auto& to) { ledger_fields(to, {}); });
}

}  // namespace plumbline::reports
