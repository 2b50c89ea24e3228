// The shipped profiles, the published kernels and the expectations that all tests of the H800 profiles' constants
// share.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "model/profile/profile.h"
#include "tests/support/costs.h"
#include "tests/support/published.h"

namespace plumbline::tests {

inline constexpr double compute_sms = 112;  // 132 less the 20 of transfers
inline constexpr double all_sms = 132;
inline constexpr double tokens = 4096;
inline constexpr double rounding = 0.01;  // shipped values carry three to four digits

class ProfileConstants : public testing::Test {
 protected:
  const model::Profile h800_ = profile(shipped_profile("h800"));
  const model::Profile public_ = profile(shipped_profile("h800-public"));
  const std::vector<Kernel> kernels_ = chunk_kernels();

  static double value(const model::Profile& from, const std::string& name) {
    return from.parameters()[from.find(name).value()].value;
  }
  void expect(const model::Profile& from, const std::string& name, double derived) const {
    EXPECT_NEAR(value(from, name) / derived, 1, rounding)
        << name << " of " << from.name() << ": " << value(from, name) << " shipped, " << derived << " derived";
  }

  // Expects an inferred rate within the standard deviation that the profile gives.
  void expect_within_uncertainty(const std::string& name, double derived) const {
    const model::Parameter& shipped = h800_.parameters()[h800_.find(name).value()];
    EXPECT_NEAR(shipped.value / derived, 1, shipped.relative_uncertainty.value()) << name;
  }

  // Returns the mean duration of kernels with one of the grids, entirely overlapped with a transfer or without any. It
  // is per block where the blocks, not the grids, are alike.
  static double mean(const std::vector<Kernel>& kernels, const std::vector<int>& grids, bool overlapped,
                     bool per_block = false) {
    double sum = 0;
    double count = 0;
    for (const Kernel& kernel : kernels) {
      if (std::ranges::count(grids, kernel.grid) == 0) continue;
      if (overlapped ? kernel.overlapped_transfer < 0.99 : kernel.overlapped_transfer > 0) continue;
      sum += kernel.duration / (per_block ? kernel.grid : 1);
      ++count;
    }
    EXPECT_GT(count, 0);
    return sum / count;
  }
  // Returns the mean duration over slots 0 and 1, each of which has one such kernel.
  double mean_duration(const std::string& kind, char phase) const {
    const std::vector<Kernel> found = select(kernels_, kind, phase, 2);
    const double sum = std::accumulate(found.begin(), found.end(), 0.0,
                                       [](double total, const Kernel& k) { return total + k.duration; });
    return sum / 2;
  }
};

}  // namespace plumbline::tests
