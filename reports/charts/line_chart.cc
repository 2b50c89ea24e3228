#include "reports/charts/line_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>

#include "reports/charts/chart_frame.h"
#include "reports/text/table.h"

namespace plumbline::reports {
namespace {

constexpr std::string_view line_rules =
    R"css(path.line { fill: none; stroke-width: 2; stroke-linejoin: round; } circle { stroke: none; } circle.faint { fill-opacity: .4; }
rect.band { fill-opacity: .14; stroke: none; } circle.ring { stroke-width: 1.6; } .limit { stroke-dasharray: 6 4; }
)css";

std::string line_tick_text(double tick) {
  return std::abs(tick) >= 10'000 ? grouped(tick) : fmt::format("{:.6g}", tick);
}

// Where the text of a mark stands: it ends at x, or begins there.
struct LabelPlace {
  double x = 0, baseline = 0;
  bool before = false;
};

class LinePicture : private Drawing {
  static constexpr double left = 84, top = 66, plot_width = 760, panel_gap = 26, right_margin = 24;
  static constexpr double below_panels = 50;

 public:
  explicit LinePicture(const LineChart& chart) : chart_(chart), horizontal_(chart.logarithmic) {
    for (const LineChart::Panel& panel : chart.panels) {
      Scale& vertical = vertical_.emplace_back(panel.logarithmic);
      if (panel.from_zero) vertical.include(0);
      for (const LineChart::Series& series : panel.series) {
        if (position_of(names_, series.name) == names_.size()) names_.push_back(series.name);
        for (const LineChart::Point& point : series.points) {
          horizontal_.include(point.x);
          if (std::ranges::find(values_, point.x) == values_.end()) values_.push_back(point.x);
          if (point.y) vertical.include(*point.y);
        }
      }
      vertical.widen_to_ticks();
    }
    for (const LineChart::Limit& limit : chart.limits) horizontal_.include(limit.x);
    if (chart.decimal_ticks) horizontal_.widen_to_ticks();
    horizontal_.settle();
    std::ranges::sort(values_);
  }

  std::string draw() {
    title(left, chart_.title, chart_.subtitle);
    for (std::size_t i = 0; i < chart_.panels.size(); ++i) add_panel(i);
    PlotArea last = area(chart_.panels.empty() ? 0 : chart_.panels.size() - 1);
    if (chart_.panels.empty()) last.top -= chart_.panel_height + panel_gap;
    x_title(last, chart_.x_title);
    const double height = add_legend(last.bottom() + below_panels + 12);
    return document(left + plot_width + right_margin, height, chart_.title, line_rules);
  }

 private:
  PlotArea area(std::size_t panel) const {
    const double height = chart_.panel_height;
    return {left, top + static_cast<double>(panel) * (height + panel_gap), plot_width, height};
  }
  static double x_of(const Scale& scale, double x) { return left + plot_width * scale.share(x); }
  std::string css_class(const std::string& name) const { return series_class(position_of(names_, name)); }

  // Returns the ticks; on a logarithmic axis they are the values themselves, as many as fit.
  std::vector<double> horizontal_ticks() const {
    if (!chart_.logarithmic || chart_.decimal_ticks) return horizontal_.ticks();
    constexpr std::size_t most = 12;
    const std::size_t every = values_.size() / most + 1;
    std::vector<double> ticks;
    for (std::size_t i = 0; i < values_.size(); i += every) ticks.push_back(values_[i]);
    return ticks;
  }

  void add_panel(std::size_t index) {
    const PlotArea plot = area(index);
    for (const LineChart::Band& band : chart_.bands) {
      const double from = x_of(horizontal_, band.from), to = x_of(horizontal_, band.to);
      line(R"(<rect class="band {}" x="{:.1f}" y="{}" width="{:.1f}" height="{}"/>)", css_class(band.series), from,
           plot.top, std::max(to - from, 2.0), plot.height);
    }
    const bool last = index + 1 == chart_.panels.size();
    vertical_grid(plot, horizontal_, horizontal_ticks(), last ? line_tick_text : Drawing::TickText());
    horizontal_grid(plot, vertical_[index], vertical_[index].ticks(), line_tick_text);
    frame(plot);
    for (const LineChart::Limit& limit : chart_.limits) add_limit(plot, limit);
    y_title(plot, chart_.panels[index].y_title);
    pieces_.clear();
    for (const LineChart::Series& series : chart_.panels[index].series) add_series(plot, vertical_[index], series);
    if (index == 0) add_marks(plot);
  }

  void add_limit(const PlotArea& plot, const LineChart::Limit& limit) {
    const double x = x_of(horizontal_, limit.x);
    line(R"(<path class="limit outline" d="M{0:.1f} {1}V{2}"/><text x="{3:.1f}" y="{4}">{5}</text>)", x, plot.top,
         plot.bottom(), x + 6, plot.bottom() - 8, escape_html(limit.label));
  }

