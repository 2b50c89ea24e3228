#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <string_view>
#include <utility>

#include "model/memory/memory.h"
#include "model/result/comparison.h"
#include "model/result/result.h"
#include "reports/quantities.h"
#include "reports/text/step/describe.h"
#include "reports/text/step/sections.h"
#include "reports/text/table.h"
#include "reports/text/whatif/whatif_report.h"

namespace plumbline::reports {
namespace {

constexpr std::size_t most_table_points = 256;  // of the table; a larger sweep shows its best points
constexpr std::size_t best_rows = 32;
constexpr std::size_t most_lines = 24;   // combinations that get sentences
constexpr std::size_t most_reasons = 8;  // of infeasible points

// Returns the coordinates of a point: "communication_sms 20, kind 1f1b".
std::string place(const sim::SweepResult& result, std::size_t point) {
  std::string text;
  for (std::size_t axis = 0; axis < result.grid.axes().size(); ++axis)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", result.grid.short_name(axis),
                        result.grid.value(point, axis).text);
  return text;
}

// Returns all points in order; of many the fastest.
std::vector<std::size_t> shown_points(const sim::SweepResult& result) {
  std::vector<std::size_t> points(result.points.size());
  std::iota(points.begin(), points.end(), 0);
  if (points.size() <= most_table_points) return points;
  std::erase_if(points, [&](std::size_t point) { return !sim::feasible(result.points[point]); });
  std::ranges::stable_sort(points, {}, [&](std::size_t point) { return sim::cost(result, point).value_or(0); });
  points.resize(std::min(points.size(), best_rows));
  return points;
}

constexpr const char* components = "components";

// A column; those after `components` divide that step, the others are of the middle.
struct Metric {
  std::string title;
  std::function<std::optional<std::string>(std::size_t point)> text;  // of a simulated point
};

using Text = std::optional<std::string>;

Text span_of(const std::optional<model::Quantiles>& range) { return range ? Text(seconds_span(*range)) : Text(); }

// The columns of deployments, in the middle of their intervals.
std::vector<Metric> columns_of_deployments(const sim::SweepResult& result) {
  const auto of = [&points = result.points](auto text) {
    return [&points, text](std::size_t i) {
      const model::ServingResult middle = model::middle_serving(*points[i]->serving);
      return Text(text(middle));
    };
  };
  const auto usd = [](std::optional<double> value) { return value ? fixed(*value, 3) : "-"; };
  return {{"TPOT", of([](auto& middle) { return duration(middle.tpot_s); })},
          {"eight of ten cases",
           [&](std::size_t i) {
             const auto& interval = result.points[i]->serving->interval;
             return interval ? span_of(interval->tpot_s) : Text();
           }},
          {"TTFT at load", of([](auto& middle) { return duration(middle.ttft_s); })},
          {"tokens/s/GPU", of([](auto& middle) { return number(middle.output_tokens_per_s_per_gpu); })},
          {"USD/M out", of([usd](auto& middle) { return usd(middle.usd_per_million_output_tokens); })},
          {"with prompts", of([usd](auto& middle) { return usd(middle.usd_per_million_tokens_all_in); })}};
}

std::vector<Metric> columns_of_steps(const sim::SweepResult& result) {
  const auto of = [&points = result.points](auto text) {
    return [&points, text](std::size_t i) { return Text(text(points[i]->result)); };
  };
  const auto of_run = [of](auto text) {
    return of([text](auto& step) {
      const auto run = model::middle_run(step);
      return run ? text(*run) : Text();
    });
  };
  const auto if_known = [](std::optional<double> value, auto text) { return value ? Text(text(*value)) : Text(); };
  const auto seconds = [](double value) { return duration(value); };
  const bool intervals = sim::has_intervals(result);
  return {
      {intervals ? "step" : components, of([](auto& step) { return duration(model::middle_step(step).time_s); })},
      {"eight of ten cases", of([](auto& step) { return step.interval ? span_of(step.interval->time_s) : Text(); })},
      result.same_tokens
          ? Metric{"MFU", of([](auto& step) { return percent(model::middle_step(step).mfu); })}
          : Metric{"tokens/s", of([](auto& step) { return grouped(model::middle_step(step).tokens_per_s); })},
      {"memory", of([](auto& step) { return gigabytes(step.memory.peak_bytes) + " GB"; })},
      {"days", of_run([](auto& run) { return Text(days_text(run.days)); })},
      {"cost", of_run([](auto& run) { return run.cost_usd ? Text(dollars(*run.cost_usd, 2)) : Text(); })},
      {components, of([=](auto& step) { return intervals ? Text(duration(step.step.time_s)) : Text(); })},
      {"exposed", of([=](auto& step) { return if_known(sim::exposed_seconds(step.step), seconds); })},
      {"of pairs",
       [&result, if_known](std::size_t i) {
         return if_known(sim::exposed_share(result.points[i]), [](double share) { return percent(share); });
       }},
      {"GEMM",
       [&result, if_known](std::size_t i) {
         return if_known(result.gemm_slowdowns[i], [](double slowdown) { return "x" + fixed(slowdown, 3); });
       }},
      {"bubble", of([=](auto& step) { return if_known(step.step.bubble_s, seconds); })}};
}

// The columns of steps of reinforcement learning; those after `components` divide that step.
std::vector<Metric> columns_of_rollouts(const sim::SweepResult& result) {
  const auto of = [&points = result.points](auto text) {
    return [&points, text](std::size_t i) { return Text(text(*points[i]->result.rollout)); };
  };
  const auto of_middle = [of](auto text) {
    return of([text](auto& rollout) {
      const model::RolloutResult middle = model::middle_rollout(rollout);
      return text(middle);
    });
  };
  const bool intervals = sim::has_intervals(result);
  return {{intervals ? "step" : components, of_middle([](auto& middle) { return duration(middle.step_s); })},
          {"eight of ten cases", of([](auto& rollout) { return span_of(rollout.interval_s); })},
          {"tokens/s/GPU", of_middle([](auto& middle) { return grouped(middle.tokens_per_s_per_gpu); })},
          {"USD/step",
           of_middle([](auto& middle) { return middle.step_usd ? fmt::format("{:.2f}", *middle.step_usd) : "-"; })},
          {components, of([=](auto& rollout) { return intervals ? Text(duration(rollout.step_s)) : Text(); })},
          {"generation", of([](auto& rollout) { return duration(rollout.seconds_of("engines")); })},
          {"training", of([](auto& rollout) { return duration(rollout.seconds_of("training")); })}};
}

// Returns whether more requests are in flight than have a place.
bool some_wait(const sim::SweepPoint& point) {
  return point.serving && point.serving->concurrency > point.serving->most_concurrency;
}

std::string remark(const sim::SweepResult& result, std::size_t point) {
  if (!result.points[point]) return "infeasible";
  const std::string best = point != result.best           ? ""
                           : !sim::of_deployments(result) ? "best"
                           : result.priced                ? "cheapest"
                                                          : "most";
  const auto& rollout = result.points[point]->result.rollout;
  const model::Fit fit =
      rollout && !rollout->memory.fits ? model::Fit::does_not_fit : model::fit_of(result.points[point]->result.memory);
  const auto with_best = [&](std::string_view text) {
    return best + (best.empty() || text.empty() ? "" : ", ") + std::string(text);
  };
  if (fit != model::Fit::fits) return with_best(model::to_string(fit));
  if (!sim::feasible(result.points[point])) return "over the limit";
  return with_best(some_wait(*result.points[point]) ? "some wait" : "");
}

std::string table(const sim::SweepResult& result) {
  using enum Align;
  const std::vector<std::size_t> shown = shown_points(result);
  const auto text_of = [&](const Metric& metric, std::size_t point) {
    return result.points[point] ? metric.text(point) : std::nullopt;
  };
  std::vector<Metric> shown_metrics = sim::of_rollouts(result)      ? columns_of_rollouts(result)
                                      : sim::of_deployments(result) ? columns_of_deployments(result)
                                                                    : columns_of_steps(result);
  std::erase_if(shown_metrics, [&](const Metric& metric) {
    return std::ranges::none_of(shown, [&](std::size_t point) { return text_of(metric, point).has_value(); });
  });
  std::vector<Column> columns;
  for (std::size_t axis = 0; axis < result.grid.axes().size(); ++axis)
    columns.push_back({result.grid.short_name(axis), result.grid.axes()[axis].numeric() ? right : left});
  for (const Metric& metric : shown_metrics) columns.push_back({metric.title, right});
  columns.push_back({""});
  Table table(columns);
  for (const std::size_t point : shown) {
    std::vector<std::string> row;
    for (std::size_t axis = 0; axis < result.grid.axes().size(); ++axis)
      row.push_back(result.grid.value(point, axis).text);
    for (const Metric& metric : shown_metrics) row.push_back(text_of(metric, point).value_or("-"));
    row.push_back(remark(result, point));
    table.add(std::move(row));
  }
  std::string text = table.to_string();
  if (shown.size() < result.points.size())
    text += paragraph(fmt::format("The {} {} of {} points; --csv and --json hold all.", shown.size(),
                                  sim::of_deployments(result) ? "best" : "fastest", result.points.size()));
  return text;
}

// Returns why points are infeasible or do not fit: the first few reasons, each with its first point.
std::string reasons(const sim::SweepResult& result) {
  struct Reason {
    std::string text;
    std::size_t first = 0, points = 0;
  };
  std::vector<Reason> found;
  for (std::size_t point = 0; point < result.points.size(); ++point) {
    const std::string text = sim::reason(result.points[point]);
    if (text.empty()) continue;
    auto known = std::ranges::find(found, text, &Reason::text);
    if (known == found.end() && found.size() <= most_reasons) known = found.insert(known, {text, point, 0});
    if (known != found.end()) ++known->points;
  }
  if (found.empty()) return "";
  std::string out = "\nNot feasible\n";
  for (std::size_t i = 0; i < std::min(found.size(), most_reasons); ++i) {
    const Reason& reason = found[i];
    const std::string others = reason.points > 1 ? fmt::format(" (and {} more)", reason.points - 1) : "";
    out += paragraph(fmt::format("{}{}: {}", place(result, reason.first), others, reason.text));
  }
  return found.size() > most_reasons ? out + paragraph("... and more; --csv and --json hold all.") : out;
}

const std::string& value_at(const sim::SweepResult& result, const sim::SweepLine& line, std::size_t position) {
  return result.grid.value(line.points[position], *result.grid.numeric_axis()).text;
}

std::string interval(const sim::SweepResult& result, const sim::SweepLine& line, const sim::Stretch& stretch) {
  if (stretch.first == stretch.last) return "at " + value_at(result, line, stretch.first) + " alone";
  return fmt::format("from {} to {}", value_at(result, line, stretch.first), value_at(result, line, stretch.last));
}

std::string hidden_words(const sim::SweepResult& result, const sim::SweepLine& line) {
  if (line.known == 0) return "";
  if (line.hidden.empty()) return "; communication is hidden in the pairs nowhere";
  if (line.hidden_everywhere()) return "; communication is hidden in the pairs everywhere";
  std::string text = "; communication is hidden in the pairs ";
  for (const sim::Stretch& stretch : line.hidden) {
    if (stretch != line.hidden.front()) text += ", and ";
    text += interval(result, line, stretch);
    const auto shows_at = [&](std::size_t position) {
      const auto share = sim::exposed_share(result.points[line.points[position]]);
      if (share)
        text += fmt::format(", at {} it shows with {} of them", value_at(result, line, position), percent(*share));
    };
    if (stretch.first > 0) shows_at(stretch.first - 1);
    if (stretch.last + 1 < line.points.size()) shows_at(stretch.last + 1);
  }
  return text;
}

// Returns what a point is best by: "10.00 s", or "$0.351".
std::string best_value(const sim::SweepResult& result, std::size_t point) {
  const sim::SweepPoint& best = *result.points[point];
  if (!best.serving) return duration(sim::middle_seconds(best));
  const model::ServingResult middle = model::middle_serving(*best.serving);
  return result.priced
             ? dollars(*middle.usd_per_million_tokens_all_in, 3) + " for a million output tokens with their prompts"
             : fmt::format("{} output tokens/s of a GPU", number(middle.output_tokens_per_s_per_gpu));
}

std::string line_sentence(const sim::SweepResult& result, const sim::SweepLine& line) {
  std::string text = result.grid.line_name(line.points.front());
  if (!text.empty()) text += ": ";
  if (!line.best) return text + "no point is feasible.";
  text += fmt::format("best at {} {} with {}, plateau {}", result.grid.short_name(*result.grid.numeric_axis()),
                      value_at(result, line, *line.best), best_value(result, line.points[*line.best]),
                      interval(result, line, line.plateau));
  return text + hidden_words(result, line) + ".";
}

const model::ServingResult* deployment_of(const sim::SweepResult& result, std::size_t point) {
  const auto& found = result.points[point];
  return found && found->serving && !found->serving->pools.empty() ? &*found->serving : nullptr;
}

// Returns what binds along a line: "weights from 1 to 64, compute at 256".
std::string bounds_words(const sim::SweepResult& result, const sim::SweepLine& line) {
  const auto bound = [&](std::size_t position) -> std::optional<model::ServingBound> {
    const model::ServingResult* one = deployment_of(result, line.points[position]);
    return one != nullptr ? std::optional(one->bound_by) : std::nullopt;
  };
  std::vector<std::string> words;
  for (std::size_t first = 0, next = 0; first < line.points.size(); first = next) {
    for (next = first + 1; next < line.points.size() && bound(next) == bound(first);) ++next;
    if (!bound(first)) continue;
    const std::string where =
        next == first + 1 ? "at " + value_at(result, line, first) : interval(result, line, {first, next - 1});
    words.push_back(fmt::format("{} {}", model::to_string(*bound(first)), where));
  }
  return fmt::format("{}", fmt::join(words, ", "));
}

// Returns by which parts of a step the GPU time of output tokens differs between two deployments; "" where it does not.
std::string change_sentence(const sim::SweepResult& result, std::size_t from, std::size_t to) {
  const model::ServingResult *a = deployment_of(result, from), *b = deployment_of(result, to);
  if (a == nullptr || b == nullptr) return "";
  const model::Waterfall changes = model::waterfall(*a, *b);
  const std::string reasons = model::main_reasons(changes);
  if (reasons.empty()) return "";
  return fmt::format("From {} to {} a thousand output tokens take {} {} GPU time: {}.", place(result, from),
                     place(result, to), duration(std::abs(changes.change_s())),
                     changes.change_s() < 0 ? "less" : "more", reasons);
}

// Returns what binds along a line, and by what the deployments at its ends are dearer than its best one.
std::string why(const sim::SweepResult& result, const sim::SweepLine& line) {
  std::string text;
  if (const std::string bounds = bounds_words(result, line); !bounds.empty())
    text += paragraph(fmt::format("What binds: {}.", bounds));
  if (!line.best) return text;
  const auto add = [&](std::size_t from, std::size_t to) {
    if (const std::string change = change_sentence(result, line.points[from], line.points[to]); !change.empty())
      text += paragraph(change);
  };
  std::size_t first = *line.best, last = *line.best;  // that are predicted
  for (std::size_t position = 0; position < line.points.size(); ++position) {
    if (deployment_of(result, line.points[position]) == nullptr) continue;
    first = std::min(first, position);
    last = std::max(last, position);
  }
  if (first < *line.best) add(first, *line.best);
  if (last > *line.best) add(*line.best, last);
  return text;
}

// Returns by what the best deployment differs from the next best one.
std::string why_best(const sim::SweepResult& result) {
  std::optional<std::size_t> next;
  for (std::size_t point = 0; point < result.points.size(); ++point) {
    const auto cost = sim::cost(result, point);
    if (point != result.best && cost && (!next || *cost < *sim::cost(result, *next))) next = point;
  }
  const std::string change = next ? change_sentence(result, *next, *result.best) : "";
  return change.empty() ? "" : paragraph(change);
}

std::string findings(const sim::SweepResult& result) {
  std::string text = "\n";
  if (!result.best) return text + paragraph("No point is feasible.");
  const bool deployments = sim::of_deployments(result), intervals = sim::has_intervals(result);
  text += paragraph(fmt::format("{}: {}, {}{}.", deployments && result.priced ? "Cheapest" : "Best",
                                place(result, *result.best), deployments ? "" : "a step of ",
                                best_value(result, *result.best)));
  if (!intervals)
    text += components_sentence(deployments);
  else
    text += paragraph(
        deployments ? "Times, rates and costs are the middle of their draws."
                    : "Steps are as clusters run them; what follows \"components\" divides what these add up to.");
  if (std::ranges::any_of(result.points, [](const auto& point) { return point && some_wait(*point); }))
    text += paragraph(
        "Where some wait, more requests are in flight than have a place; the others wait for one before their first "
        "token.");
  if (!result.same_tokens)
    text += paragraph("The points train on different numbers of tokens per step; the best has the most tokens/s.");
  if (!result.grid.numeric_axis()) return deployments ? text + why_best(result) : text;
  const std::string hidden = deployments || sim::of_rollouts(result)
                                 ? ""
                                 : fmt::format("; hidden: at most {} of the pairs", percent(result.limits.hidden));
  const std::string along =
      fmt::format("Along {} (plateau: at most {} {}{})", result.grid.axes()[*result.grid.numeric_axis()].key,
                  percent(result.limits.plateau), deployments && result.priced ? "dearer" : "slower", hidden);
  text += "\n" + wrapped(along);
  for (std::size_t i = 0; i < std::min(result.lines.size(), most_lines); ++i) {
    text += paragraph(line_sentence(result, result.lines[i]));
    if (deployments) text += why(result, result.lines[i]);
  }
  if (result.lines.size() > most_lines)
    text += paragraph(fmt::format("... and {} more combinations; --json holds all.", result.lines.size() - most_lines));
  return text;
}

// Returns a row for each point: where it lies, `quantities` of its answer by `cells`, and where points have intervals
// the `range` of what is `ranged`.
template <class CellsOf, class RangeOf>
std::string points_csv(const sim::SweepResult& result, const std::vector<std::string>& quantities,
                       const CellsOf& cells_of, const char* ranged, const RangeOf& range_of) {
  std::vector<std::string> columns;
  for (const sim::SweepAxis& axis : result.grid.axes()) columns.push_back(axis.key);
  columns.insert(columns.end(), {"feasible", "best"});
  columns.insert(columns.end(), quantities.begin(), quantities.end());
  columns.emplace_back("reason");
  const bool intervals = sim::has_intervals(result);
  for (const char* end : {"p10", "p50", "p90"})
    if (intervals) columns.push_back(fmt::format("{}_{}_s", ranged, end));
  CsvTable table(columns);
  for (std::size_t i = 0; i < result.points.size(); ++i) {
    const auto& point = result.points[i];
    std::vector<std::string> row;
    for (std::size_t axis = 0; axis < result.grid.axes().size(); ++axis) row.push_back(result.grid.value(i, axis).text);
    row.insert(row.end(), {sim::feasible(point) ? "1" : "0", i == result.best ? "1" : "0"});
    std::vector<std::string> cells = point ? cells_of(i) : std::vector<std::string>();
    cells.resize(quantities.size());
    row.insert(row.end(), cells.begin(), cells.end());
    row.push_back(sim::reason(point));
    const std::optional<model::Quantiles> range = point ? range_of(*point) : std::nullopt;
    for (const auto end : {&model::Quantiles::p10, &model::Quantiles::p50, &model::Quantiles::p90})
      if (intervals) row.push_back(range ? csv_cell((*range).*end) : "");
    table.add(row);
  }
  return table.text();
}

// The columns are those of the JSON's serving.
std::string deployments_csv(const sim::SweepResult& result) {
  std::vector<std::string> quantities;
  visit_serving(model::ServingResult(), [&](const char* key, const auto&, auto...) { quantities.emplace_back(key); });
  quantities.emplace_back("bound_by");
  const auto cells = [&](std::size_t i) {
    std::vector<std::string> row;
    const auto& serving = result.points[i]->serving;
    if (!serving) return row;
    visit_serving(*serving, [&](const char*, const auto& value, auto...) { row.push_back(csv_cell(value)); });
    row.emplace_back(model::to_string(serving->bound_by));
    return row;
  };
  return points_csv(result, quantities, cells, "tpot", [](const sim::SweepPoint& point) {
    return point.serving && point.serving->interval ? point.serving->interval->tpot_s : std::nullopt;
  });
}

}  // namespace

