#include "reports/charts/roofline.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <string_view>

#include "reports/charts/chart_style.h"
#include "reports/text/format.h"

namespace plumbline::reports {
namespace {

constexpr double left = 76, top = 64, plot_width = 760, plot_height = 420, legend_height = 22, right_margin = 150;
constexpr double tera = 1e12;

constexpr std::string_view style = R"css(<style>
.roof { stroke-width: 1.5; }
circle { fill-opacity: .75; stroke-width: 1.2; } circle.hollow { fill-opacity: 0; }
</style>
)css";

bool drawable(const Roofline::Point& point) { return point.flops > 0 && point.bytes > 0 && point.seconds > 0; }

// A logarithmic axis that ends on ticks: 1, 2 or 5 times a power of ten.
class Axis {
 public:
  void include(double value) {
    low_ = std::min(low_, value);
    high_ = std::max(high_, value);
  }
  // What lies between the ends and includes them, at least two; one decade when nothing was included.
  std::vector<double> ticks() const {
    std::vector<double> found;
    const bool empty = low_ > high_;
    const double low = empty ? 1 : low_, high = empty ? 10 : high_;
    for (int exponent = static_cast<int>(std::floor(std::log10(low))) - 1; found.size() < 2 || found.back() < high;
         ++exponent) {
      for (const double factor : {1.0, 2.0, 5.0}) {
        const double tick = factor * std::pow(10, exponent);
        constexpr double rounding = 1 + 1e-9;
        if (tick <= low * rounding) found.assign(1, tick);
        if (tick > low * rounding && (found.size() < 2 || found.back() < high)) found.push_back(tick);
      }
    }
    return found;
  }

 private:
  double low_ = std::numeric_limits<double>::infinity(), high_ = 0;
};

std::string tick_text(double tick) { return tick < 1 ? fmt::format("{:.3g}", tick) : grouped(tick); }

class Picture {
 public:
  explicit Picture(const Roofline& roofline) : roofline_(roofline) {
    Axis horizontal, vertical;
    for (const Roofline::Peak& peak : roofline.peaks) {
      // Room around the bend of the roof, and above it for its name.
      constexpr double room = 4, above = 1.3;
      vertical.include(peak.flops_per_s / tera * above);
      vertical.include(peak.flops_per_s / tera / room);
      if (roofline.bytes_per_s <= 0) continue;
      horizontal.include(peak.flops_per_s / roofline.bytes_per_s * room);
      horizontal.include(peak.flops_per_s / roofline.bytes_per_s / room);
    }
    for (const Roofline::Point& point : roofline.points) {
      if (!drawable(point)) continue;
      horizontal.include(point.flops / point.bytes);
      vertical.include(point.flops / point.seconds / tera);
      if (std::ranges::find(series_, point.series) == series_.end()) series_.push_back(point.series);
    }
    std::ranges::sort(series_);
    horizontal_ = horizontal.ticks();
    vertical_ = vertical.ticks();
  }

  std::string draw() {
    const double width = left + plot_width + right_margin;
    const double height = top + plot_height + 62 + legend_height;
    add(R"(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {} {}" width="{}" height="{}" role="img" )"
        R"(aria-label="Roofline of {}: TFLOP/s against FLOP per byte">)"
        "\n{}{}",
        width, height, width, height, escape_html(roofline_.title), chart_style, style);
    add(R"(<rect class="page" width="{}" height="{}"/>)"
        "\n",
        width, height);
    add(R"(<text class="title" x="{}" y="26">{}</text><text x="{}" y="46">{}</text>)"
        "\n",
        left, escape_html(roofline_.title), left, escape_html(roofline_.subtitle));
    add_grid();
    add_roofs();
    for (const Roofline::Point& point : roofline_.points) {
      if (drawable(point)) add_point(point);
    }
    add_legend();
    add("</svg>\n");
    return std::move(out_);
  }

