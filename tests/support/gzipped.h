// Text as a gzip stream.
#pragma once

#include <string>
#include <string_view>

#include "reports/trace/trace.h"

namespace plumbline::tests {

inline std::string gzipped(std::string_view text) {
  std::string out;
  reports::Gzip gzip([&](std::string_view piece) {
    out += piece;
    return true;
  });
  gzip.write(text);
  gzip.finish();
  return out;
}

}  // namespace plumbline::tests