std::string model_title(const sim::SweepResult& result) {
  model::Plan plan = result.plan;
  std::erase_if(plan.model.overrides, [&](const auto& change) {
    return std::ranges::find(result.grid.axes(), "model." + change.first, &sim::SweepAxis::key) !=
           result.grid.axes().end();
  });
  return model_name(plan);
}

std::string components_sentence(bool deployments) {
  return paragraph(
      deployments ? "Times are what components add up to; a sweep with --interval shows the middle of their draws."
                  : "Steps are what their components add up to; a sweep with --interval shows them as clusters run "
                    "them.");
}

std::string sweep_text(const sim::SweepResult& result, bool color) {
  const std::string title = fmt::format("{}: {} points, fidelity {}", model_title(result),
                                        grouped(result.points.size()), sim::to_string(result.fidelity));
  return bold(title, {color}) + "\n\n" + table(result) + reasons(result) + findings(result);
}

std::string sweep_csv(const sim::SweepResult& result) {
  if (sim::of_deployments(result)) return deployments_csv(result);
  if (sim::of_rollouts(result)) return rollout_sweep_csv(result);
  const auto cells = [&](std::size_t i) {
    const sim::SweepPoint& point = *result.points[i];
    const model::StepTimes& step = point.result.step;
    std::vector<std::string> row;
    for (const std::optional<double>& value :
         {std::optional(step.time_s), sim::exposed_seconds(step), sim::exposed_share(result.points[i]),
          sim::gemm_seconds(step), result.gemm_slowdowns[i], std::optional(step.tokens_per_s), std::optional(step.mfu),
          std::optional(step.mfu_causal), step.bubble_s, step.optimizer_s,
          std::optional(point.result.memory.peak_bytes), std::optional(point.result.memory.capacity_bytes)})
      row.push_back(csv_cell(value));
    return row;
  };
  return points_csv(
      result,
      {"step_time_s", "exposed_communication_s", "exposed_communication_share", "gemm_s", "gemm_slowdown",
       "tokens_per_s", "mfu", "mfu_causal", "bubble_s", "optimizer_s", "peak_memory_bytes", "memory_capacity_bytes"},
      cells, "step_time", [](const sim::SweepPoint& point) {
        return point.result.interval ? std::optional(point.result.interval->time_s) : std::nullopt;
      });
}

}  // namespace plumbline::reports
