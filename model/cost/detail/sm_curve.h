// The rate that a family of communication kernels reaches with n SMs, as a share of its highest rate with any number.
// Families are entries of a profile: exchange.sm_curve.<family>.<kernel>.<SMs>, a rate each.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "model/cost/constants.h"

namespace plumbline::model {

class SmCurve {
 public:
  // `kernel` is "dispatch" or "combine". An unknown family is an input error that lists those of the profile.
  static Result<SmCurve> read(const Profile& profile, std::string_view family, std::string_view kernel);

  // Interpolates linearly from zero through the points; flat after the best of them, as more SMs never slow it down.
  double share(std::int64_t sms) const;
  // Returns the fewest SMs with the full rate.
  std::int64_t saturation() const { return points_.back().first; }

 private:
  std::vector<std::pair<std::int64_t, double>> points_;  // SMs, share; ascending in both, ends at 1
};

}  // namespace plumbline::model
