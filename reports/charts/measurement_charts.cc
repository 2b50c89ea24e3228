#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <optional>
#include <string_view>

#include "reports/charts/chart_frame.h"
#include "reports/charts/detail/roofline.h"
#include "reports/text/inputs/measurements_text.h"
#include "reports/text/table.h"

namespace plumbline::reports {
namespace {

constexpr PlotArea plot{76, 64, 760, 420};
constexpr double below_plot = 62, name_height = 22, right_margin = 150;

constexpr std::string_view roofline_rules = R"css(.roof { stroke-width: 1.5; }
circle { fill-opacity: .75; stroke-width: 1.2; } circle.hollow { fill-opacity: 0; }
)css";

bool drawable(const Roofline::Point& point) { return point.flops > 0 && point.bytes > 0 && point.seconds > 0; }

std::string roofline_tick_text(double tick) { return tick < 1 ? fmt::format("{:.3g}", tick) : grouped(tick); }

class RooflinePicture : private Drawing {
 public:
  explicit RooflinePicture(const Roofline& roofline) : roofline_(roofline) {
    for (const Roofline::Peak& peak : roofline.peaks) {
      // The scales leave a margin around the ridge of the roof, and above it for its name.
      constexpr double room = 4, above = 1.3;
      vertical_.include(peak.flops_per_s / tera * above);
      vertical_.include(peak.flops_per_s / tera / room);
      if (roofline.bytes_per_s <= 0) continue;
      horizontal_.include(peak.flops_per_s / roofline.bytes_per_s * room);
      horizontal_.include(peak.flops_per_s / roofline.bytes_per_s / room);
    }
    for (const Roofline::Point& point : roofline.points) {
      if (!drawable(point)) continue;
      horizontal_.include(point.flops / point.bytes);
      vertical_.include(point.flops / point.seconds / tera);
      if (position_of(series_, point.series) == series_.size()) series_.push_back(point.series);
    }
    std::ranges::sort(series_);
    horizontal_.widen_to_ticks();
    vertical_.widen_to_ticks();
  }

  std::string draw() {
    title(plot.left, roofline_.title, roofline_.subtitle);
    vertical_grid(plot, horizontal_, horizontal_.ticks(), roofline_tick_text);
    horizontal_grid(plot, vertical_, vertical_.ticks(), roofline_tick_text);
    frame(plot);
    x_title(plot, "FLOP per byte of device memory");
    y_title(plot, "TFLOP/s (10^12 FLOP per second)");
    add_roofs();
    for (const Roofline::Point& point : roofline_.points)
      if (drawable(point)) add_point(point);
    add_legend();
    return document(plot.right() + right_margin, plot.bottom() + below_plot + name_height,
                    fmt::format("Roofline of {}: TFLOP/s against FLOP per byte", roofline_.title), roofline_rules);
  }

 private:
  double x_of(double intensity) const { return plot.x(horizontal_.share(intensity)); }
  double y_of(double tflops) const { return plot.y(vertical_.share(tflops)); }

  // Adds the slope of the memory and a flat roof per peak; the slope ends at the highest roof.
  void add_roofs() {
    double highest = 0;
    for (const Roofline::Peak& peak : roofline_.peaks) {
      const double bend = roofline_.bytes_per_s > 0 ? peak.flops_per_s / roofline_.bytes_per_s : 0;
      const double start = std::max(bend, horizontal_.low());
      const double y = y_of(peak.flops_per_s / tera);
      highest = std::max(highest, peak.flops_per_s);
      add(R"(<path class="roof outline" d="M{:.1f} {:.1f}H{:.1f}"/>)", x_of(start), y, plot.right());
      line(R"(<text class="strong" x="{:.1f}" y="{:.1f}">{}: {} TFLOP/s</text>)", plot.right() + 8, y + 4,
           escape_html(peak.name), grouped(peak.flops_per_s / tera));
    }
    if (highest <= 0 || roofline_.bytes_per_s <= 0) return;
    const double bytes = roofline_.bytes_per_s;
    const double start = std::max(horizontal_.low(), vertical_.low() * tera / bytes);
    const double end = highest / bytes;
    const double x1 = x_of(start), y1 = y_of(start * bytes / tera), x2 = x_of(end), y2 = y_of(highest / tera);
    add(R"(<path class="roof outline" d="M{:.1f} {:.1f}L{:.1f} {:.1f}"/>)", x1, y1, x2, y2);
    constexpr double degrees = 180 / 3.14159265358979323846;
    add(R"svg(<text class="strong" transform="translate({:.1f} {:.1f}) rotate({:.1f})">memory: {} GB/s</text>)svg"
        "\n",
        x1 + (x2 - x1) * 0.35, y1 + (y2 - y1) * 0.35 - 7, std::atan2(y2 - y1, x2 - x1) * degrees, grouped(bytes / 1e9));
  }

