// Decode attention of shipped profiles against tables that no fit used.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include "calibrate/components/load.h"
#include "calibrate/fit/detail/tables/tables.h"
#include "model/base/units.h"
#include "model/cost/forms/kernel_forms.h"
#include "tests/support/costs.h"
#include "tests/support/inputs.h"

namespace plumbline::tests {
namespace {

double cache_constant(const model::Profile& by, const std::string& what) {
  const auto& found = by.parameters()[by.find("cached_attention.grouped_bf16." + what).value()];
  return found.value * model::si_unit(found.unit)->factor;
}

// Returns the median of |predicted / measured - 1| over the rows of a BF16 cache.
double median_error(const std::string& gpu) {
  const model::Profile by = profile(shipped_profile(gpu));
  const model::CachedAttentionConstants constants{.start = cache_constant(by, "start"),
                                                  .request_time = cache_constant(by, "request_time"),
                                                  .bandwidth = cache_constant(by, "bandwidth"),
                                                  .rate = cache_constant(by, "rate"),
                                                  .ramp = cache_constant(by, "ramp"),
                                                  .ramp_time = cache_constant(by, "ramp_time"),
                                                  .merge_time = cache_constant(by, "merge_time")};
  const std::string table = "calibrate/published/components/" + gpu + "/decode_attention.csv";
  std::vector<double> errors;
  const auto rows = calibrate::load_cached_attention_rows(shipped(table)).value();
  for (const calibrate::CachedAttentionRow& row : rows) {
    if (row.format != "bf16") continue;
    errors.push_back(
        std::abs(cached_attention_parts(constants, calibrate::cached_work(row)).total() / row.seconds - 1));
  }
  EXPECT_GE(errors.size(), std::size_t{11});
  std::ranges::sort(errors);
  return errors[errors.size() / 2];
}

// The H200 by the H100's constants and its own memory.
TEST(DecodeAttention, OfAnH200) { EXPECT_LT(median_error("h200"), 0.10); }

// The GB300 by the GB200's.
TEST(DecodeAttention, OfAGb300) { EXPECT_LT(median_error("gb300"), 0.10); }

}  // namespace
}  // namespace plumbline::tests
