// The parts that all charts share: the document with its style (light or dark as the viewer is), scales with their
// ticks, the plot area with its axes, and the legend. Lengths are pixels.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <functional>
#include <iterator>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace plumbline::reports {

// Returns the CSS class that colours a series: "s0" to "s9", then again from the beginning.
std::string series_class(std::size_t index);

// Returns the position of a name among the names of series, for series_class.
std::size_t position_of(const std::vector<std::string>& names, const std::string& name);

// Returns an upper estimate of the width of a text of 12 pixels' height.
double text_width(std::string_view text);

// Maps values to shares of an axis: 0 is its beginning, 1 its end. Values of a logarithmic scale are above 0.
class Scale {
 public:
  explicit Scale(bool logarithmic = false) : logarithmic_(logarithmic) {}

  void include(double value);
  // Widens the scale when both ends are equal; without values it is 0 to 1 (logarithmic: 1 to 10).
  void settle();
  // Settles, and moves both ends outwards to the next tick. Ticks of a logarithmic scale are 1, 2 or 5 times a power
  // of ten.
  void widen_to_ticks();
  // Moves both ends outwards by this share of their distance; when they are equal, by 5 % of the value.
  void add_room(double share);

  double share(double value) const;
  std::vector<double> ticks() const;  // within the ends, ascending

 private:
  bool logarithmic_;
  double low_ = std::numeric_limits<double>::infinity(), high_ = -std::numeric_limits<double>::infinity();
};

// The rectangle of the plot, which maps shares of the axes to pixels.
struct PlotArea {
  double left = 0, top = 0, width = 0, height = 0;

  double right() const { return left + width; }
  double bottom() const { return top + height; }
  double x(double share) const { return left + width * share; }
  double y(double share) const { return top + height * (1 - share); }
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
  void title(double left, std::string_view title, std::string_view subtitle);
  // Adds grid lines at the values, with their texts below the area unless `text` is null.
  void vertical_grid(const PlotArea& area, const Scale& scale, const std::vector<double>& values, const TickText& text);
  // Adds grid lines at the values, with their texts at the left of the area.
  void horizontal_grid(const PlotArea& area, const Scale& scale, const std::vector<double>& values,
                       const TickText& text);
  void frame(const PlotArea& area);
  void x_title(const PlotArea& area, std::string_view text);
  void y_title(const PlotArea& area, std::string_view text);  // rotated, at the left edge of the picture
  // Adds a dot of a legend with its text; returns the width of both.
  double legend_dot(std::string_view css_class, double x, double y, std::string_view text);

  // Returns the whole document, with the shared style and the chart's own rules.
  std::string document(double width, double height, std::string_view label, std::string_view own_rules) const;

 private:
  std::string out_;
};

}  // namespace plumbline::reports
