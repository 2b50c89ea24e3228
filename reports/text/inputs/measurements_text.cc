#include "reports/text/inputs/measurements_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "calibrate/validate/interval_score.h"
#include "model/base/distinct.h"
#include "reports/text/table.h"

namespace plumbline::reports {
namespace {

using calibrate::Measurement;
using calibrate::Measurements;

constexpr double giga = 1e9;

// Returns the rate in TFLOP/s, else in GB/s.
std::string rate_text(const Measurement& m) {
  if (m.flop_rate()) return number(*m.flop_rate() / tera) + " TFLOP/s";
  if (m.byte_rate()) return number(*m.byte_rate() / giga) + " GB/s";
  return "";
}

// Returns the share of the datasheet's peak: GEMMs of the tensor cores, data movement of the memory bandwidth.
// Transfers over a link have no cache state and no share.
std::string share_text(const Measurement& m, const model::Device* device) {
  if (device == nullptr) return "";
  if (m.flop_rate()) {
    const auto peak = calibrate::peak_flop_rate(*device, m.format);
    return peak ? percent(*m.flop_rate() / *peak) : "";
  }
  if (!m.byte_rate() || m.cache.empty()) return "";
  return percent(*m.byte_rate() / device->memory_bandwidth.value());
}

// Returns the range from p10 to p90, over p50.
std::string spread_text(const Measurement& m) {
  if (!m.time.p10 || !m.time.p90) return "";
  return fmt::format("{:.1f} %", (*m.time.p90 - *m.time.p10) / m.time.p50 * 100);
}

std::string check_text(const Measurement& m) {
  if (!m.check) return "";
  return fmt::format("{} {:.1e}", m.check->ok ? "ok" : "WRONG", m.check->relative_error);
}

std::vector<std::string> cells_of(const Measurement& m, const model::Device* device) {
  return {m.name,          shape_text(m),         joined({m.phase, m.format}, " "),
          variant_text(m), duration(m.time.p50),  spread_text(m),
          rate_text(m),    share_text(m, device), check_text(m)};
}

// Returns the table of an operation, without columns that are empty for it.
std::string op_table(const Measurements& all, const std::string& device_name, const std::string& op,
                     const model::Device* device) {
  const std::vector<Column> columns =
      columns_of("name | shape | format | variant | >p50 | >p10-p90 | >rate | >of peak | check");
  std::vector<std::vector<std::string>> rows;
  for (const Measurement& m : all.values)
    if (m.device == device_name && m.op == op) rows.push_back(cells_of(m, device));
  std::vector<std::size_t> used;
  for (std::size_t i = 0; i < columns.size(); ++i)
    if (std::ranges::any_of(rows, [i](const auto& row) { return !row[i].empty(); })) used.push_back(i);
  std::vector<Column> chosen;
  for (const std::size_t i : used) chosen.push_back(columns[i]);
  Table table(chosen);
  for (std::vector<std::string>& row : rows) {
    std::vector<std::string> cells;
    for (const std::size_t i : used) cells.push_back(std::move(row[i]));
    table.add(std::move(cells));
  }
  return fmt::format("\n{}\n{}", op, table.to_string());
}

// Appends "driver 580.95, libraries.cublasLt 13.1", wrapped.
void add_properties(const nlohmann::ordered_json& object, const std::string& prefix, std::string& text) {
  for (const auto& [key, value] : object.items()) {
    if (value.is_object())
      add_properties(value, prefix + key + ".", text);
    else
      text += fmt::format("{}{}{} {}", text.empty() ? "" : ", ", prefix, key,
                          value.is_string() ? value.get<std::string>() : value.dump());
  }
}

std::string environment_text(const Measurements& all, const std::string& device) {
  std::set<std::string> shown;  // a resumed run describes the same machine again
  std::string out;
  for (const calibrate::Environment& environment : all.environments) {
    if (environment.device != device || !shown.insert(environment.properties).second) continue;
    std::string text;
    add_properties(nlohmann::ordered_json::parse(environment.properties, nullptr, false), "", text);
    out += wrapped(text);
  }
  return out;
}

std::string heading(const Measurements& all, const std::string& name, const model::Device* device) {
  std::set<std::string> sources, days;
  std::size_t count = 0;
  for (const Measurement& m : all.values) {
    if (m.device != name) continue;
    ++count;
    sources.insert(fmt::format("{} ({})", m.source, model::to_string(m.evidence)));
    constexpr std::size_t day = 10;
    if (!m.date.empty()) days.insert(m.date.substr(0, day));
  }
  std::string text = fmt::format("{}: {} measurement{}", name, count, count == 1 ? "" : "s");
  if (device != nullptr)
    text += fmt::format("; datasheet of {}: {} SMs, BF16 {:.0f} and FP8 {:.0f} TFLOP/s, {:.0f} GB/s", device->name,
                        device->sms, device->bf16_peak.value() / tera, device->fp8_peak.value() / tera,
                        device->memory_bandwidth.value() / giga);
  std::string out;
  out += wrapped(text);
  if (!days.empty()) out += fmt::format("{}\n", fmt::join(days, ", "));
  for (const std::string& source : sources) out += wrapped("source: " + source);
  return out + environment_text(all, name);
}

std::string failures_text(const Measurements& all) {
  Table table("failed | reason");
  for (const calibrate::Failure& failure : all.failures) {
    const bool made_good = std::ranges::any_of(all.values, [&](const Measurement& m) {
      return !failure.case_line.empty() && m.case_line == failure.case_line && m.device == failure.device;
    });
    if (made_good) continue;
    table.add(
        {joined({failure.op, failure.name, failure.phase, failure.format, shape_text(failure)}, " "), failure.reason});
  }
  return table.empty() ? "" : "\n" + table.to_string();
}

std::optional<double> median_error(const std::vector<double>& errors) {
  return errors.empty() ? std::nullopt : std::optional(calibrate::errors_of(errors).median_absolute);
}

std::optional<double> largest_error(const std::vector<double>& errors) {
  return errors.empty() ? std::nullopt : std::optional(std::abs(calibrate::errors_of(errors).largest));
}

std::string percent_or_dash(std::optional<double> error) { return error ? percent(*error) : "-"; }

// Returns a row for each constant that moved; those that state the same fact are counted behind its name. Empty where
// none did.
std::string moved_table(const calibrate::Refinement& refined, const std::string& base) {
  if (refined.constants.empty()) return "";
  Table table(fmt::format("constant | >{} | >refined | >moved | >1 sd now", base));
  for (std::size_t i = 0; i < refined.constants.size();) {
    const calibrate::RefinedConstant& one = refined.constants[i];
    std::size_t alike = 0;
    while (++i < refined.constants.size() && refined.constants[i].alike) ++alike;
    table.row(one.constant.name + (alike > 0 ? fmt::format(" +{}", alike) : ""), number(one.before),
              number(one.constant.value) + " " + one.constant.unit, fmt::format("{:+.1f} sd", one.moved),
              percent_or_dash(one.constant.relative_uncertainty));
  }
  return table.to_string();
}

std::string refinement_verdict(const calibrate::Refinement& refined, const calibrate::FittedFamily& all,
                               const std::string& base) {
  const double was = median_error(all.before).value_or(0), is = median_error(all.left_out).value_or(0);
  const std::string errors = fmt::format("{} in the middle, {} with {}", percent(is), percent(was), base);
  std::string verdict = is < was ? fmt::format("Other shapes of this GPU: {}.", errors)
                                 : fmt::format(
                                       "No better for other shapes of this GPU ({}): the records are too "
                                       "few, or of software that the forms do not describe.",
                                       errors);
  std::vector<std::string> far;
  for (const calibrate::RefinedConstant& one : refined.constants)
    if (std::abs(one.moved) > 2 && !one.alike) far.push_back(one.constant.name);
  if (!far.empty())
    verdict += fmt::format(" By more than two deviations: {}. Another software or a disturbed GPU may be why.",
                           fmt::join(far, ", "));
  return verdict;
}

}  // namespace

std::string shape_text(const calibrate::Subject& subject) {
  const auto extent = [&](const char* name) { return calibrate::extent_of(subject, name); };
  const double m = extent("m"), n = extent("n"), k = extent("k"), groups = extent("groups");
  if (m > 0 && n > 0 && k > 0)
    return (groups > 1 ? fmt::format("{:.0f} x ", groups) : "") + fmt::format("{:.0f}x{:.0f}x{:.0f}", m, n, k);
  std::string text;
  for (const auto& [name, value] : subject.shape) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, value);
  return text;
}

