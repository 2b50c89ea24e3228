// A predicted value beside a published one.
#pragma once

#include <string>

namespace plumbline::reports {

struct Comparison {
  std::string name;  // "step time"
  std::string unit;  // of both values; may be empty
  double predicted = 0;
  double published = 0;
  std::string source;  // where the published value is printed

  double error() const { return predicted / published - 1; }  // relative; requires published != 0
};

}  // namespace plumbline::reports
