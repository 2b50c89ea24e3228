#include "calibrate/fit/held_out.h"

#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "calibrate/fit/detail/log_fit.h"
#include "model/base/statistics.h"
#include "model/result/prediction_interval.h"

namespace plumbline::calibrate {
namespace {

HeldOutSummary summary_of(const HeldOut& of) {
  constexpr double middle = 0.5, ninety = 0.9;
  return {of.family,
          of.table,
          of.fitted_rows,
          of.errors.size(),
          model::quantile(of.errors, middle),
          model::quantile(of.errors, ninety),
          model::quantile(of.roofline, middle),
          model::quantile(of.roofline, ninety)};
}

}  // namespace

std::vector<HeldOutSummary> summaries(const std::vector<HeldOut>& tables) {
  std::vector<HeldOut> families;
  std::vector<HeldOutSummary> single;
  for (const HeldOut& table : tables) {
    if (table.errors.empty()) continue;
    single.push_back(summary_of(table));
    auto family = std::ranges::find(families, table.family, &HeldOut::family);
    if (family == families.end())
      family = families.insert(families.end(), HeldOut{.family = table.family, .table = {}});
    family->fitted_rows += table.fitted_rows;
    std::ranges::copy(table.errors, std::back_inserter(family->errors));
    std::ranges::copy(table.roofline, std::back_inserter(family->roofline));
  }
  std::vector<HeldOutSummary> all;
  for (const HeldOut& family : families) all.push_back(summary_of(family));
  all.insert(all.end(), single.begin(), single.end());
  return all;
}

double deviation_of(const std::vector<double>& values) {
  constexpr double share = 0.8;  // of normal numbers, this share is no further from 0 than model::normal_p90
  std::vector<double> sizes;
  for (const double value : values) sizes.push_back(std::abs(value));
  return model::quantile(std::move(sizes), share) / model::normal_p90;
}

bool is_held_out(const std::string& key) {
  constexpr unsigned long one_in = 3;
  return crc32(0, reinterpret_cast<const Bytef*>(key.data()), static_cast<uInt>(key.size())) % one_in == 0;
}

}  // namespace plumbline::calibrate
