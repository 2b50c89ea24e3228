// Published training steps with their predictions, as text.
#include <fmt/format.h>

#include <cmath>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "calibrate/residuals/regression.h"
#include "calibrate/validate/step_case.h"
#include "model/base/text.h"
#include "reports/charts/charts.h"
#include "reports/text/compare/validation_report.h"
#include "reports/text/table.h"

namespace plumbline::reports {
namespace {

constexpr std::size_t most_steps = 200;  // of a case whose rows are printed one by one

using calibrate::StepComparison;

std::string error_text(std::optional<double> error) { return error ? signed_tight_percent(*error) : "-"; }

std::string baseline_name(const StepComparison& comparison) {
  return fmt::format("MFU {:.0f} %", comparison.definition.naive_mfu * 100);
}

// Returns the table of rows with a prediction that share set and hardware, from `first` on; moves `first` past them.
std::string next_table(const StepComparison& comparison, std::size_t& first) {
  Table table(fmt::format("row | model | >GPUs | layout | >measured | >predicted, s | >error | >{}",
                          baseline_name(comparison)));
  const calibrate::PublishedStep& group = comparison.steps[first].step;
  for (; first < comparison.steps.size(); ++first) {
    const calibrate::ComparedStep& row = comparison.steps[first];
    if (row.step.set != group.set || row.step.hardware != group.hardware) break;
    if (!row.prediction_error()) continue;
    table.row(row.step.id, row.step.model, row.step.numbers.at("gpus"), row.step.layout(), number(*row.step.seconds),
              number(*row.predicted), error_text(row.prediction_error()), error_text(row.baseline_error()));
  }
  return table.empty() ? "" : fmt::format("{}, {}:\n{}\n", group.set, group.hardware, table.to_string());
}

std::string steps_table(const StepComparison& comparison) {
  std::string out;
  for (std::size_t first = 0; first < comparison.steps.size();) out += next_table(comparison, first);
  return out;
}

std::string memory_table(const StepComparison& comparison) {
  Table table("row | model | layout | >measured, GB | >predicted | >difference | ");
  for (const calibrate::ComparedStep& row : comparison.steps) {
    if (!row.peak_bytes || !row.step.memory_bytes) continue;
    const double difference = *row.comparable_bytes - *row.step.memory_bytes;
    table.add({row.step.id, row.step.model, row.step.layout(), gigabytes(*row.step.memory_bytes),
               gigabytes(*row.comparable_bytes), fmt::format("{:+.1f}", difference / 1e9),
               *row.peak_bytes <= row.capacity_bytes ? "fits" : "does not fit"});
  }
  return table.empty() ? "" : paragraph("Memory of the fullest GPU:") + table.to_string() + "\n";
}

void add_errors(const std::string& name, std::string_view who, const calibrate::ErrorStatistics& errors, Table& table) {
  table.row(name, who, errors.rows > 0 ? fmt::format("{}", errors.rows) : "", tight_percent(errors.median_absolute),
            error_text(errors.largest), tight_percent(errors.mean_absolute), error_text(errors.bias));
}

std::string summary_table(const StepComparison& comparison) {
  Table table("set | by | >rows | >median | >largest | >mean absolute | >bias");
  const auto add = [&](const calibrate::StepSummary& summary) {
    add_errors(summary.name, "prediction", summary.prediction, table);
    add_errors("", baseline_name(comparison), summary.baseline, table);
  };
  for (const calibrate::StepSummary& summary : comparison.summaries) add(summary);
  for (const calibrate::ComparedDemand& row : comparison.demands) add(row.summary);
  return table.to_string();
}

// Returns the errors of predicted memory by set, and how often a run is rightly predicted to fit or not.
std::string memory_summary(const StepComparison& comparison) {
  Table table("set | >rows | >mean absolute | >bias | fit or out of memory");
  for (const calibrate::StepSummary& summary : comparison.summaries) {
    if (summary.memory.rows == 0 && summary.right_fits == summary.stated_fits) continue;
    const bool stated = summary.memory.rows > 0;
    table.add({summary.name, stated ? fmt::format("{}", summary.memory.rows) : "-",
               stated ? tight_percent(summary.memory.mean_absolute) : "-",
               stated ? error_text(summary.memory.bias) : "-",
               fmt::format("{} of {} right", summary.right_fits, summary.stated_fits)});
  }
  return table.empty() ? "" : paragraph("Memory of the fullest GPU, by set:") + table.to_string() + "\n";
}

std::string order_table(const StepComparison& comparison) {
  if (comparison.orders.empty()) return "";
  Table table("set | >runs | >plans | >Kendall's tau | >regret | >of a random plan");
  for (const calibrate::PlanOrder& order : comparison.orders)
    table.row(order.name, order.clusters, order.rows, fmt::format("{:.2f}", order.tau), tight_percent(order.regret),
              tight_percent(order.random_regret));
  return paragraph(
             "Order of the plans of one run (model, GPUs, global batch, sequence), and what the plan predicted "
             "fastest costs over the fastest:") +
         table.to_string() +
         paragraph(fmt::format("Residuals scatter by {:.1f} % between schedules of a run, by {:.1f} % between degrees "
                               "and micro-batches.",
                               comparison.scatter.schedules * 100, comparison.scatter.layouts * 100)) +
         "\n";
}

// Returns what the residuals ask for: a factor, microseconds for each launch, or a part of hidden time.
std::string excess_text(const calibrate::ResidualCause& cause) {
  if (cause.cause == calibrate::StepCause::launches) return fmt::format("{:+.1f} us", cause.excess);
  if (cause.cause == calibrate::StepCause::hidden) return fmt::format("{:.0f} %", cause.excess * 100);
  return fmt::format("x{:.2f}", 1 + cause.excess);
}

std::string residual_table(const StepComparison& comparison) {
  if (comparison.residuals.empty()) return "";
  Table table("set | >rows | >off by | >left | cause | >share | >asks for | >+- | >explains");
  for (const calibrate::ResidualRegression& set : comparison.residuals) {
    bool first = true;
    for (const calibrate::ResidualCause& cause : set.causes) {
      const auto once = [&](std::string text) { return first ? std::move(text) : std::string(); };
      table.row(once(set.name), once(fmt::format("{}", set.rows)), once(tight_percent(set.before)),
                once(tight_percent(set.after)), to_string(cause.cause), tight_percent(cause.share), excess_text(cause),
                fmt::format("{:.2f}", cause.uncertainty), error_text(cause.explains));
      first = false;
    }
  }
  return paragraph(
             "Regression of the residuals, measured / predicted - 1, on the shares of the predicted steps: factors on "
             "kernels and links, microseconds for each launch, the part of hidden time that is exposed. The share of "
             "launches is that of a microsecond each.") +
         table.to_string() + "\n";
}

std::string demand_lines(const StepComparison& comparison) {
  std::string out;
  for (const calibrate::ComparedDemand& row : comparison.demands) {
    const auto aim = [](std::optional<double> value) {
      return value ? fmt::format(" (aim {})", percent(*value)) : std::string();
    };
    out += paragraph(fmt::format(
        "{}: tolerated are a mean absolute error of {}{} and a bias of {}{}, and never one worse than the baseline: "
        "{}.",
        row.demand.name, percent(row.demand.mean_absolute_error), aim(row.demand.aim_mean_absolute_error),
        percent(row.demand.bias), aim(row.demand.aim_bias),
        !row.holds()        ? "EXCEEDED"
        : row.reaches_aim() ? "within"
                            : "short of aim"));
  }
  return out;
}

// Returns the ids, with "a to b" for three or more that follow each other.
std::string id_list(const std::vector<std::string>& ids) {
  const auto number_of = [](const std::string& id) {
    const std::size_t digits = id.find_last_not_of("0123456789") + 1;
    return std::pair(id.substr(0, digits), model::parse_number<double>(id.substr(digits)).value_or(-1));
  };
  std::vector<std::string> parts;
  for (std::size_t first = 0, last = 0; first < ids.size(); first = last + 1) {
    for (last = first; last + 1 < ids.size(); ++last) {
      const auto [prefix, number] = number_of(ids[last]);
      if (number_of(ids[last + 1]) != std::pair(prefix, number + 1)) break;
    }
    if (last > first + 1)
      parts.push_back(fmt::format("{} to {}", ids[first], ids[last]));
    else
      parts.insert(parts.end(), ids.begin() + static_cast<std::ptrdiff_t>(first),
                   ids.begin() + static_cast<std::ptrdiff_t>(last) + 1);
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string note_lines(std::string_view title, const Notes& notes) {
  std::string out;
  for (const auto& [text, ids] : notes) out += paragraph(fmt::format("{}: {}", text, id_list(ids)));
  return notes.empty() ? "" : fmt::format("\n{}\n{}", title, out);
}

std::string notes_of(const StepComparison& comparison) {
  Notes lacking, errors, missing, assumed, held_out;
  for (const calibrate::ComparedStep& row : comparison.steps) {
    const std::string& id = row.step.id;
    if (!row.lacking.empty()) note(lacking, fmt::format("{}", fmt::join(row.lacking, ", ")), id);
    if (row.error) note(errors, row.error->message, id);
    if (!row.predicted) continue;
    for (const std::string& text : row.missing) note(missing, text, id);
    for (const std::string& name : row.held_out) note(held_out, name, id);
    for (const std::string& column : row.step.assumed) note(assumed, column, id);
  }
  return note_lines("Rows without a plan, by what they lack:", lacking) +
         note_lines("Rows whose plan is not simulated:", errors) + note_lines("Not modelled:", missing) +
         note_lines("Fitted to steps, and left out where these are validated:", held_out) +
         note_lines("Assumed, because the source does not state it:", assumed);
}

using calibrate::IntervalScore;
using calibrate::IntervalScores;

double share_of(const IntervalScore& score, std::size_t tenth) {
  return static_cast<double>(score.tenths[tenth]) / static_cast<double>(score.rows);
}

std::string tenth_name(std::size_t tenth) { return fmt::format("{}-{} %", tenth * 10, tenth * 10 + 10); }

std::string scores_table(const IntervalScores& scores) {
  Table table("set | >rows | >in P10-P90 | >half-width | >pinball | >of an MFU | >mean absolute | >bias");
  for (const auto& [name, ranges] : scores.scores) {
    const IntervalScore& score = ranges.step;
    if (score.rows == 0) continue;
    const IntervalScore& baseline = ranges.baseline;
    table.row(name, score.rows, tight_percent(score.coverage, 0), tight_percent(score.half_width),
              tight_percent(score.pinball), baseline.rows > 0 ? tight_percent(baseline.pinball) : "-",
              tight_percent(score.middle.mean_absolute), signed_tight_percent(score.middle.bias));
  }
  return paragraph(
             "Intervals, nobody's own rows in them: the share of rows between P10 and P90 (of 80 % where intervals "
             "are right), median half-width, mean pinball loss of P10, P50 and P90 over the measured time, the same "
             "of a constant MFU with the location and spread of the other sets, errors of P50.") +
         table.to_string();
}

std::string tenths_bars(const IntervalScore& all) {
  Table table("tenth | >rows | ");
  for (std::size_t tenth = 0; tenth < all.tenths.size(); ++tenth) {
    const auto length = static_cast<std::size_t>(std::lround(share_of(all, tenth) * 100));
    table.row(tenth_name(tenth), tight_percent(share_of(all, tenth)), std::string(length, '#'));
  }
  return paragraph("Rows by the tenth of their prediction that was measured, of 10 % each where intervals are right:") +
         table.to_string();
}

std::string memory_scores(const IntervalScores& scores) {
  Table table("set | >rows | >in P10-P90 | >half-width | >mean absolute | >bias");
  for (const auto& [name, ranges] : scores.scores) {
    const IntervalScore& score = ranges.memory;
    if (score.rows == 0) continue;
    table.row(name, score.rows, tight_percent(score.coverage, 0), tight_percent(score.half_width),
              tight_percent(score.middle.mean_absolute), signed_tight_percent(score.middle.bias));
  }
  return table.empty() ? "" : paragraph("The same of memory:") + table.to_string();
}

std::string fit_verdicts(const IntervalScores& scores) {
  Table table("set | >rows | >fit | >wrong | >do not fit | >wrong | >Brier");
  for (const auto& [name, ranges] : scores.scores) {
    const calibrate::FitVerdicts& fits = ranges.fits;
    if (fits.rows == 0) continue;
    table.row(name, fits.rows, fits.fit, fits.fit_wrong, fits.unfit, fits.unfit_wrong,
              fmt::format("{:.3f}", fits.brier));
  }
  if (table.empty()) return "";
  return paragraph(
             "Rows that ran or ended for lack of memory: how many are predicted to fit (a probability of 95 % or "
             "more) or not to (below 5 %), how many of each wrongly, and the mean square of the probability less "
             "what happened (1 or 0):") +
         table.to_string();
}

// Returns what the aims ask for and the scores do not have.
std::vector<std::string> short_of(const calibrate::IntervalDemand& demand, const IntervalScores& scores) {
  std::vector<std::string> found;
  const IntervalScore& all = scores.scores.back().second.step;
  if (demand.aim_coverage && (all.coverage < demand.aim_coverage->first || all.coverage > demand.aim_coverage->second))
    found.push_back(fmt::format("coverage {} instead of {} to {}", percent(all.coverage),
                                percent(demand.aim_coverage->first), percent(demand.aim_coverage->second)));
  for (const auto& [name, ranges] : scores.scores) {
    const IntervalScore& score = ranges.step;
    if (score.rows >= calibrate::IntervalDemand::rows_of_a_set && score.coverage < demand.aim_set_coverage.value_or(0))
      found.push_back(fmt::format("{}: coverage {} instead of {} or more", name, percent(score.coverage),
                                  percent(*demand.aim_set_coverage)));
  }
  const auto limit = [&](std::string_view what, double value, std::optional<double> aim) {
    if (aim && value > *aim) found.push_back(fmt::format("{} {} instead of {}", what, percent(value), percent(*aim)));
  };
  limit("half-width", all.half_width, demand.aim_half_width);
  limit("mean absolute error", all.middle.mean_absolute, demand.aim_mean_absolute_error);
  limit("absolute bias", std::abs(all.middle.bias), demand.aim_bias);
  return found;
}

std::string verdict(const calibrate::IntervalDemand& demand, const IntervalScores& scores) {
  const std::vector<std::string> missed = short_of(demand, scores);
  return paragraph(fmt::format("Tolerated is a coverage of {} to {} over all: {}{}.", percent(demand.coverage.first),
                               percent(demand.coverage.second), scores.holds() ? "within" : "EXCEEDED",
                               missed.empty() ? "" : fmt::format("; short of aim: {}", fmt::join(missed, "; "))));
}

BarChart::Panel panel_of(const std::string& name, const IntervalScore& score) {
  BarChart::Panel panel;
  panel.title = fmt::format("{}: {} rows, {:.0f} % between P10 and P90", name, score.rows, score.coverage * 100);
  panel.x_title = "% of the rows";
  for (std::size_t tenth = 0; tenth < score.tenths.size(); ++tenth) {
    const double share = share_of(score, tenth) * 100;
    panel.rows.push_back({tenth_name(tenth),
                          {{0, share, 0, fmt::format("{}: {} rows", tenth_name(tenth), score.tenths[tenth])}},
                          fmt::format("{:.1f} %", share)});
  }
  panel.marks = {{10, "10 %"}};
  return panel;
}

}  // namespace

std::string step_table(const StepComparison& comparison) {
  const calibrate::StepCase& definition = comparison.definition;
  std::string out = definition.name + "\n\n";
  out += comparison.steps.size() > most_steps
             ? paragraph(fmt::format("{} rows, each with its errors in --json.", comparison.steps.size())) + "\n"
             : steps_table(comparison) + memory_table(comparison);
  out += paragraph("Relative errors of the predicted rows:") + summary_table(comparison) + "\n";
  out += memory_summary(comparison) + order_table(comparison) + residual_table(comparison);
  out += demand_lines(comparison) + notes_of(comparison) + "\n";
  return out + paragraph(fmt::format("baseline, {} of the dense 16-bit peak: {}", baseline_name(comparison),
                                     definition.naive_source));
}

std::string interval_table(const IntervalScores& scores) {
  if (scores.scores.empty()) return "";
  return scores_table(scores) + "\n" + tenths_bars(scores.scores.back().second.step) + "\n" + memory_scores(scores) +
         fit_verdicts(scores) + (scores.demand ? verdict(*scores.demand, scores) : "");
}

std::string interval_chart_svg(const IntervalScores& scores) {
  BarChart chart;
  chart.title = "Probability integral transform of measured steps";
  chart.subtitle = "rows by the tenth of their prediction that was measured; nobody's own rows are in it";
  for (const auto& [name, ranges] : scores.scores)
    if (ranges.step.rows > 0) chart.panels.push_back(panel_of(name, ranges.step));
  if (!scores.scores.empty() && scores.scores.back().second.memory.rows > 0)
    chart.panels.push_back(panel_of("memory, all", scores.scores.back().second.memory));
  return bar_chart_svg(chart);
}

}  // namespace plumbline::reports