  std::string css_class(const std::string& series) const { return series_class(position_of(series_, series)); }

  void add_point(const Roofline::Point& point) {
    const double intensity = point.flops / point.bytes, tflops = point.flops / point.seconds / tera;
    line(R"(<circle class="{}{}" cx="{:.1f}" cy="{:.1f}" r="4"><title>{}: {} TFLOP/s at {} FLOP/B</title></circle>)",
         css_class(point.series), point.hollow ? " hollow" : "", x_of(intensity), y_of(tflops),
         escape_html(point.label), number(tflops), number(intensity));
  }

  void add_legend() {
    constexpr double gap = 20;
    double x = plot.left + 6;
    const auto item = [&](const std::string& css, const std::string& text) {
      x += legend_dot(css, x, plot.bottom() + below_plot, text) + gap;
    };
    for (const std::string& series : series_) item(css_class(series), series);
    const bool any_hollow =
        std::ranges::any_of(roofline_.points, [](const Roofline::Point& p) { return p.hollow && drawable(p); });
    if (any_hollow && !roofline_.hollow_meaning.empty()) item("s5 hollow", roofline_.hollow_meaning);
  }

  const Roofline& roofline_;
  Scale horizontal_ = Scale(true), vertical_ = Scale(true);
  std::vector<std::string> series_;
};

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

void add(LineChart::Panel& panel, const std::string& name, LineChart::Point point) {
  auto series = std::ranges::find(panel.series, name, &LineChart::Series::name);
  if (series == panel.series.end()) series = panel.series.insert(series, {name, {}});
  series->points.push_back(point);
}

}  // namespace

std::string roofline_svg(const Roofline& roofline) { return RooflinePicture(roofline).draw(); }

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

std::string measurements_roofline(const Measurements& all, const std::vector<topologies::KnownDevice>& devices) {
  Roofline roofline;
  roofline.hollow_meaning = "hollow: operands in the cache";
  roofline.title = "No measurements";
  const std::string* name = busiest_device(all);
  if (name == nullptr) return roofline_svg(roofline);
  roofline.title = *name;
  if (const model::Device* device = topologies::find_device(devices, *name)) {
    roofline.peaks.push_back({"BF16", device->bf16_peak.value()});
    if (device->fp8_peak.value() > 0) roofline.peaks.push_back({"FP8", device->fp8_peak.value()});
    roofline.bytes_per_s = device->memory_bandwidth.value();
  }
  for (const Measurement& m : all.values) {
    if (m.device != *name || m.communication_sms.value_or(0) > 0 || !m.flops || !m.bytes) continue;
    roofline.points.push_back({m.format.empty() ? m.op : m.format,
                               joined({m.name, m.phase, m.format, shape_text(m), variant_text(m)}, " "), *m.flops,
                               *m.bytes, m.time.p50, m.cache == "hot"});
  }
  roofline.subtitle = fmt::format("{} GEMMs, median times; roofs: {}", roofline.points.size(),
                                  roofline.peaks.empty() ? "no datasheet known" : "datasheet, dense");
  return roofline_svg(roofline);
}

}  // namespace plumbline::reports
