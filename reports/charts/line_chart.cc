#include "reports/charts/line_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <string_view>
#include <utility>

#include "reports/charts/chart_style.h"
#include "reports/charts/svg.h"
#include "reports/text/format.h"

namespace plumbline::reports {
namespace {

constexpr double left = 84, top = 66, plot_width = 760, panel_height = 220, panel_gap = 26, right_margin = 24;
constexpr double below_panels = 50, legend_row = 22;

constexpr std::string_view style = R"css(<style>
path.line { fill: none; stroke-width: 2; stroke-linejoin: round; } circle { stroke: none; }
rect.band { fill-opacity: .14; stroke: none; } circle.ring { stroke-width: 1.6; }
</style>
)css";

std::string tick_text(double tick) { return std::abs(tick) >= 10'000 ? grouped(tick) : fmt::format("{:.6g}", tick); }

// From the lowest to the highest value that was included, widened to ticks.
class Axis {
 public:
  void include(double value) {
    low_ = std::min(low_, value);
    high_ = std::max(high_, value);
  }
  double low() const { return low_; }
  double high() const { return high_; }

  // Ends of the axis so that nothing is flat: 0 to 1 when empty.
  void settle() {
    if (low_ > high_) low_ = 0, high_ = 1;
    if (low_ == high_) {
      const double room = low_ == 0 ? 1 : std::abs(low_) * 0.1;
      low_ -= room;
      high_ += room;
    }
  }
  void widen_to_ticks() {
    settle();
    const double step = axis_step(high_ - low_);
    low_ = std::floor(low_ / step + rounding) * step;
    high_ = std::ceil(high_ / step - rounding) * step;
  }
  // Within the ends.
  std::vector<double> ticks() const {
    const double step = axis_step(high_ - low_);
    std::vector<double> found;
    for (double i = std::ceil(low_ / step - rounding); i * step <= high_ + step * rounding; ++i)
      found.push_back(i * step + 0.0);  // never -0
    return found;
  }
  double share(double value) const { return (value - low_) / (high_ - low_); }

 private:
  static constexpr double rounding = 1e-9;
  double low_ = std::numeric_limits<double>::infinity(), high_ = -std::numeric_limits<double>::infinity();
};

class Picture {
 public:
  explicit Picture(const LineChart& chart) : chart_(chart) {
    for (const LineChart::Panel& panel : chart.panels) {
      Axis& vertical = vertical_.emplace_back();
      if (panel.from_zero) vertical.include(0);
      for (const LineChart::Series& series : panel.series) {
        if (std::ranges::find(names_, series.name) == names_.end()) names_.push_back(series.name);
        for (const LineChart::Point& point : series.points) {
          horizontal_.include(place(point.x));
          if (std::ranges::find(values_, point.x) == values_.end()) values_.push_back(point.x);
          if (point.y) vertical.include(*point.y);
        }
      }
      vertical.widen_to_ticks();
    }
    horizontal_.settle();
    std::ranges::sort(values_);
  }

  std::string draw() {
    const auto panels = static_cast<double>(chart_.panels.size());
    const double bottom = top + panels * (panel_height + panel_gap) - panel_gap;
    lay_out_legend(bottom + below_panels + 12);
    const double width = left + plot_width + right_margin;
    add(R"(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {0} {1}" width="{0}" height="{1}" role="img" )"
        "aria-label=\"{2}\">\n{3}{4}",
        width, legend_end_, escape_html(chart_.title), chart_style, style);
    add(R"(<rect class="page" width="{}" height="{}"/>)"
        "\n",
        width, legend_end_);
    add(R"(<text class="title" x="{}" y="26">{}</text><text x="{}" y="46">{}</text>)"
        "\n",
        left, escape_html(chart_.title), left, escape_html(chart_.subtitle));
    for (std::size_t i = 0; i < chart_.panels.size(); ++i) add_panel(i);
    add_horizontal_axis(bottom);
    out_ += legend_ + "</svg>\n";
    return std::move(out_);
  }

 private:
  template <class... Arguments>
  void add(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<Arguments>(arguments)...);
  }
  double place(double x) const { return chart_.logarithmic ? std::log(x) : x; }
  double x_of(double x) const { return left + plot_width * horizontal_.share(place(x)); }
  static double top_of(std::size_t panel) { return top + static_cast<double>(panel) * (panel_height + panel_gap); }
  double y_of(std::size_t panel, double y) const {
    return top_of(panel) + panel_height * (1 - vertical_[panel].share(y));
  }
  std::string css_class(const std::string& name) const {
    const auto index = static_cast<std::size_t>(std::ranges::find(names_, name) - names_.begin());
    return fmt::format("s{}", index % chart_colours);
  }

  // Of a logarithmic axis the values themselves, as many as there is room for.
  std::vector<double> horizontal_ticks() const {
    if (!chart_.logarithmic) return horizontal_.ticks();
    constexpr std::size_t most = 12;
    const std::size_t every = values_.size() / most + 1;
    std::vector<double> ticks;
    for (std::size_t i = 0; i < values_.size(); i += every) ticks.push_back(values_[i]);
    return ticks;
  }

