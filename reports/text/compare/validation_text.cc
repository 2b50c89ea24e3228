#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "calibrate/validate/interval_score.h"
#include "reports/text/compare/validation_report.h"
#include "reports/text/table.h"

namespace plumbline::reports {
namespace {

std::string label(const calibrate::Figure& figure) {
  return figure.unit == "1" ? figure.name : fmt::format("{}, {}", figure.name, figure.unit);
}

std::string error_or_blank(std::optional<double> error) { return error ? signed_tight_percent(*error) : std::string(); }

// Returns figures without a group first, then group by group, each in order.
std::vector<std::pair<std::string, std::vector<const calibrate::EvaluatedFigure*>>> groups_of(
    const calibrate::EvaluatedCase& evaluated) {
  std::vector<std::pair<std::string, std::vector<const calibrate::EvaluatedFigure*>>> groups = {{"", {}}};
  for (const calibrate::EvaluatedFigure& row : evaluated.figures) {
    auto found = std::ranges::find_if(groups, [&](const auto& group) { return group.first == row.figure.group; });
    if (found == groups.end()) found = groups.insert(groups.end(), {row.figure.group, {}});
    found->second.push_back(&row);
  }
  if (groups.front().second.empty()) groups.erase(groups.begin());
  return groups;
}

std::vector<std::string> figure_cells(const calibrate::EvaluatedFigure& row, std::string name) {
  constexpr int error_width = 7;
  std::vector<std::string> cells = {std::move(name), number(row.figure.value)};
  for (const std::optional<double>& value : row.predicted)
    cells.push_back(value ? fmt::format("{} {:>{}}", number(*value),
                                        error_or_blank(calibrate::error_of(row.figure, value)), error_width)
                          : "-");
  return cells;
}

void add_aggregates(const calibrate::EvaluatedCase& evaluated, const std::string& group, Table& table) {
  for (const calibrate::EvaluatedAggregate& row : evaluated.aggregates) {
    if (row.aggregate.over != group) continue;
    std::vector<std::string> cells = {row.aggregate.name, ""};
    for (const std::optional<double>& value : row.values) cells.push_back(value ? tight_percent(*value) : "-");
    table.add(std::move(cells));
  }
}

// Returns every figure by every profile: the prediction and its error in one column each.
std::string profiles_table(const calibrate::EvaluatedCase& evaluated) {
  std::vector<Column> columns = {{"figure"}, {"published", Align::right}};
  for (const std::string& profile : evaluated.definition.profiles) columns.push_back({profile, Align::right});
  Table table(columns);
  bool first = true;
  for (const auto& [group, rows] : groups_of(evaluated)) {
    if (!first) table.add({""});
    first = false;
    // When all figures of a group share a unit, only the heading has it.
    const std::string& unit = rows.front()->figure.unit;
    const bool one_unit =
        !group.empty() && std::ranges::all_of(rows, [&](const auto* row) { return row->figure.unit == unit; });
    if (!group.empty()) table.add({fmt::format("{}{}:", group, one_unit && unit != "1" ? ", " + unit : "")});
    for (const calibrate::EvaluatedFigure* row : rows)
      table.add(figure_cells(*row, one_unit ? row->figure.name : label(row->figure)));
    add_aggregates(evaluated, group, table);
  }
  return table.to_string();
}

// Returns the intervals of the figures that have some by every profile, and whether what was published lies inside; ""
// without any.
std::string intervals_table(const calibrate::EvaluatedCase& evaluated) {
  std::vector<Column> columns = {{"figure"}, {"published", Align::right}};
  for (const std::string& profile : evaluated.definition.profiles) columns.push_back({profile, Align::right});
  Table table(columns);
  for (const calibrate::EvaluatedFigure& row : evaluated.figures) {
    std::vector<std::string> cells = {label(row.figure), number(row.figure.value)};
    for (const std::optional<model::Quantiles>& interval : row.intervals)
      cells.push_back(interval ? fmt::format("{:#.3g}-{:#.3g} {:>3}", interval->p10, interval->p90,
                                             interval->contains(row.figure.value) ? "in" : "out")
                               : "-");
    if (std::ranges::none_of(row.intervals, [](const auto& interval) { return interval.has_value(); })) continue;
    table.add(std::move(cells));
  }
  if (table.empty()) return "";
  return "\n" + paragraph("Eight of ten cases, and whether the published value is in them:") + table.to_string();
}

std::string points(const calibrate::Figure& figure, double value) {
  return fmt::format("{} {}", fixed(value, 1), figure.unit == "%" ? "points" : figure.unit);
}

std::string demand(const calibrate::Figure& figure) {
  if (figure.aim) return fmt::format("{} (aim {})", percent(*figure.tolerance), percent(*figure.aim));
  if (figure.tolerance) return percent(*figure.tolerance);
  if (figure.absolute_tolerance) return points(figure, *figure.absolute_tolerance);
  return figure.at_most ? fmt::format("at most {} {}", number(*figure.at_most), figure.unit) : "";
}

// Returns the deviation of the plan's own profile, in the form of the figure's tolerance.
std::string deviation(const calibrate::EvaluatedFigure& row) {
  const std::optional<double> value = row.predicted.back();
  if (!value) return "-";
  if (row.figure.absolute_tolerance) {
    const std::string text = points(row.figure, *value - row.figure.value);
    return text.starts_with('-') ? text : "+" + text;
  }
  if (row.figure.at_most) return fmt::format("{} {}", number(*value), row.figure.unit);
  return error_or_blank(calibrate::error_of(row.figure, value));
}

std::string_view verdict(std::optional<bool> within) { return !within ? "" : *within ? "within" : "EXCEEDED"; }

bool short_of_aim(const calibrate::EvaluatedFigure& row) { return row.figure.short_of_aim(row.predicted.back()); }

// Adds the checks of a group: of the figures with the same tolerance, the one with the largest deviation.
void add_group_checks(const std::string& group, const std::vector<const calibrate::EvaluatedFigure*>& rows,
                      Table& table) {
  const auto off = [](const calibrate::EvaluatedFigure* row) {
    return std::abs(calibrate::error_of(row->figure, row->predicted.back()).value_or(INFINITY));
  };
  std::vector<std::string> demands;
  for (const calibrate::EvaluatedFigure* row : rows) {
    const std::string text = demand(row->figure);
    if (!text.empty() && std::ranges::find(demands, text) == demands.end()) demands.push_back(text);
  }
  for (const std::string& text : demands) {
    std::vector<const calibrate::EvaluatedFigure*> same;
    for (const calibrate::EvaluatedFigure* row : rows)
      if (demand(row->figure) == text) same.push_back(row);
    const calibrate::EvaluatedFigure* worst = *std::ranges::max_element(same, {}, off);
    const auto exceeded = std::ranges::count(same, std::optional(false), &calibrate::EvaluatedFigure::within);
    const auto missed = std::ranges::count_if(same, [](const auto* row) { return short_of_aim(*row); });
    std::optional<double> naive;  // the baseline's largest error
    for (const calibrate::EvaluatedFigure* row : same) {
      const auto error = calibrate::error_of(row->figure, row->naive);
      if (error && std::abs(*error) > std::abs(naive.value_or(0))) naive = error;
    }
    table.add({fmt::format("{}: largest of {}", group, same.size()), deviation(*worst), "", error_or_blank(naive), text,
               exceeded > 0 ? fmt::format("{} EXCEEDED", exceeded)
               : missed > 0 ? fmt::format("{} short of aim", missed)
                            : "within"});
  }
}

// Returns the plan's own profile compared with the baseline and the tolerances.
std::string checks_table(const calibrate::EvaluatedCase& evaluated) {
  const calibrate::ValidationCase& definition = evaluated.definition;
  Table table(fmt::format("figure | >{} | >MFU {:.0f} % | >error | >tolerance | verdict", definition.profiles.back(),
                          definition.naive_mfu * 100));
  bool any = false;
  for (const auto& [group, rows] : groups_of(evaluated)) {
    if (group.empty()) {
      for (const calibrate::EvaluatedFigure* row : rows)
        if (row->naive || row->within)
          table.row(label(row->figure), deviation(*row), row->naive ? number(*row->naive) : "",
                    error_or_blank(calibrate::error_of(row->figure, row->naive)), demand(row->figure),
                    short_of_aim(*row) ? "short of aim" : verdict(row->within));
    } else {
      add_group_checks(group, rows, table);
    }
    any = any || std::ranges::any_of(rows, [](const auto* row) { return row->naive || row->within; });
  }
  for (const calibrate::EvaluatedAggregate& row : evaluated.aggregates) {
    any = true;
    table.row(row.aggregate.name, row.values.back() ? tight_percent(*row.values.back()) : "-", "", "",
              percent(row.aggregate.tolerance), verdict(row.within));
  }
  return any ? table.to_string() : "";
}

// Lists the figures of groups, whose rows in the table only count them.
template <class Which>
std::string listed_of_groups(const calibrate::EvaluatedCase& evaluated, std::string_view title, const Which& which) {
  std::vector<std::string> names;
  for (const calibrate::EvaluatedFigure& row : evaluated.figures)
    if (!row.figure.group.empty() && which(row))
      names.push_back(fmt::format("{} ({})", row.figure.name, deviation(row)));
  return names.empty() ? "" : paragraph(fmt::format("{}: {}.", title, fmt::join(names, "; ")));
}

std::string exceeded_in_groups(const calibrate::EvaluatedCase& evaluated) {
  return listed_of_groups(evaluated, "Exceeded",
                          [](const calibrate::EvaluatedFigure& row) { return row.within == false; }) +
         listed_of_groups(evaluated, "Short of aim", short_of_aim);
}

// Returns each source once, with the figures, or the groups, that use it.
std::string sources(const calibrate::EvaluatedCase& evaluated) {
  Notes lines;
  for (const calibrate::EvaluatedFigure& row : evaluated.figures)
    note(lines, row.figure.source, row.figure.group.empty() ? row.figure.name : row.figure.group);
  std::string out;
  for (const auto& [source, names] : lines) out += paragraph(fmt::format("{}: {}", fmt::join(names, "; "), source));
  const calibrate::ValidationCase& definition = evaluated.definition;
  return out + paragraph(fmt::format("baseline, constant MFU {:.0f} %: {}", definition.naive_mfu * 100,
                                     definition.naive_source));
}

std::string name_of(const calibrate::LedgerEntry& entry) { return std::filesystem::path(entry.path).stem().string(); }

std::string interval_text(const model::Quantiles& q, const std::function<std::string(double)>& text) {
  return fmt::format("{} .. {} .. {}", text(q.p10), text(q.p50), text(q.p90));
}

void add_score(Table& table, const std::string& name, const calibrate::PredictedRange& range,
               const std::function<std::string(double)>& text) {
  const auto& [predicted, measured] = range;
  table.add({name, interval_text(predicted, text), text(measured), predicted.contains(measured) ? "inside" : "outside",
             fixed(range.below(), 2), signed_percent(predicted.p50 / measured - 1)});
}

constexpr std::string_view ledger_titles = "entry | >P10 .. P50 .. P90 | >measured | | >probability | >P50 is off";

std::string error_percent(double error) { return fmt::format("{:.1f}", 100 * error); }

using calibrate::ServingComparison;

constexpr std::size_t most_listed = 12;  // rows of a set
constexpr std::size_t most_named = 4;    // rows of a note

// Milliseconds, or tokens per second.
std::string figure_text(const calibrate::ComparedFigure& figure, double value) {
  return figure.name == "tokens/s" ? number(value) : fmt::format("{} ms", number(value * 1e3));
}

std::string gpus_text(const calibrate::PublishedServing& row) {
  const auto found = row.numbers.find("gpus");
  return fmt::format("{} {}", found == row.numbers.end() ? "?" : fmt::format("{}", found->second), row.hardware);
}

void add_row(const calibrate::ComparedServing& row, Table& table) {
  for (const calibrate::ComparedFigure& figure : row.figures)
    table.add({row.row.id, row.row.model, gpus_text(row.row), figure.name, figure_text(figure, figure.published),
               figure_text(figure, figure.predicted),
               row.row.average ? fmt::format("x{:.2f}", figure.predicted / figure.published)
                               : signed_tight_percent(figure.error())});
}

// Returns the rows of sets that are short enough; the others have their summary.
std::string rows_table(const ServingComparison& comparison) {
  Table table("row | model | GPUs | figure | >published | >predicted | >error");
  for (const calibrate::ComparedServing& row : comparison.rows) {
    const auto of_set = std::ranges::count_if(
        comparison.rows, [&](const calibrate::ComparedServing& other) { return other.row.set == row.row.set; });
    if (static_cast<std::size_t>(of_set) <= most_listed) add_row(row, table);
  }
  return table.to_string();
}

std::string sets_table(const ServingComparison& comparison) {
  Table table("set | figure | >rows | >median | >largest | >bias | >roofline | >in 80 %");
  const auto add = [&](const calibrate::ServingSummary& summary) {
    const calibrate::ErrorStatistics& errors = summary.prediction;
    table.row(summary.name, summary.figure, errors.rows, tight_percent(errors.median_absolute),
              signed_tight_percent(errors.largest), signed_tight_percent(errors.bias),
              tight_percent(summary.roofline.median_absolute),
              summary.interval.rows > 0 ? tight_percent(summary.interval.coverage, 0) : "-");
  };
  for (const calibrate::ServingSummary& summary : comparison.summaries) add(summary);
  return table.to_string();
}

// Returns what rows of a demand are off by, what is wanted, and how many of them their interval holds.
std::string demands_text(const ServingComparison& comparison) {
  std::string out;
  for (const calibrate::ComparedServingDemand& row : comparison.demands) {
    const auto& [name, figure, errors, roofline, interval] = row.summary;
    if (errors.rows == 0) {
      out += paragraph(fmt::format("{}: no prediction.", row.demand.name));
      continue;
    }
    std::string text = fmt::format("{}: off by {:.1f} %", row.demand.name, errors.median_absolute * 100);
    if (errors.rows > 1) text += fmt::format(" in the median of {}", errors.rows);
    if (row.demand.aim) text += fmt::format(", wanted are {}", percent(*row.demand.aim));
    if (row.demand.limit) text += fmt::format(", tolerated {}", percent(*row.demand.limit));
    text += !row.holds() ? ": EXCEEDED." : row.reaches_aim() ? ": within." : ": short of aim.";
    if (interval.rows > 1)
      text += fmt::format(" The 80 % interval holds {:.0f} % of the rows; its half width is {:.0f} %.",
                          interval.coverage * 100, interval.half_width * 100);
    out += paragraph(text);
  }
  return out;
}

std::string parallel_text(const ServingComparison& comparison) {
  std::string out;
  for (const calibrate::PlanOrder& order : comparison.orders)
    out += paragraph(fmt::format(
        "{}: Kendall's tau {:.2f} over tensor degrees and concurrencies at the same lengths ({} deployments).",
        order.name, order.tau, order.rows));
  for (const calibrate::TensorRatios& ratios : comparison.ratios)
    out += paragraph(fmt::format("{}: what a tensor degree changes in TPOT is off by {:.1f} % (median of {}).",
                                 ratios.set, ratios.median_error * 100, ratios.rows));
  for (const calibrate::TokenTimeSplit& split : comparison.splits)
    out += paragraph(fmt::format(
        "{}: of TPOT = a + P / OSL over output lengths, decode (a) is off by {:.1f} % and by {:+.1f} % in the mean, "
        "the "
        "prompts of others (P / OSL) by {:.1f} % of the shortest output's TPOT and {:+.1f} % ({} deployments).",
        split.set, split.decode.median_absolute * 100, split.decode.bias * 100, split.prompts.median_absolute * 100,
        split.prompts.bias * 100, split.decode.rows));
  return out;
}

// Returns which sets of each engine state all that decides them.
std::string engines_text(const ServingComparison& comparison) {
  std::vector<std::string> parts;
  for (const calibrate::ComparableRows& engine : comparison.engines)
    parts.push_back(engine.rows == 0
                        ? fmt::format("{} none", engine.engine)
                        : fmt::format("{} {} ({})", engine.engine, engine.rows, fmt::join(engine.sets, ", ")));
  return paragraph(fmt::format("Rows that state all that decides them, by engine: {}.", fmt::join(parts, "; ")));
}

// Returns notes as "what: row, row".
std::string reasons_text(const ServingComparison& comparison) {
  Notes notes;
  for (const calibrate::ComparedServing& row : comparison.rows) {
    if (!row.lacking.empty()) note(notes, fmt::format("Not stated: {}", fmt::join(row.lacking, ", ")), row.row.id);
    if (row.error) note(notes, fmt::format("Not predicted: {}", row.error->message), row.row.id);
    if (!row.figures.empty())
      for (const std::string& missing : row.row.missing)
        note(notes, fmt::format("Not modelled: {}", missing), row.row.id);
  }
  std::string out;
  for (const auto& [text, ids] : notes) {
    const std::vector<std::string> named(ids.begin(),
                                         ids.begin() + static_cast<std::ptrdiff_t>(std::min(ids.size(), most_named)));
    const std::size_t others = ids.size() - named.size();
    out += paragraph(
        fmt::format("{}: {}{}", text, fmt::join(named, ", "), others > 0 ? fmt::format(" and {} more", others) : ""));
  }
  return out;
}

}  // namespace

void note(Notes& notes, const std::string& text, const std::string& name) {
  auto found = std::ranges::find(notes, text, &Notes::value_type::first);
  if (found == notes.end()) found = notes.insert(notes.end(), {text, {}});
  if (std::ranges::find(found->second, name) == found->second.end()) found->second.push_back(name);
}

std::string validation_table(const calibrate::EvaluatedCase& evaluated) {
  std::string out = wrapped(evaluated.definition.name);
  out +=
      fmt::format("plan {}\n\n{}{}", evaluated.definition.plan, profiles_table(evaluated), intervals_table(evaluated));
  const std::string checks = checks_table(evaluated);
  if (!checks.empty()) {
    out += fmt::format("\n{}", paragraph("Error of the plan's own profile, of a constant MFU, and what is tolerated:"));
    out += checks + exceeded_in_groups(evaluated);
  }
  return out + "\n" + sources(evaluated);
}

std::string ledger_table(const std::vector<calibrate::LedgerEntry>& entries) {
  Table times(ledger_titles), peaks(ledger_titles);
  Table open("entry | predicted | >P10 .. P50 .. P90");
  std::size_t measured = 0, inside = 0, with_peak = 0;
  for (const calibrate::LedgerEntry& entry : entries) {
    if (!entry.measured) {
      open.add({name_of(entry), entry.date, interval_text(entry.time, duration)});
      continue;
    }
    ++measured;
    if (entry.time.contains(entry.measured->time_s)) ++inside;
    add_score(times, name_of(entry), {entry.time, entry.measured->time_s}, duration);
    if (!entry.measured->peak_bytes) continue;
    ++with_peak;
    add_score(peaks, name_of(entry), {entry.peak_bytes, *entry.measured->peak_bytes},
              [](double bytes) { return number(bytes / 1e9); });
  }
  std::string out;
  if (measured > 0)
    out += wrapped(
               "Step times that were predicted before they were measured. The probability is what the prediction "
               "gave to a smaller value.") +
           times.to_string() +
           paragraph(
               fmt::format("{} of {} lie between P10 and P90, which is to hold for eight of ten.", inside, measured));
  if (with_peak > 0) out += "\nPeak memory of the fullest rank, GB.\n" + peaks.to_string();
  if (measured < entries.size())
    out += fmt::format("{}Not measured yet.\n{}", out.empty() ? "" : "\n", open.to_string());
  return out;
}

std::string held_out_text(const std::string& gpu, const std::vector<calibrate::HeldOut>& tables) {
  const auto summaries = calibrate::summaries(tables);
  if (summaries.empty()) return "";
  Table table(fmt::format("{} | >fitted | >held out | >median % | >p90 % | >roofline | >p90", gpu));
  for (const calibrate::HeldOutSummary& family : summaries) {
    if (!family.table.empty()) continue;
    const auto add = [&](const std::string& name, const calibrate::HeldOutSummary& of) {
      table.row(name, of.fitted_rows, of.rows, error_percent(of.median), error_percent(of.p90),
                error_percent(of.roofline_median), error_percent(of.roofline_p90));
    };
    add(family.family, family);
    for (const calibrate::HeldOutSummary& of : summaries)
      if (of.family == family.family && !of.table.empty()) add("  " + of.table, of);
  }
  return table.to_string();
}

std::string component_table(const calibrate::ComponentComparison& comparison) {
  Table table("profile | family | >rows | >median % | >p90 % | >goal, p90 | | >roofline");
  for (const calibrate::ComponentErrors& errors : comparison.profiles)
    for (const calibrate::HeldOutSummary& of : errors.summaries) {
      if (!of.table.empty()) continue;
      const calibrate::ComponentGoal* goal = comparison.goal(of.family);
      table.row(
          errors.profile, of.family, of.rows, error_percent(of.median), error_percent(of.p90),
          goal == nullptr ? "" : error_percent(goal->median) + (goal->p90 ? " / " + error_percent(*goal->p90) : ""),
          goal == nullptr    ? ""
          : goal->met_by(of) ? "met"
                             : "missed",
          error_percent(of.roofline_median));
    }
  return fmt::format(
      "{}\n{}{}", comparison.definition.name, table.to_string(),
      paragraph("median and p90: of |predicted / measured - 1| on shapes that the fits left out, with the "
                "constants of the profile and what belongs to the software alone (its launches, its "
                "quantizing kernels, its rate where several were measured); roofline: the median "
                "of the same of datasheet peaks"));
}

std::string serving_table(const ServingComparison& comparison) {
  return fmt::format(
      "{}\n\n{}\n{}{}\n{}\n{}\n{}\n{}", comparison.definition.name, rows_table(comparison),
      paragraph(
          "Errors by set, and how many of its rows the 80 % interval holds; rows that are averages over a time, or of "
          "another load than stated, are ratios, in no set:"),
      sets_table(comparison), demands_text(comparison), parallel_text(comparison),
      engines_text(comparison) + reasons_text(comparison),
      paragraph("roofline: weights and cache once through the memory, and prompts at the dense peak of the weights' "
                "format, by datasheets."));
}

}  // namespace plumbline::reports
