#include "reports/charts/bar_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "reports/charts/chart_frame.h"
#include "reports/text/table.h"

namespace plumbline::reports {
namespace {

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
  static constexpr double top = 66, above_rows = 52, below_rows = 62, legend_height = 26;

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
    const PlotArea area{left_, y + above_rows, chart_.plot_width, row_height * static_cast<double>(panel.rows.size())};
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

}  // namespace

std::string bar_chart_svg(const BarChart& chart) { return BarPicture(chart).draw(); }

}  // namespace plumbline::reports