std::string joined(std::initializer_list<std::string> words, const char* separator) {
  std::string text;
  for (const std::string& word : words)
    if (!word.empty()) text += (text.empty() ? "" : separator) + word;
  return text;
}

std::string variant_text(const Measurement& m) {
  const std::int64_t ctas = m.communication_sms.value_or(0), target = m.target_sms.value_or(0);
  const bool of_cpu = m.variant == "cpu" || m.variant == "wall";  // whether the variant is a clock
  const std::int64_t cores = of_cpu ? m.sms.value_or(1) : 1;
  return joined({m.cache, cores > 1 ? fmt::format("{} cores", cores) : "", m.variant,
                 ctas > 0 ? fmt::format("{} {}", ctas, of_cpu ? "copying" : "CTAs") : "",
                 ctas > 0 && m.copy_to == "host" ? "to host" : "",
                 ctas > 0 && m.copy_rate ? fmt::format("{:.0f} GB/s", *m.copy_rate / giga) : "",
                 target > 0 ? fmt::format("for {} SMs", target) : ""},
                ", ");
}

std::string measurements_text(const Measurements& all, const std::vector<topologies::KnownDevice>& devices) {
  std::vector<std::string> names = model::distinct(all.values, &Measurement::device);
  for (const calibrate::Environment& environment : all.environments) model::add_distinct(names, environment.device);
  std::string text;
  for (const std::string& name : names) {
    const model::Device* device = topologies::find_device(devices, name);
    text += (text.empty() ? "" : "\n") + heading(all, name, device);
    std::vector<Measurement> own;
    std::ranges::copy_if(all.values, std::back_inserter(own), [&](const auto& m) { return m.device == name; });
    for (const std::string& op : model::distinct(own, &Measurement::op)) text += op_table(all, name, op, device);
  }
  return text + failures_text(all);
}