  // Notes the way from the last point to the next one, or that point alone, as places that labels keep free.
  void add_pieces(double x, double y, bool drawing) {
    constexpr double length = 4;
    const auto [from_x, from_y] = drawing ? pieces_.back() : std::pair(x, y);
    const auto count = std::max(1.0, std::ceil(std::hypot(x - from_x, y - from_y) / length));
    for (double i = 1; i <= count; ++i)
      pieces_.emplace_back(from_x + (x - from_x) * i / count, from_y + (y - from_y) * i / count);
  }

  void add_series(const PlotArea& plot, const Scale& vertical, const LineChart::Series& series) {
    const std::string css = css_class(series.name), faint = series.scattered ? " faint" : "";
    std::string path, points;
    bool drawing = false;
    for (const LineChart::Point& point : series.points) {
      if (point.y) {
        const double x = x_of(horizontal_, point.x), y = plot.y(vertical.share(*point.y));
        add_pieces(x, y, drawing);
        path += fmt::format("{}{:.1f} {:.1f}", drawing ? "L" : "M", x, y);
        const std::string name = series.name.empty() ? "" : series.name + ": ";
        points +=
            fmt::format("<circle class=\"{}{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2.5\"><title>{}</title></circle>\n",
                        css, faint, x, y,
                        escape_html(!point.hover.empty()
                                        ? point.hover
                                        : fmt::format("{}{} at {}", name, number(*point.y), line_tick_text(point.x))));
      }
      drawing = point.y.has_value() && !series.scattered;
    }
    if (!path.empty() && !series.scattered) line(R"(<path class="line {}" d="{}"/>)", css, path);
    add("{}", points);
  }

  // Returns how much a label would cover: pieces of lines, and each edge of the plot that it crosses as many of them.
  std::size_t covered(const PlotArea& plot, const LabelPlace& place, double width) const {
    constexpr double ascent = 13, descent = 6;
    constexpr std::size_t edge = 100;
    const double from = place.before ? place.x - width : place.x, to = from + width;
    const double high = place.baseline - ascent, low = place.baseline + descent;
    const auto inside = [&](const std::pair<double, double>& piece) {
      return piece.first > from && piece.first < to && piece.second > high && piece.second < low;
    };
    const auto pieces = static_cast<std::size_t>(std::ranges::count_if(pieces_, inside));
    return pieces + edge * static_cast<std::size_t>((from < plot.left) + (to > plot.right()) + (high < plot.top) +
                                                    (low > plot.bottom()));
  }

  void add_marks(const PlotArea& plot) {
    constexpr double beside = 11, above = 9, below = 18, row = 18;
    constexpr std::size_t corners = 4, rows = 3;
    for (const LineChart::Mark& mark : chart_.marks) {
      const double x = x_of(horizontal_, mark.x), y = plot.y(vertical_[0].share(mark.y));
      const bool before = x > left + plot_width / 2;
      std::array<LabelPlace, corners * rows> places;
      for (std::size_t i = 0; i < places.size(); ++i) {
        const bool here = (i % 2 == 0) == before;
        const double away = static_cast<double>(i / corners) * row;
        places[i] = {here ? x - beside : x + beside, i % corners < 2 ? y - above - away : y + below + away, here};
      }
      const LabelPlace best = *std::ranges::min_element(
          places, {}, [&](const LabelPlace& place) { return covered(plot, place, text_width(mark.label)); });
      add(R"(<circle class="ring outline" cx="{:.1f}" cy="{:.1f}" r="7"/>)", x, y);
      line(R"(<text class="strong" x="{:.1f}" y="{:.1f}" text-anchor="{}">{}</text>)", best.x, best.baseline,
           best.before ? "end" : "start", escape_html(mark.label));
    }
  }

  // Adds the items in as many rows as they need, or none for a single unnamed series. Returns the y coordinate below
  // them.
  double add_legend(double y) {
    constexpr double gap = 30, row = 22, begin = left + 6;
    double x = begin;
    bool any = false;
    for (const std::string& name : names_) {
      if (name.empty()) continue;
      any = true;
      if (x > begin && x + 10 + text_width(name) > left + plot_width) x = begin, y += row;
      x += legend_dot(css_class(name), x, y, name) + gap;
    }
    return any ? y + row : y;
  }

  const LineChart& chart_;
  Scale horizontal_;
  std::vector<Scale> vertical_;  // of each panel
  std::vector<double> values_;   // every x, rising
  std::vector<std::string> names_;
  std::vector<std::pair<double, double>> pieces_;  // pixels of the lines of the panel that is being drawn
};

}  // namespace

std::string line_chart_svg(const LineChart& chart) { return LinePicture(chart).draw(); }

}  // namespace plumbline::reports
