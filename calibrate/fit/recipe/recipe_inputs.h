// Where a recipe finds its data.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "calibrate/measurement/measurement.h"
#include "model/base/error.h"
#include "model/profile/profile.h"
#include "topologies/device.h"

namespace plumbline::calibrate {

struct RecipeInputs {
  std::string devices;     // folder of device files
  std::string components;  // folder of component tables
  std::string stated;      // folder of constants that recipes state
  std::function<model::Result<Measurements>(const std::string& name)> measurements;  // own records
  std::function<model::Result<model::Profile>(const std::string& name)> profile;     // neighbors and bases
};

}  // namespace plumbline::calibrate