std::string machine_text(const calibrate::FitRecords& records) {
  return records.clock.empty() ? records.device : fmt::format("{}, {} clock", records.device, records.clock);
}

std::string fit_text(const calibrate::ProfileFit& fit, const calibrate::FitRecords& records) {
  Table table("family | >records | >median error | >largest | >left out | >largest");
  for (const calibrate::FittedFamily& family : fit.families) {
    table.row(family.name, family.records, percent_or_dash(median_error(family.errors)),
              percent_or_dash(largest_error(family.errors)), percent_or_dash(median_error(family.left_out)),
              percent_or_dash(largest_error(family.left_out)));
  }
  return fmt::format(
      "{}, {}\n{} constants: {} operators as measured, {} of forms\n\n{}\n"
      "Errors of the forms; left out: of each record when fitted to the others. An\n"
      "operator that was measured takes its own time, whatever the form predicts.\n",
      machine_text(records), records.date.empty() ? "no date" : records.date, fit.parameters.size(),
      fit.measured_operators, fit.parameters.size() - fit.measured_operators, table.to_string());
}

std::string fit_csv(const calibrate::ProfileFit& fit) {
  CsvTable table(
      {"family", "records", "median_error", "largest_error", "left_out_median_error", "left_out_largest_error"});
  for (const calibrate::FittedFamily& family : fit.families) {
    table.row(family.name, family.records, median_error(family.errors), largest_error(family.errors),
              median_error(family.left_out), largest_error(family.left_out));
  }
  return table.text();
}

std::string stack_fit_csv(const calibrate::StackFit& fit) {
  CsvTable table({"table", "name", "constants", "factor", "uncertainty", "prior", "error_before", "error_fitted",
                  "error_left_out"});
  for (const calibrate::StackFactor& f : fit.factors)
    table.row("factors", f.name, f.constants.size(), f.factor, f.uncertainty, f.prior, "", "", "");
  for (const calibrate::StackFit::Row& row : fit.rows)
    table.row("steps", row.id, "", "", "", "", row.before, row.after, row.left_out);
  return table.text();
}

std::string stack_fit_text(const calibrate::StackFit& fit, const std::string& base) {
  Table factors("family | >constants | >factor | >uncertainty | >of the prior");
  for (const calibrate::StackFactor& factor : fit.factors)
    factors.row(factor.name, factor.constants.size(), fixed(factor.factor, 2), percent(factor.uncertainty),
                percent(factor.prior));
  Table rows(fmt::format("row | >{} | >fitted | >left out", base.empty() ? "no stack" : base));
  std::vector<double> before, after, left_out;
  for (const calibrate::StackFit::Row& row : fit.rows) {
    rows.add({row.id, signed_percent(row.before), signed_percent(row.after), signed_percent(row.left_out)});
    before.push_back(row.before);
    after.push_back(row.after);
    left_out.push_back(row.left_out);
  }
  const auto mean = [](const std::vector<double>& errors) {
    return percent(calibrate::errors_of(errors).mean_absolute);
  };
  rows.add({"mean absolute", mean(before), mean(after), mean(left_out)});
  return fmt::format(
      "Factors on the constants of {}:\n{}\nErrors of the steps; left out: of each when predicted from a fit to the "
      "others.\n{}",
      base.empty() ? "the profile" : base, factors.to_string(), rows.to_string());
}

