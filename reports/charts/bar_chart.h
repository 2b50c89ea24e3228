// Horizontal bars that begin and end anywhere: waterfalls, and spans on both sides of a value. Panels below each
// other, each with its own axis.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace plumbline::reports {

struct BarChart {
  struct Bar {
    double from = 0, to = 0;
    std::size_t color = 0;  // a series' of the charts' style, 0 to 9
    std::string hover;
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
    bool connected = false;  // the end of each row's last bar with the next row's first
  };
  struct Legend {
    std::size_t color = 0;
    std::string text;
  };

  std::string title, subtitle;
  std::vector<Panel> panels;
  std::vector<Legend> legend;
};

// A picture of its own (light or dark as the viewer is). Axes begin where the bars do, not at 0.
std::string bar_chart_svg(const BarChart& chart);

}  // namespace plumbline::reports
