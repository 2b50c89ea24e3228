#include "reports/charts/bar_chart.h"

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
#include "reports/text/table.h"

namespace plumbline::reports {
namespace {

constexpr double margin = 24, character = 7.2, plot_width = 560, row_height = 24, bar_height = 15;
constexpr double top = 66, above_rows = 52, below_rows = 62, legend_height = 26;

constexpr std::string_view style = R"css(<style>
rect.bar { stroke: none; } .panel { font-weight: 600; } line.link { stroke-dasharray: 2 2; }
</style>
)css";

struct Scale {
  double low = 0, high = 1;
  double x_of(double value, double left) const { return left + plot_width * (value - low) / (high - low); }
};

Scale scale_of(const BarChart::Panel& panel) {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  const auto include = [&](double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  };
  for (const BarChart::Mark& mark : panel.marks) include(mark.x);
  for (const BarChart::Row& row : panel.rows)
    for (const BarChart::Bar& bar : row.bars) include(bar.from), include(bar.to);
  if (low > high) low = 0, high = 1;
  const double room = high > low ? (high - low) * 0.03 : std::max(std::abs(low) * 0.05, 1e-12);
  return {low - room, high + room};
}

template <class Text>
double widest(const BarChart& chart, Text text) {
  std::size_t most = 0;
  for (const BarChart::Panel& panel : chart.panels)
    for (const BarChart::Row& row : panel.rows) most = std::max(most, code_points(text(row)));
  return character * static_cast<double>(most);
}

class Picture {
 public:
  explicit Picture(const BarChart& chart)
      : chart_(chart),
        left_(margin + widest(chart, [](const BarChart::Row& row) { return row.label; }) + 12),
        width_(left_ + plot_width + widest(chart, [](const BarChart::Row& row) { return row.value; }) + 12 + margin) {}

  std::string draw() {
    double height = top + (chart_.legend.empty() ? 0 : legend_height);
    for (const BarChart::Panel& panel : chart_.panels) height += height_of(panel);
    add(R"(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {0:.0f} {1:.0f}" width="{0:.0f}" height="{1:.0f}" )"
        "role=\"img\" aria-label=\"{2}\">\n{3}{4}",
        width_, height, escape_html(chart_.title), chart_style, style);
    add(R"(<rect class="page" width="{:.0f}" height="{:.0f}"/>)"
        "\n",
        width_, height);
    add(R"(<text class="title" x="{0}" y="26">{1}</text><text x="{0}" y="46">{2}</text>)"
        "\n",
        margin, escape_html(chart_.title), escape_html(chart_.subtitle));
    double y = top;
    if (!chart_.legend.empty()) add_legend(y), y += legend_height;
    for (const BarChart::Panel& panel : chart_.panels) {
      add_panel(panel, y);
      y += height_of(panel);
    }
    return std::move(out_) + "</svg>\n";
  }