  void add_panel(std::size_t index) {
    const LineChart::Panel& panel = chart_.panels[index];
    const double y = top_of(index), bottom = y + panel_height, right = left + plot_width;
    for (const LineChart::Band& band : chart_.bands) {
      const double from = x_of(band.from), to = x_of(band.to);
      add(R"(<rect class="band {}" x="{:.1f}" y="{}" width="{:.1f}" height="{}"/>)"
          "\n",
          css_class(band.series), from, y, std::max(to - from, 2.0), panel_height);
    }
    for (const double tick : horizontal_ticks())
      add(R"(<line class="grid" x1="{0:.1f}" x2="{0:.1f}" y1="{1}" y2="{2}"/>)", x_of(tick), y, bottom);
    for (const double tick : vertical_[index].ticks()) {
      const double at = y_of(index, tick);
      add(R"(<line class="grid" x1="{0}" x2="{1}" y1="{2:.1f}" y2="{2:.1f}"/>)", left, right, at);
      add(R"(<text x="{}" y="{:.1f}" text-anchor="end">{}</text>)"
          "\n",
          left - 8, at + 4, tick_text(tick));
    }
    add(R"(<rect class="frame" x="{}" y="{}" width="{}" height="{}"/>)"
        "\n",
        left, y, plot_width, panel_height);
    add(R"svg(<text transform="translate(20 {}) rotate(-90)" text-anchor="middle">{}</text>)svg"
        "\n",
        y + panel_height / 2, escape_html(panel.y_title));
    for (const LineChart::Series& series : panel.series) add_series(index, series);
    if (index == 0) add_marks();
  }

  void add_series(std::size_t panel, const LineChart::Series& series) {
    const std::string css = css_class(series.name);
    std::string path, points;
    bool drawing = false;
    for (const LineChart::Point& point : series.points) {
      if (point.y) {
        const double x = x_of(point.x), y = y_of(panel, *point.y);
        path += fmt::format("{}{:.1f} {:.1f}", drawing ? "L" : "M", x, y);
        points += fmt::format(R"(<circle class="{}" cx="{:.1f}" cy="{:.1f}" r="2.5"><title>{}{} at {}</title></circle>)"
                              "\n",
                              css, x, y, escape_html(series.name.empty() ? "" : series.name + ": "), number(*point.y),
                              tick_text(point.x));
      }
      drawing = point.y.has_value();
    }
    if (!path.empty())
      add(R"(<path class="line {}" d="{}"/>)"
          "\n",
          css, path);
    out_ += points;
  }

  void add_marks() {
    for (const LineChart::Mark& mark : chart_.marks) {
      const double x = x_of(mark.x), y = y_of(0, mark.y);
      const bool at_right = x > left + plot_width / 2;
      add(R"(<circle class="ring outline" cx="{:.1f}" cy="{:.1f}" r="7"/>)", x, y);
      add(R"(<text class="strong" x="{:.1f}" y="{:.1f}" text-anchor="{}">{}</text>)"
          "\n",
          at_right ? x - 11 : x + 11, y - 9, at_right ? "end" : "start", escape_html(mark.label));
    }
  }

  void add_horizontal_axis(double y) {
    for (const double tick : horizontal_ticks())
      add(R"(<text x="{:.1f}" y="{}" text-anchor="middle">{}</text>)"
          "\n",
          x_of(tick), y + 18, tick_text(tick));
    add(R"(<text x="{}" y="{}" text-anchor="middle">{}</text>)"
        "\n",
        left + plot_width / 2, y + 38, escape_html(chart_.x_title));
  }

  // Items side by side, in as many rows as they need; none for a single unnamed series.
  void lay_out_legend(double y) {
    constexpr double character = 7.2, gap = 30, swatch = 10;
    double x = left + 6;
    for (const std::string& name : names_) {
      if (name.empty()) continue;
      const double width = swatch + character * static_cast<double>(name.size());
      if (x > left + 6 && x + width > left + plot_width) x = left + 6, y += legend_row;
      legend_ +=
          fmt::format(R"(<circle class="{}" cx="{:.1f}" cy="{:.1f}" r="4"/><text x="{:.1f}" y="{:.1f}">{}</text>)"
                      "\n",
                      css_class(name), x, y, x + swatch, y + 4, escape_html(name));
      x += width + gap;
    }
    legend_end_ = legend_.empty() ? y : y + legend_row;
  }

  const LineChart& chart_;
  Axis horizontal_;
  std::vector<Axis> vertical_;  // of each panel
  std::vector<double> values_;  // every x, rising
  std::vector<std::string> names_;
  std::string out_, legend_;
  double legend_end_ = 0;
};

}  // namespace

std::string line_chart_svg(const LineChart& chart) { return Picture(chart).draw(); }

}  // namespace plumbline::reports
