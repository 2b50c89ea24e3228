// A profile on a device: where the profile meets the cluster.
#pragma once

#include <string>
#include <vector>

#include "model/base/error.h"
#include "model/base/units.h"
#include "model/profile/cluster.h"
#include "model/profile/profile.h"

namespace plumbline::model {

struct DeviceProfile {
  Profile profile;
  bool holds = false;                 // the profile names the device
  std::vector<std::string> warnings;  // sentences
};

// Returns the constants that hold on the device. Where the profile names it, they are the profile's. For another device
// they are an estimate: rates above its datasheet peaks become those peaks (of GEMMs 2 tile^2 SMs / k_time, of
// attention on all SMs, of memory), with their former values in `source`. Operators that were measured one by one on
// the devices that a profile names are left out. All of this is in the warnings. Errors are those of check_constant(),
// for profiles that were made in code, and a constant that is there twice.
Result<DeviceProfile> profile_on(const Profile& profile, const Device& device);

// Returns an estimate of the constants on a device without measurements, of a profile measured on `from`: rates and
// times of kernels go with the ratios of the two datasheets, all else stays. What is scaled is assumed, with the former
// value in `source` and the uncertainty of such a transfer, which constants of one ratio share. Rates of links stay,
// because costs scale them by the line rates of the cluster. Operators that were measured one by one are left out.
Profile scaled_profile(const Profile& profile, const Device& from, const Device& to);

}  // namespace plumbline::model