 private:
  template <class... Arguments>
  void add(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<Arguments>(arguments)...);
  }
  static double rows_height(const BarChart::Panel& panel) {
    return row_height * static_cast<double>(panel.rows.size());
  }
  static double height_of(const BarChart::Panel& panel) { return above_rows + rows_height(panel) + below_rows; }

  void add_legend(double y) {
    double x = margin;
    for (const BarChart::Legend& entry : chart_.legend) {
      add(R"(<rect class="bar s{}" x="{:.1f}" y="{:.1f}" width="11" height="11"/><text x="{:.1f}" y="{:.1f}">{}</text>)"
          "\n",
          entry.colour % chart_colours, x, y, x + 17, y + 10, escape_html(entry.text));
      x += 17 + character * static_cast<double>(code_points(entry.text)) + 26;
    }
  }

  void add_panel(const BarChart::Panel& panel, double y) {
    const Scale scale = scale_of(panel);
    const double first = y + above_rows, last = first + rows_height(panel);
    add(R"(<text class="strong panel" x="{}" y="{:.1f}">{}</text>)"
        "\n",
        margin, y + 16, escape_html(panel.title));
    add_axis(panel, scale, first, last);
    for (std::size_t i = 0; i < panel.rows.size(); ++i) {
      if (panel.connected && i + 1 < panel.rows.size()) add_link(panel.rows[i], scale, row_top(first, i));
      add_row(panel.rows[i], scale, row_top(first, i));
    }
    add_marks(panel, scale, first, last);
  }
  static double row_top(double first, std::size_t row) { return first + row_height * static_cast<double>(row); }

  void add_axis(const BarChart::Panel& panel, const Scale& scale, double first, double last) {
    const double step = axis_step(scale.high - scale.low);
    for (double i = std::ceil(scale.low / step); i * step <= scale.high; ++i) {
      const double x = scale.x_of(i * step, left_);
      add(R"(<line class="grid" x1="{0:.1f}" x2="{0:.1f}" y1="{1:.1f}" y2="{2:.1f}"/>)", x, first, last);
      add(R"(<text x="{:.1f}" y="{:.1f}" text-anchor="middle">{:.6g}</text>)"
          "\n",
          x, last + 16, i * step + 0.0);
    }
    add(R"(<rect class="frame" x="{:.1f}" y="{:.1f}" width="{}" height="{:.1f}"/>)"
        "\n",
        left_, first, plot_width, last - first);
    add(R"(<text x="{:.1f}" y="{:.1f}" text-anchor="middle">{}</text>)"
        "\n",
        left_ + plot_width / 2, last + 35, escape_html(panel.x_title));
  }

  void add_row(const BarChart::Row& row, const Scale& scale, double y) {
    const double base = y + row_height / 2 + 4;
    add(R"(<text x="{:.1f}" y="{:.1f}" text-anchor="end">{}</text>)", left_ - 8, base, escape_html(row.label));
    for (const BarChart::Bar& bar : row.bars) {
      const double from = scale.x_of(std::min(bar.from, bar.to), left_);
      const double to = scale.x_of(std::max(bar.from, bar.to), left_);
      add(R"(<rect class="bar s{}" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{}"><title>{}</title></rect>)",
          bar.colour % chart_colours, from, y + (row_height - bar_height) / 2, std::max(to - from, 1.0), bar_height,
          escape_html(bar.hover));
    }
    add(R"(<text class="strong" x="{:.1f}" y="{:.1f}">{}</text>)"
        "\n",
        left_ + plot_width + 8, base, escape_html(row.value));
  }

  // Where a row ends, the next begins.
  void add_link(const BarChart::Row& row, const Scale& scale, double y) {
    if (row.bars.empty()) return;
    const double x = scale.x_of(row.bars.back().to, left_);
    add(R"(<line class="frame link" x1="{0:.1f}" x2="{0:.1f}" y1="{1:.1f}" y2="{2:.1f}"/>)"
        "\n",
        x, y + (row_height + bar_height) / 2, y + row_height + (row_height - bar_height) / 2);
  }

  // Labels above the rows; of two marks each stands on its outer side.
  void add_marks(const BarChart::Panel& panel, const Scale& scale, double first, double last) {
    const auto [leftmost, rightmost] = std::ranges::minmax(panel.marks, {}, &BarChart::Mark::x);
    for (const BarChart::Mark& mark : panel.marks) {
      const double x = scale.x_of(mark.x, left_);
      const bool alone = leftmost.x == rightmost.x;
      const std::string_view anchor = alone ? "middle" : mark.x == leftmost.x ? "end" : "start";
      add(R"(<line class="outline" x1="{0:.1f}" x2="{0:.1f}" y1="{1:.1f}" y2="{2:.1f}"/>)", x, first - 4, last);
      add(R"(<text class="strong" x="{:.1f}" y="{:.1f}" text-anchor="{}">{}</text>)"
          "\n",
          x, first - 9, anchor, escape_html(mark.label));
    }
  }

  const BarChart& chart_;
  double left_, width_;
  std::string out_;
};

}  // namespace

std::string bar_chart_svg(const BarChart& chart) { return Picture(chart).draw(); }

}  // namespace plumbline::reports
