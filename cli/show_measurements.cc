#include "cli/show_measurements.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "cli/busiest_device.h"
#include "cli/data.h"
#include "cli/measurement_text.h"
#include "cli/output.h"
#include "cli/partition_chart.h"
#include "reports/charts/line_chart.h"
#include "reports/charts/roofline.h"
#include "reports/text/format.h"
#include "reports/text/table.h"

namespace plumbline::cli {
namespace {

using calibrate::Failure;
using calibrate::Measurement;
using calibrate::Measurements;
using reports::Align;

constexpr double tera = 1e12, giga = 1e9;
constexpr std::size_t table_width = 160;  // names and shapes are long; a row that wraps is harder to read

template <class Values, class Key>
std::vector<std::string> distinct(const Values& values, Key key) {
  std::vector<std::string> found;
  for (const auto& value : values) {
    if (std::ranges::find(found, std::invoke(key, value)) == found.end()) found.push_back(std::invoke(key, value));
  }
  return found;
}

std::vector<std::string> cells_of(const Measurement& m, const model::Device* device) {
  return {m.name,
          shape_text(m),
          joined({m.phase, m.format}, " "),
          variant_text(m),
          reports::duration(m.time.p50),
          spread_text(m),
          rate_text(m),
          share_text(m, device),
          check_text(m)};
}

// Columns in which an operation has nothing to say are left out.
std::string op_table(const Measurements& all, const std::string& device_name, const std::string& op,
                     const model::Device* device) {
  const std::vector<reports::Column> columns = {{"name"},
                                                {"shape"},
                                                {"format"},
                                                {"variant"},
                                                {"p50", Align::right},
                                                {"p10-p90", Align::right},
                                                {"rate", Align::right},
                                                {"of peak", Align::right},
                                                {"check"}};
  std::vector<std::vector<std::string>> rows;
  for (const Measurement& m : all.values) {
    if (m.device == device_name && m.op == op) rows.push_back(cells_of(m, device));
  }
  std::vector<std::size_t> used;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    if (std::ranges::any_of(rows, [i](const auto& row) { return !row[i].empty(); })) used.push_back(i);
  }
  std::vector<reports::Column> chosen;
  for (const std::size_t i : used) chosen.push_back(columns[i]);
  reports::Table table(chosen, 2, table_width);
  for (std::vector<std::string>& row : rows) {
    std::vector<std::string> cells;
    for (const std::size_t i : used) cells.push_back(std::move(row[i]));
    table.add(std::move(cells));
  }
  return fmt::format("\n{}\n{}", op, table.to_string());
}

// "driver 580.95, libraries.cublasLt 13.1", wrapped.
void add_properties(const nlohmann::ordered_json& object, const std::string& prefix, std::string& text) {
  for (const auto& [key, value] : object.items()) {
    if (value.is_object()) {
      add_properties(value, prefix + key + ".", text);
    } else {
      text += fmt::format("{}{}{} {}", text.empty() ? "" : ", ", prefix, key,
                          value.is_string() ? value.get<std::string>() : value.dump());
    }
  }
}

std::string environment_text(const Measurements& all, const std::string& device) {
  std::set<std::string> shown;  // a resumed run describes the same machine again
  std::string out;
  for (const calibrate::Environment& environment : all.environments) {
    if (environment.device != device || !shown.insert(environment.properties).second) continue;
    std::string text;
    add_properties(nlohmann::ordered_json::parse(environment.properties, nullptr, false), "", text);
    for (const std::string& line : reports::wrap(text, reports::terminal_width)) out += line + '\n';
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
  if (device != nullptr) {
    text += fmt::format("; datasheet of {}: {} SMs, BF16 {:.0f} and FP8 {:.0f} TFLOP/s, {:.0f} GB/s", device->name,
                        device->sms, device->bf16_peak.value() / tera, device->fp8_peak.value() / tera,
                        device->memory_bandwidth.value() / giga);
  }
  std::string out;
  for (const std::string& line : reports::wrap(text, reports::terminal_width)) out += line + '\n';
  if (!days.empty()) out += fmt::format("{}\n", fmt::join(days, ", "));
  for (const std::string& source : sources) {
    for (const std::string& line : reports::wrap("source: " + source, reports::terminal_width)) out += line + '\n';
  }
  return out + environment_text(all, name);
}

std::string failures_text(const Measurements& all) {
  reports::Table table({{"failed"}, {"reason"}}, 2, table_width);
  bool any = false;
  for (const Failure& failure : all.failures) {
    const bool made_good = std::ranges::any_of(all.values, [&](const Measurement& m) {
      return !failure.case_line.empty() && m.case_line == failure.case_line && m.device == failure.device;
    });
    if (made_good) continue;
    any = true;
    table.add(
        {joined({failure.op, failure.name, failure.phase, failure.format, shape_text(failure)}, " "), failure.reason});
  }
  return any ? "\n" + table.to_string() : "";
}

}  // namespace

std::string measurements_text(const Measurements& all, const std::vector<topologies::KnownDevice>& devices) {
  std::vector<std::string> names = distinct(all.values, &Measurement::device);
  for (const calibrate::Environment& environment : all.environments) {
    if (std::ranges::find(names, environment.device) == names.end()) names.push_back(environment.device);
  }
  std::string text;
  for (const std::string& name : names) {
    const model::Device* device = topologies::find_device(devices, name);
    text += (text.empty() ? "" : "\n") + heading(all, name, device);
    std::vector<Measurement> own;
    std::ranges::copy_if(all.values, std::back_inserter(own), [&](const auto& m) { return m.device == name; });
    for (const std::string& op : distinct(own, &Measurement::op)) text += op_table(all, name, op, device);
  }
  return text + failures_text(all);
}

std::string measurements_roofline(const Measurements& all, const std::vector<topologies::KnownDevice>& devices) {
  reports::Roofline roofline;
  roofline.hollow_meaning = "hollow: operands in the cache";
  roofline.title = "No measurements";
  const std::string* name = busiest_device(all);
  if (name == nullptr) return reports::roofline_svg(roofline);
  roofline.title = *name;
  if (const model::Device* device = topologies::find_device(devices, *name)) {
    roofline.peaks.push_back({"BF16", device->bf16_peak.value()});
    if (device->fp8_peak.value() > 0) roofline.peaks.push_back({"FP8", device->fp8_peak.value()});
    roofline.bytes_per_s = device->memory_bandwidth.value();
  }
  for (const Measurement& m : all.values) {
    if (m.device != *name || m.communication_ctas.value_or(0) > 0 || !m.flops || !m.bytes) continue;
    roofline.points.push_back({m.format.empty() ? m.op : m.format,
                               joined({m.name, m.phase, m.format, shape_text(m), variant_text(m)}, " "), *m.flops,
                               *m.bytes, m.time.p50, m.cache == "hot"});
  }
  roofline.subtitle = fmt::format("{} matrix products, median times; roofs: {}", roofline.points.size(),
                                  roofline.peaks.empty() ? "no datasheet known" : "datasheet, dense");
  return reports::roofline_svg(roofline);
}

model::Result<void> show_measurements(const std::string& path, const std::string& svg, const std::string& partition) {
  const auto data = data_folder();
  if (!data) return tl::unexpected(data.error());
  const auto devices = topologies::load_devices(*data + "/topologies/devices");
  if (!devices) return tl::unexpected(devices.error());
  const auto measurements = calibrate::load_measurements(path, *devices);
  if (!measurements) return tl::unexpected(measurements.error());
  for (const std::string& note : measurements->notes) fmt::print(stderr, "note: {}: {}\n", path, note);
  if (!svg.empty()) {
    if (auto written = write_output(svg, measurements_roofline(*measurements, *devices)); !written) return written;
  }
  if (!partition.empty()) {
    const std::string picture = reports::line_chart_svg(partition_chart(*measurements));
    if (auto written = write_output(partition, picture); !written) return written;
  }
  return svg == "-" || partition == "-" ? model::Result<void>()
                                        : write_output("-", measurements_text(*measurements, *devices));
}

}  // namespace plumbline::cli