 private:
  template <class... Arguments>
  void add(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<Arguments>(arguments)...);
  }
  static double share(const std::vector<double>& ticks, double value) {
    return std::log(value / ticks.front()) / std::log(ticks.back() / ticks.front());
  }
  double x_of(double intensity) const { return left + plot_width * share(horizontal_, intensity); }
  double y_of(double tflops) const { return top + plot_height * (1 - share(vertical_, tflops)); }

  void add_grid() {
    const double bottom = top + plot_height, right = left + plot_width;
    for (const double tick : horizontal_) {
      const double x = x_of(tick);
      add(R"(<line class="grid" x1="{0:.1f}" x2="{0:.1f}" y1="{1}" y2="{2}"/>)", x, top, bottom);
      add(R"(<text x="{:.1f}" y="{}" text-anchor="middle">{}</text>)"
          "\n",
          x, bottom + 18, tick_text(tick));
    }
    for (const double tick : vertical_) {
      const double y = y_of(tick);
      add(R"(<line class="grid" x1="{0}" x2="{1}" y1="{2:.1f}" y2="{2:.1f}"/>)", left, right, y);
      add(R"(<text x="{}" y="{:.1f}" text-anchor="end">{}</text>)"
          "\n",
          left - 8, y + 4, tick_text(tick));
    }
    add(R"(<rect class="frame" x="{}" y="{}" width="{}" height="{}"/>)"
        "\n",
        left, top, plot_width, plot_height);
    add(R"(<text x="{}" y="{}" text-anchor="middle">FLOP per byte of device memory</text>)"
        "\n",
        left + plot_width / 2, bottom + 38);
    add(R"svg(<text transform="translate(20 {}) rotate(-90)" text-anchor="middle">TFLOP/s (10^12 FLOP per second)</text>)svg"
        "\n",
        top + plot_height / 2);
  }

  // The slope of the memory and a flat roof per peak; the slope ends where it meets the highest one.
  void add_roofs() {
    const double right = horizontal_.back();
    double highest = 0;
    for (const Roofline::Peak& peak : roofline_.peaks) {
      const double bend = roofline_.bytes_per_s > 0 ? peak.flops_per_s / roofline_.bytes_per_s : 0;
      const double start = std::max(bend, horizontal_.front());
      const double y = y_of(peak.flops_per_s / tera);
      highest = std::max(highest, peak.flops_per_s);
      add(R"(<path class="roof outline" d="M{:.1f} {:.1f}H{:.1f}"/>)", x_of(start), y, x_of(right));
      add(R"(<text class="strong" x="{:.1f}" y="{:.1f}">{}: {} TFLOP/s</text>)"
          "\n",
          x_of(right) + 8, y + 4, escape_html(peak.name), grouped(peak.flops_per_s / tera));
    }
    if (highest <= 0 || roofline_.bytes_per_s <= 0) return;
    const double bytes = roofline_.bytes_per_s;
    const double start = std::max(horizontal_.front(), vertical_.front() * tera / bytes);
    const double end = highest / bytes;
    const double x1 = x_of(start), y1 = y_of(start * bytes / tera), x2 = x_of(end), y2 = y_of(highest / tera);
    add(R"(<path class="roof outline" d="M{:.1f} {:.1f}L{:.1f} {:.1f}"/>)", x1, y1, x2, y2);
    constexpr double degrees = 180 / 3.14159265358979323846;
    add(R"svg(<text class="strong" transform="translate({:.1f} {:.1f}) rotate({:.1f})">memory: {} GB/s</text>)svg"
        "\n",
        x1 + (x2 - x1) * 0.35, y1 + (y2 - y1) * 0.35 - 7, std::atan2(y2 - y1, x2 - x1) * degrees, grouped(bytes / 1e9));
  }

  std::string css_class(const std::string& series) const {
    const auto index = static_cast<std::size_t>(std::ranges::find(series_, series) - series_.begin());
    return fmt::format("s{}", index % chart_colours);
  }

  void add_point(const Roofline::Point& point) {
    const double intensity = point.flops / point.bytes, tflops = point.flops / point.seconds / tera;
    add(R"(<circle class="{}{}" cx="{:.1f}" cy="{:.1f}" r="4"><title>{}: {} TFLOP/s at {} FLOP/B</title></circle>)"
        "\n",
        css_class(point.series), point.hollow ? " hollow" : "", x_of(intensity), y_of(tflops), escape_html(point.label),
        number(tflops), number(intensity));
  }

  void add_legend() {
    const double y = top + plot_height + 62;
    double x = left + 6;
    const auto item = [&](const std::string& css, const std::string& text) {
      add(R"(<circle class="{}" cx="{:.1f}" cy="{:.1f}" r="4"/><text x="{:.1f}" y="{:.1f}">{}</text>)"
          "\n",
          css, x, y, x + 10, y + 4, escape_html(text));
      constexpr double character = 7.2, gap = 30;
      x += character * static_cast<double>(text.size()) + gap;
    };
    for (const std::string& series : series_) item(css_class(series), series);
    const bool any_hollow =
        std::ranges::any_of(roofline_.points, [](const Roofline::Point& p) { return p.hollow && drawable(p); });
    if (any_hollow && !roofline_.hollow_meaning.empty()) item("s5 hollow", roofline_.hollow_meaning);
  }

  const Roofline& roofline_;
  std::vector<double> horizontal_, vertical_;  // ticks
  std::vector<std::string> series_;
  std::string out_;
};

}  // namespace

std::string roofline_svg(const Roofline& roofline) { return Picture(roofline).draw(); }

}  // namespace plumbline::reports
