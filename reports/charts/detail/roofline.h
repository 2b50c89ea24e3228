// The roofline: the rate of kernels against their FLOPs per byte, below the limits of the device.
#pragma once

#include <string>
#include <vector>

namespace plumbline::reports {

struct Roofline {
  struct Peak {  // of GEMMs in some number formats
    std::string name;
    double flops_per_s = 0;
  };
  struct Point {
    std::string series;  // number format, which determines the colour
    std::string label;   // shown on hover
    double flops = 0, bytes = 0, seconds = 0;
    bool hollow = false;
  };

  std::string title, subtitle;
  std::vector<Peak> peaks;     // none: no roofs are drawn
  double bytes_per_s = 0;      // memory bandwidth; 0: unknown
  std::string hollow_meaning;  // for the legend, e.g. "operands in the cache"
  std::vector<Point> points;
};

// Returns an SVG document (light or dark as the viewer is) with logarithmic axes: FLOP per byte to the right, TFLOP/s
// upwards. Points without FLOPs, bytes or time are left out; there may be no point at all.
std::string roofline_svg(const Roofline& roofline);

}  // namespace plumbline::reports
