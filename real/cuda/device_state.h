// Reports whether there is a usable device, and if not, why.
#pragma once

#include <string>

namespace plumbline::real::cuda {

enum class DeviceState { ok, no_driver, stub_library, driver_too_old, no_device, unusable };

struct DeviceReport {
  DeviceState state = DeviceState::unusable;
  std::string message;  // one line for display; on success the device's name
  std::string name;
};

// Inspects device `ordinal`; it changes only the CUDA runtime's own state.
DeviceReport look_for_device(int ordinal);

}  // namespace plumbline::real::cuda
