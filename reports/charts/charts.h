// Horizontal bars with any start and end: waterfalls, spans on both sides of a value, and what each of several does
// over time. Panels lie below each other, each with its own axis.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/schedule/evaluate.h"
#include "model/schedule/schedule.h"

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

// Lines over a common horizontal axis, in one or more panels below each other. Quantities of different units have
// panels of their own: there is no second vertical axis.

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
    bool dotted = true;      // a line has its points
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

// A picture of an evaluated pipeline schedule: one row per rank, one block per op, time to the right.
struct ScheduleBlock {  // one op of a rank
  model::OpType type = model::OpType::F;
  std::int32_t forward = -1, backward = -1;  // micro-batches, counted per direction; -1 where the op has none
  std::int32_t forward_stage = -1, backward_stage = -1;
  bool marked = false;  // whether the block is of the kind that SchedulePicture::mark names
  double start = 0, end = 0;
};

struct SchedulePicture {
  std::string title;
  std::vector<std::vector<ScheduleBlock>> ranks;  // program order
  double makespan = 0;
  std::string mark;  // "direction 1" or "odd chunks" where a rank has such blocks; else ""
};

// Makes the picture; `end[rank][op]` belongs to evaluation.start, both in the unit of the costs.
SchedulePicture schedule_picture(const model::Schedule& schedule, const model::ScheduleEvaluation& evaluation,
                                 const std::vector<std::vector<double>>& end);

// Returns text for a terminal of `width` columns, with an axis and a legend. In colour a block is a coloured background
// (ANSI, 256 colours) with its micro-batch where it fits. Without colour it begins with its letter (F, B, I, W, or X
// for an overlapped pair; lower case where marked) and its micro-batch where it fits, and is filled with '-'; '.' is
// idle. A cell shows the op at its middle, so a block narrower than a cell may be missing.
std::string picture_text(const SchedulePicture& picture, std::size_t width, bool color);

// Returns an SVG document (light or dark as the viewer is): a bar chart with a row for each rank and a bar for each
// block, which has its micro-batch on it where that fits.
std::string picture_svg(const SchedulePicture& picture);

}  // namespace plumbline::reports
