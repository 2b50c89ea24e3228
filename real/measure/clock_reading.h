// Clocks and power of a device at one moment.
#pragma once

#include <optional>
#include <string>

namespace plumbline::real {

// Values that the device does not report are nullopt.
struct ClockReading {
  std::optional<int> sm_mhz, memory_mhz;
  std::optional<double> power_w, temperature_c;
  std::optional<double> busy;           // fraction of the last period, up to a second, in which any kernel ran
  std::optional<std::string> throttle;  // "none" or reasons joined by '|'
};

}  // namespace plumbline::real
