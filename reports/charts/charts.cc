// The parts that all charts share: the document with its style (light or dark as the viewer is), scales with their
// ticks, the plot area with its axes, and the legend. Lengths are pixels.
#include "reports/charts/charts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <functional>
#include <iterator>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "reports/text/table.h"

namespace plumbline::reports {
namespace {

// The rectangle of the plot, which maps shares of the axes to pixels.
struct PlotArea {
  double left = 0, top = 0, width = 0, height = 0;

  double right() const { return left + width; }
  double bottom() const { return top + height; }
  double x(double share) const { return left + width * share; }
  double y(double share) const { return top + height * (1 - share); }
};

// The style: classes s0 to s9 colour series, `strong` and `outline` modify them. Colours are repeated in each rule,
// because viewers other than browsers have no CSS variables.
constexpr std::string_view chart_style = R"css(<style>
text { font: 12px system-ui, "Liberation Sans", "DejaVu Sans", sans-serif; }
.title { font-size: 16px; font-weight: 600; } .frame, .outline { fill: none; }
text { fill: #5b6676; } .title, .strong { fill: #1c2330; } .page { fill: #fff; }
.grid { stroke: #dfe4ea; } .frame { stroke: #5b6676; } .outline { stroke: #1c2330; }
.s0 { fill: #2f6fd0; stroke: #2f6fd0; }
.s1 { fill: #c2571a; stroke: #c2571a; }
.s2 { fill: #2f8f6b; stroke: #2f8f6b; }
.s3 { fill: #7b4fd1; stroke: #7b4fd1; }
.s4 { fill: #b08a00; stroke: #b08a00; }
.s5 { fill: #6b7686; stroke: #6b7686; }
.s6 { fill: #c23b6e; stroke: #c23b6e; }
.s7 { fill: #1f8fa3; stroke: #1f8fa3; }
.s8 { fill: #8a5a3c; stroke: #8a5a3c; }
.s9 { fill: #4d7d1f; stroke: #4d7d1f; }
@media (prefers-color-scheme: dark) {
text { fill: #9aa6b8; } .title, .strong { fill: #e6eaf1; } .page { fill: #12161d; }
.grid { stroke: #2b3340; } .frame { stroke: #9aa6b8; } .outline { stroke: #e6eaf1; }
.s0 { fill: #6aa5f5; stroke: #6aa5f5; }
.s1 { fill: #f0935a; stroke: #f0935a; }
.s2 { fill: #57c79d; stroke: #57c79d; }
.s3 { fill: #b096f5; stroke: #b096f5; }
.s4 { fill: #e3c04a; stroke: #e3c04a; }
.s5 { fill: #a3adba; stroke: #a3adba; }
.s6 { fill: #f07fa9; stroke: #f07fa9; }
.s7 { fill: #5cc6d8; stroke: #5cc6d8; }
.s8 { fill: #c99a7c; stroke: #c99a7c; }
.s9 { fill: #9fce6e; stroke: #9fce6e; }
}
</style>
)css";
constexpr std::size_t series_colors = 10;
constexpr double tick_rounding = 1e-9;  // a tick that is beyond an end by less than this is drawn on it

// Returns the distance between ticks of an axis from 0 to `end` > 0: 1, 2 or 5 times a power of ten, so that there are
// about four to eight of them.
double axis_step(double end) {
  const double rough = end / 8;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (rough <= factor * power) return factor * power;
  return 10 * power;
}

// Returns the ticks of a logarithmic axis, from the last one below `low` to the first one above `high`.
std::vector<double> decade_ticks(double low, double high) {
  std::vector<double> found;
  const auto last = static_cast<int>(std::ceil(std::log10(high)));
  for (int exponent = static_cast<int>(std::floor(std::log10(low))) - 1; exponent <= last; ++exponent)
    for (const double factor : {1.0, 2.0, 5.0}) found.push_back(factor * std::pow(10, exponent));
  return found;
}

// Returns the CSS class that colours a series: "s0" to "s9", then again from the beginning.
std::string series_class(std::size_t index) { return fmt::format("s{}", index % series_colors); }

// Returns the position of a name among the names of series, for series_class.
std::size_t position_of(const std::vector<std::string>& names, const std::string& name) {
  return static_cast<std::size_t>(std::ranges::find(names, name) - names.begin());
}

// Returns an upper estimate of the width of a text of 12 pixels' height.
double text_width(std::string_view text) {
  constexpr double character = 7.2;
  return character * static_cast<double>(code_points(text));
}

// Maps values to shares of an axis: 0 is its beginning, 1 its end. Values of a logarithmic scale are above 0.
class Scale {
 public:
  explicit Scale(bool logarithmic = false) : logarithmic_(logarithmic) {}

  void include(double value) {
    low_ = std::min(low_, value);
    high_ = std::max(high_, value);
  }
  // Widens the scale when both ends are equal; without values it is 0 to 1 (logarithmic: 1 to 10).
  void settle() {
    if (low_ > high_) low_ = logarithmic_ ? 1 : 0, high_ = logarithmic_ ? 10 : 1;
    if (low_ != high_) return;
    const double room = low_ == 0 ? 1 : std::abs(low_) * 0.1;
    low_ -= room;
    high_ += room;
  }
  // Settles, and moves both ends outwards to the next tick. Ticks of a logarithmic scale are 1, 2 or 5 times a power
  // of ten.
  void widen_to_ticks() {
    if (!logarithmic_) {
      settle();
      const double step = axis_step(high_ - low_);
      low_ = std::floor(low_ / step + tick_rounding) * step;
      high_ = std::ceil(high_ / step - tick_rounding) * step;
      return;
    }
    if (low_ > high_) settle();
    const std::vector<double> ticks = decade_ticks(low_, high_);
    const auto above = std::ranges::upper_bound(ticks, low_ * (1 + tick_rounding));
    low_ = *std::prev(above);
    high_ = *std::find_if(above, std::prev(ticks.end()), [this](double tick) { return tick >= high_; });
  }
  // Moves both ends outwards by this share of their distance; when they are equal, by 5 % of the value.
  void add_room(double share) {
    if (low_ > high_) settle();
    const double room = high_ > low_ ? (high_ - low_) * share : std::max(std::abs(low_) * 0.05, 1e-12);
    low_ -= room;
    high_ += room;
  }

  double share(double value) const {
    return logarithmic_ ? std::log(value / low_) / std::log(high_ / low_) : (value - low_) / (high_ - low_);
  }
  // within the ends, ascending
  std::vector<double> ticks() const {
    std::vector<double> found;
    if (logarithmic_) {
      found = decade_ticks(low_, high_);
      std::erase_if(found, [this](double tick) {
        return tick < low_ * (1 - tick_rounding) || tick > high_ * (1 + tick_rounding);
      });
      return found;
    }
    const double step = axis_step(high_ - low_);
    for (double i = std::ceil(low_ / step - tick_rounding); i * step <= high_ + step * tick_rounding; ++i)
      found.push_back(i * step + 0.0);  // never -0
    return found;
  }

 private:
  bool logarithmic_;
  double low_ = std::numeric_limits<double>::infinity(), high_ = -std::numeric_limits<double>::infinity();
};

// An SVG document that is built from top to bottom.
class Drawing {
 public:
  using TickText = std::function<std::string(double)>;

  template <class... Arguments>
  void add(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<Arguments>(arguments)...);
  }

  // Adds text and a line break.
  template <class... Arguments>
  void line(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    add(format, std::forward<Arguments>(arguments)...);
    out_ += '\n';
  }

  // Adds the two lines above a chart; the second may be empty.
  void title(double left, std::string_view title, std::string_view subtitle) {
    line(R"(<text class="title" x="{0}" y="26">{1}</text><text x="{0}" y="46">{2}</text>)", left, escape_html(title),
         escape_html(subtitle));
  }
  // Adds grid lines at the values, with their texts below the area unless `text` is null.
  void vertical_grid(const PlotArea& area, const Scale& scale, const std::vector<double>& values,
                     const TickText& text) {
    for (const double value : values) {
      const double x = area.x(scale.share(value));
      add(R"(<line class="grid" x1="{0:.1f}" x2="{0:.1f}" y1="{1}" y2="{2}"/>)", x, area.top, area.bottom());
      if (text) line(R"(<text x="{:.1f}" y="{}" text-anchor="middle">{}</text>)", x, area.bottom() + 18, text(value));
    }
  }
  // Adds grid lines at the values, with their texts at the left of the area.
  void horizontal_grid(const PlotArea& area, const Scale& scale, const std::vector<double>& values,
                       const TickText& text) {
    for (const double value : values) {
      const double y = area.y(scale.share(value));
      add(R"(<line class="grid" x1="{0}" x2="{1}" y1="{2:.1f}" y2="{2:.1f}"/>)", area.left, area.right(), y);
      line(R"(<text x="{}" y="{:.1f}" text-anchor="end">{}</text>)", area.left - 8, y + 4, text(value));
    }
  }
  void frame(const PlotArea& area) {
    line(R"(<rect class="frame" x="{:.6g}" y="{}" width="{}" height="{}"/>)", area.left, area.top, area.width,
         area.height);
  }
  void x_title(const PlotArea& area, std::string_view text) {
    line(R"(<text x="{:.6g}" y="{}" text-anchor="middle">{}</text>)", area.left + area.width / 2, area.bottom() + 38,
         escape_html(text));
  }
  // rotated, at the left edge of the picture
  void y_title(const PlotArea& area, std::string_view text) {
    add(R"svg(<text transform="translate(20 {}) rotate(-90)" text-anchor="middle">{}</text>)svg"
        "\n",
        area.top + area.height / 2, escape_html(text));
  }
  // Adds a dot of a legend with its text; returns the width of both.
  double legend_dot(std::string_view css_class, double x, double y, std::string_view text) {
    constexpr double dot = 10;
    line(R"(<circle class="{}" cx="{:.1f}" cy="{:.1f}" r="4"/><text x="{:.1f}" y="{:.1f}">{}</text>)", css_class, x, y,
         x + dot, y + 4, escape_html(text));
    return dot + text_width(text);
  }

  // Returns the whole document, with the shared style and the chart's own rules.
  std::string document(double width, double height, std::string_view label, std::string_view own_rules) const {
    return fmt::format(
        R"(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {0:.0f} {1:.0f}" width="{0:.0f}" )"
        R"(height="{1:.0f}" role="img" aria-label="{2}">)"
        "\n{3}<style>\n{4}</style>\n<rect class=\"page\" width=\"{0:.0f}\" height=\"{1:.0f}\"/>\n{5}</svg>\n",
        width, height, escape_html(label), chart_style, own_rules, out_);
  }

 private:
  std::string out_;
};

constexpr std::string_view bar_rules =
    R"css(rect.bar { stroke: none; } .panel { font-weight: 600; } line.link { stroke-dasharray: 2 2; }
.pale { fill-opacity: .72; } .inside { fill: #fff; text-anchor: middle; pointer-events: none; }
@media (prefers-color-scheme: dark) { .inside { fill: #12161d; } }
)css";

// Returns the scale of a panel's bars and marks, with a margin on both sides.
Scale scale_of(const BarChart::Panel& panel) {
  Scale scale;
  for (const BarChart::Mark& mark : panel.marks) scale.include(mark.x);
  for (const BarChart::Row& row : panel.rows)
    for (const BarChart::Bar& bar : row.bars) scale.include(bar.from), scale.include(bar.to);
  scale.add_room(0.03);
  return scale;
}

double widest(const BarChart& chart, std::string BarChart::Row::*text) {
  double most = 0;
  for (const BarChart::Panel& panel : chart.panels)
    for (const BarChart::Row& row : panel.rows) most = std::max(most, text_width(row.*text));
  return most;
}

class BarPicture : private Drawing {
  static constexpr double margin = 24, gap = 12, row_height = 24, bar_height = 15;
  static constexpr double top = 66, above_rows = 52, above_untitled = 10, below_rows = 62, legend_height = 26;

 public:
  explicit BarPicture(const BarChart& chart)
      : chart_(chart), left_(margin + widest(chart, &BarChart::Row::label) + gap) {}

  std::string draw() {
    title(margin, chart_.title, chart_.subtitle);
    double y = top;
    if (!chart_.legend.empty()) add_legend(y), y += legend_height;
    for (const BarChart::Panel& panel : chart_.panels) y = add_panel(panel, y) + below_rows;
    return document(left_ + chart_.plot_width + widest(chart_, &BarChart::Row::value) + gap + margin, y, chart_.title,
                    bar_rules);
  }

 private:
  void add_legend(double y) {
    double x = margin;
    for (const BarChart::Legend& entry : chart_.legend) {
      line(
          R"(<rect class="bar {}" x="{:.1f}" y="{:.1f}" width="11" height="11"/><text x="{:.1f}" y="{:.1f}">{}</text>)",
          series_class(entry.color), x, y, x + 17, y + 10, escape_html(entry.text));
      x += 17 + text_width(entry.text) + 26;
    }
  }

  // Returns the y coordinate below its rows.
  double add_panel(const BarChart::Panel& panel, double y) {
    const Scale scale = scale_of(panel);
    const bool untitled = panel.title.empty() && panel.marks.empty();
    const PlotArea area{left_, y + (untitled ? above_untitled : above_rows), chart_.plot_width,
                        row_height * static_cast<double>(panel.rows.size())};
    if (!untitled)
      line(R"(<text class="strong panel" x="{}" y="{:.1f}">{}</text>)", margin, y + 16, escape_html(panel.title));
    vertical_grid(area, scale, scale.ticks(), [](double tick) { return fmt::format("{:.6g}", tick); });
    frame(area);
    x_title(area, panel.x_title);
    for (std::size_t i = 0; i < panel.rows.size(); ++i) {
      const double row = area.top + row_height * static_cast<double>(i);
      if (panel.connected && i + 1 < panel.rows.size()) add_link(panel.rows[i], area, scale, row);
      add_row(panel.rows[i], area, scale, row);
    }
    add_marks(panel, area, scale);
    return area.bottom();
  }

  void add_row(const BarChart::Row& row, const PlotArea& area, const Scale& scale, double y) {
    const double base = y + row_height / 2 + 4;
    add(R"(<text x="{:.1f}" y="{:.1f}" text-anchor="end">{}</text>)", left_ - 8, base, escape_html(row.label));
    for (const BarChart::Bar& bar : row.bars) {
      const double from = area.x(scale.share(std::min(bar.from, bar.to)));
      const double to = area.x(scale.share(std::max(bar.from, bar.to)));
      add(R"(<rect class="bar {}{}" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{}"><title>{}</title></rect>)",
          series_class(bar.color), bar.pale ? " pale" : "", from, y + (row_height - bar_height) / 2,
          std::max(to - from, 1.0), bar_height, escape_html(bar.hover));
      if (!bar.text.empty() && text_width(bar.text) <= to - from)
        add(R"(<text class="inside" x="{:.1f}" y="{:.1f}">{}</text>)", (from + to) / 2, base, escape_html(bar.text));
    }
    line(R"(<text class="strong" x="{:.1f}" y="{:.1f}">{}</text>)", area.right() + 8, base, escape_html(row.value));
  }

  // Connects the end of a row to the beginning of the next.
  void add_link(const BarChart::Row& row, const PlotArea& area, const Scale& scale, double y) {
    if (row.bars.empty()) return;
    line(R"(<line class="frame link" x1="{0:.1f}" x2="{0:.1f}" y1="{1:.1f}" y2="{2:.1f}"/>)",
         area.x(scale.share(row.bars.back().to)), y + (row_height + bar_height) / 2,
         y + row_height + (row_height - bar_height) / 2);
  }

  // Adds labels above the rows; with two marks each label is on the outer side.
  void add_marks(const BarChart::Panel& panel, const PlotArea& area, const Scale& scale) {
    if (panel.marks.empty()) return;
    const auto [leftmost, rightmost] = std::ranges::minmax(panel.marks, {}, &BarChart::Mark::x);
    for (const BarChart::Mark& mark : panel.marks) {
      const double x = area.x(scale.share(mark.x));
      const bool alone = leftmost.x == rightmost.x;
      const std::string_view anchor = alone ? "middle" : mark.x == leftmost.x ? "end" : "start";
      add(R"(<line class="outline" x1="{0:.1f}" x2="{0:.1f}" y1="{1:.1f}" y2="{2:.1f}"/>)", x, area.top - 4,
          area.bottom());
      line(R"(<text class="strong" x="{:.1f}" y="{:.1f}" text-anchor="{}">{}</text>)", x, area.top - 9, anchor,
           escape_html(mark.label));
    }
  }

  const BarChart& chart_;
  double left_;
};

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
    if (series.dotted) add("{}", points);
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

std::string bar_chart_svg(const BarChart& chart) { return BarPicture(chart).draw(); }

std::string line_chart_svg(const LineChart& chart) { return LinePicture(chart).draw(); }

}  // namespace plumbline::reports
