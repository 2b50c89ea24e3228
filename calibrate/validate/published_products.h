// A table of published matrix products, one row each: CSV with at least the columns id, kernel, dtype, groups, m (rows
// per group), n, k, time_us, source; lines that start with '#' are comments (calibrate/published/gemm.csv).
#pragma once

#include <string>
#include <vector>

#include "calibrate/validate/kernel_question.h"
#include "model/base/error.h"

namespace plumbline::calibrate {

struct PublishedProduct {
  std::string id, kernel, source;
  ProductQuestion product;
  double seconds = 0;
};

// Input errors name file, line and column: a missing file or column, a cell that is no number above 0, a size
// that is no whole one.
model::Result<std::vector<PublishedProduct>> read_published_products(const std::string& path);

}  // namespace plumbline::calibrate
