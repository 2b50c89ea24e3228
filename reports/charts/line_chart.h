// Lines over a common horizontal axis, in one or more panels below each other. Quantities of different units have
// panels of their own: there is no second vertical axis.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace plumbline::reports {

struct LineChart {
  struct Point {
    double x = 0;
    std::optional<double> y;  // nullopt: the line is interrupted
    std::string hover = {};   // empty: series, y and x
  };
  struct Series {
    std::string name;  // for the legend; its position among all names decides its colour
    std::vector<Point> points;
    bool scattered = false;  // faint points without a line
  };
  struct Panel {
    std::string y_title;     // with its unit
    bool from_zero = false;  // the vertical axis begins at 0
    std::vector<Series> series;
    bool logarithmic = false;  // the vertical axis; all y are then above 0
  };
  struct Mark {  // a ring around a point of the first panel
    double x = 0, y = 0;
    std::string label;
  };
  struct Band {  // a shaded interval of the horizontal axis, in the colour of a series
    double from = 0, to = 0;
    std::string series;
  };

  struct Limit {  // a dashed vertical line
    double x = 0;
    std::string label;
  };

  std::string title, subtitle, x_title;
  double panel_height = 220;   // pixels
  bool logarithmic = false;    // the horizontal axis; all x are then above 0
  bool decimal_ticks = false;  // of a logarithmic horizontal axis: 1, 2 and 5 times powers of ten, not the points' x
  std::vector<Panel> panels;
  std::vector<Mark> marks;
  std::vector<Band> bands;
  std::vector<Limit> limits = {};
};

// Returns an SVG document (light or dark as the viewer is). Points have their numbers as hover titles. There may be no
// point at all.
std::string line_chart_svg(const LineChart& chart);

}  // namespace plumbline::reports
