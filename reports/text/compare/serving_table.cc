#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "reports/text/compare/validation_report.h"
#include "reports/text/table.h"

namespace plumbline::reports {
namespace {

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