std::string refinement_csv(const calibrate::Refinement& refined) {
  CsvTable table({"table", "name", "records", "median_error_before", "median_error", "left_out_median_error", "unit",
                  "before", "value", "prior", "uncertainty", "moved_deviations"});
  for (const calibrate::FittedFamily& family : refined.families)
    table.row("families", family.name, family.records, median_error(family.before), median_error(family.errors),
              median_error(family.left_out), "", "", "", "", "", "");
  for (const calibrate::RefinedConstant& one : refined.constants)
    table.row("constants", one.constant.name, "", "", "", "", one.constant.unit, one.before, one.constant.value,
              one.prior, one.constant.relative_uncertainty, one.moved);
  return table.text();
}

std::string refinement_text(const calibrate::Refinement& refined, const calibrate::FitRecords& records,
                            const std::string& base) {
  Table families(fmt::format("family | >records | >{} | >refined | >left out", base));
  calibrate::FittedFamily all{.name = "all"};
  const auto add = [&](const calibrate::FittedFamily& family) {
    families.row(family.name, family.records, percent_or_dash(median_error(family.before)),
                 percent_or_dash(median_error(family.errors)), percent_or_dash(median_error(family.left_out)));
  };
  for (const calibrate::FittedFamily& family : refined.families) {
    add(family);
    all.records += family.records;
    all.before.insert(all.before.end(), family.before.begin(), family.before.end());
    all.errors.insert(all.errors.end(), family.errors.begin(), family.errors.end());
    all.left_out.insert(all.left_out.end(), family.left_out.begin(), family.left_out.end());
  }
  families.add_rule();
  add(all);
  return fmt::format(
      "{}, {}\nMedian errors with {}, refined, and of shapes that were left out:\n{}\n{}{}{}", machine_text(records),
      records.date.empty() ? "no date" : records.date, base, families.to_string(), moved_table(refined, base),
      paragraph(refinement_verdict(refined, all, base)),
      paragraph("Left out: of each fifth of the shapes when the others move the constants. Moved: in standard "
                "deviations before, of the profile and by which GPUs differ (5 %); +1: and one that states the same "
                "fact. All other constants stay."));
}

std::string gpu_text(const calibrate::GpuComparison& comparison) {
  Table table(columns_of("family | >records | >measured / predicted | >p10 | >p90 | >allowed | "));
  std::vector<std::string> slower, faster;
  for (const calibrate::ComparedFamily& family : comparison.families) {
    table.row(family.name, family.records, fixed(family.median, 3), fixed(family.low, 3), fixed(family.high, 3),
              fmt::format("{}{}", percent(family.allowed), family.stated ? "" : "*"), family.normal() ? "" : "outside");
    if (family.normal()) continue;
    const std::string off = fmt::format("{} ({})", family.name, signed_percent(family.median - 1));
    (family.median > 1 ? slower : faster).push_back(off);
  }
  std::string verdict;
  if (slower.empty() && faster.empty())
    verdict =
        fmt::format("This GPU is normal: every family is within the uncertainty of profile {}.", comparison.profile);
  if (!slower.empty())
    verdict = fmt::format("This GPU is slower than profile {} allows for in {}.", comparison.profile,
                          fmt::join(slower, ", "));
  if (!faster.empty())
    verdict += fmt::format("{}This GPU is faster than profile {} allows for in {}.", verdict.empty() ? "" : " ",
                           comparison.profile, fmt::join(faster, ", "));
  return fmt::format(
      "Is this GPU normal? Its records against profile {}:\n{}\n{}{}", comparison.profile, table.to_string(),
      paragraph(verdict),
      paragraph("Allowed: how far the middle may be off, by the uncertainties of the profile's constants and at "
                "least 5 %; "
                "* they state none, 10 % is assumed. Software and clocks differ too, not only GPUs."));
}

}  // namespace plumbline::reports
