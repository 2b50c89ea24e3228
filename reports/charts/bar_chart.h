// Horizontal bars with any start and end: waterfalls, spans on both sides of a value, and what each of several does
// over time. Panels lie below each other, each with its own axis.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace plumbline::reports {

struct BarChart {
  struct Bar {
    double from = 0, to = 0;
    std::size_t color = 0;  // index of a series colour, 0 to 9
    std::string hover;
    std::string text = {};  // on the bar, where it fits
    bool pale = false;
  };
  struct Row {
    std::string label;  // at the left
    std::vector<Bar> bars;
    std::string value;  // at the right
  };
  struct Mark {  // a line through all rows
    double x = 0;
    std::string label;
  };
  struct Panel {
    std::string title, x_title;  // x_title with its unit
    std::vector<Row> rows;
    std::vector<Mark> marks;
    bool connected = false;  // lines connect the end of each row's last bar to the next row's first
  };
  struct Legend {
    std::size_t color = 0;
    std::string text;
  };

  std::string title, subtitle;
  double plot_width = 560;  // pixels
  std::vector<Panel> panels;
  std::vector<Legend> legend;
};

// Returns an SVG document (light or dark as the viewer is). Axes begin at the smallest bar, not at 0.
std::string bar_chart_svg(const BarChart& chart);

}  // namespace plumbline::reports
