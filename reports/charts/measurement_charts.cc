#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "reports/charts/line_chart.h"
#include "reports/text/inputs/measurements_text.h"
#include "reports/text/table.h"

namespace plumbline::reports {
namespace {

using calibrate::Measurement;
using calibrate::Measurements;

// Returns the device with most measurements, the first of equals; nullptr without measurements.
const std::string* busiest_device(const Measurements& all) {
  std::map<std::string, std::size_t> counts;
  for (const Measurement& m : all.values) ++counts[m.device];
  const Measurement* chosen = nullptr;
  for (const Measurement& m : all.values)
    if (chosen == nullptr || counts[m.device] > counts[chosen->device]) chosen = &m;
  return chosen == nullptr ? nullptr : &chosen->device;
}

bool same_kernel(const Measurement& a, const Measurement& b) {
  return a.device == b.device && a.op == b.op && a.name == b.name && a.phase == b.phase && a.format == b.format &&
         a.shape == b.shape;
}

bool has_key(const Measurement& m, std::string_view key) { return m.case_line.find(key) != std::string::npos; }

bool alone_on_all(const Measurement& m) {
  return m.communication_sms.value_or(0) == 0 && m.target_sms.value_or(0) == 0 && m.cache == "hot" &&
         !has_key(m, "by=green") && !has_key(m, "way=") && !has_key(m, "rows_by=");
}

bool overlaps_free_copy(const Measurement& m) {
  return m.communication_sms.value_or(0) > 0 && m.copy_to != "host" && !has_key(m, "copy_gbps=");
}

std::optional<double> nearest_alone(const std::vector<Measurement>& all, std::size_t index) {
  std::optional<std::size_t> nearest;
  const auto distance = [&](std::size_t i) { return i > index ? i - index : index - i; };
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!alone_on_all(all[i]) || !same_kernel(all[i], all[index])) continue;
    if (!nearest || distance(i) < distance(*nearest)) nearest = i;
  }
  return nearest ? std::optional(all[*nearest].time.p50) : std::nullopt;
}

enum PanelOf : std::size_t { all_sms, sms_left, others, green, panel_count };

constexpr std::array<const char*, panel_count> panel_titles = {"GEMMs for all SMs", "GEMMs for the SMs left",
                                                               "attention, memory-bound", "green contexts"};

// Returns the panel of a measurement; nullopt when it is in none of them.
std::optional<PanelOf> panel_of(const Measurement& m) {
  const bool targeted = m.target_sms.value_or(0) > 0;
  if (has_key(m, "by=green")) return m.op == "gemm" && !targeted ? std::nullopt : std::optional(green);
  if (m.op != "gemm") return others;
  return targeted ? sms_left : all_sms;
}

void add(LineChart::Panel& panel, const std::string& name, LineChart::Point point, bool scattered = false) {
  auto series = std::ranges::find(panel.series, name, &LineChart::Series::name);
  if (series == panel.series.end()) series = panel.series.insert(series, {name, {}, scattered});
  series->points.push_back(std::move(point));
}

// Adds the kernels of a device by format, those whose operands were in the cache apart.
void add_kernels(LineChart::Panel& panel, const Measurements& all, const std::string& device) {
  for (const Measurement& m : all.values) {
    if (m.device != device || m.communication_sms.value_or(0) > 0) continue;
    if (m.flops.value_or(0) <= 0 || m.bytes.value_or(0) <= 0 || m.time.p50 <= 0) continue;
    const double intensity = *m.flops / *m.bytes, tflops = *m.flops / m.time.p50 / tera;
    const std::string format = m.format.empty() ? m.op : m.format;
    add(panel, m.cache == "hot" ? format + ", operands in the cache" : format,
        {intensity, tflops,
         fmt::format("{}: {} TFLOP/s at {} FLOP/B",
                     joined({m.name, m.phase, m.format, shape_text(m), variant_text(m)}, " "), number(tflops),
                     number(intensity))},
        true);
  }
}

// Adds the flat roof of each peak and the slope of the memory, which ends at the highest roof.
void add_roofs(LineChart::Panel& panel, const model::Device& device) {
  const double bytes_per_s = device.memory_bandwidth.value(), bf16 = device.bf16_peak.value();
  const double fp8 = device.fp8_peak.value(), highest = std::max(bf16, fp8);
  if (bytes_per_s <= 0 || bf16 <= 0) return;
  constexpr double room = 4;  // around the ridges
  double from = bf16 / bytes_per_s / room, to = highest / bytes_per_s * room;
  for (const LineChart::Series& series : panel.series)
    for (const LineChart::Point& point : series.points) from = std::min(from, point.x), to = std::max(to, point.x);
  const auto roof = [&](const char* name, double peak) {
    panel.series.push_back({fmt::format("{} peak: {} TFLOP/s", name, grouped(peak / tera)),
                            {{peak / bytes_per_s, peak / tera}, {to, peak / tera}}});
  };
  roof("BF16", bf16);
  if (fp8 > 0) roof("FP8", fp8);
  panel.series.push_back({fmt::format("memory: {} GB/s", grouped(bytes_per_s / 1e9)),
                          {{from, from * bytes_per_s / tera}, {highest / bytes_per_s, highest / tera}}});
}

}  // namespace

LineChart partition_chart(const calibrate::Measurements& measurements) {
  LineChart chart;
  chart.x_title = "SMs that the copy owns";
  const std::string* device = busiest_device(measurements);
  chart.title = device == nullptr ? "No measurements" : *device + ": a kernel overlapped with a copy that reserves SMs";
  chart.subtitle = "time during the copy over time alone on all SMs";
  std::array<LineChart::Panel, panel_count> panels;
  const std::vector<Measurement>& all = measurements.values;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Measurement& m = all[i];
    if (m.device != *device || !overlaps_free_copy(m)) continue;
    const auto panel = panel_of(m);
    const auto alone = nearest_alone(all, i);
    if (!panel || !alone) continue;
    add(panels[*panel], joined({m.name, m.phase == "F" ? "" : m.phase, m.format}, " "),
        {static_cast<double>(*m.communication_sms), m.time.p50 / *alone});
  }
  for (std::size_t i = 0; i < panels.size(); ++i) {
    if (panels[i].series.empty()) continue;
    for (LineChart::Series& series : panels[i].series) std::ranges::sort(series.points, {}, &LineChart::Point::x);
    panels[i].y_title = panel_titles[i];
    chart.panels.push_back(std::move(panels[i]));
  }
  return chart;
}

LineChart roofline_chart(const Measurements& all, const std::vector<topologies::KnownDevice>& devices) {
  LineChart chart;
  chart.x_title = "FLOP per byte of device memory";
  chart.logarithmic = chart.decimal_ticks = true;
  chart.panel_height = 420;
  const std::string* name = busiest_device(all);
  chart.title = name == nullptr ? "No measurements" : *name;
  LineChart::Panel& panel = chart.panels.emplace_back();
  panel.y_title = "TFLOP/s (10^12 FLOP per second)";
  panel.logarithmic = true;
  if (name == nullptr) return chart;
  add_kernels(panel, all, *name);
  std::ranges::sort(panel.series, {}, &LineChart::Series::name);
  const model::Device* device = topologies::find_device(devices, *name);
  chart.subtitle =
      fmt::format("median times; roofs: {}", device == nullptr ? "no datasheet known" : "datasheet, dense");
  if (device != nullptr) add_roofs(panel, *device);
  return chart;
}

}  // namespace plumbline::reports
