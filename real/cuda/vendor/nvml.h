// Clocks, power and throttling from the driver's management library, if it is present.
#pragma once

#include <memory>
#include <string>

#include "real/cuda/vendor/library_search.h"
#include "real/measure/clock_reading.h"

namespace plumbline::real::cuda {

class Nvml {
 public:
  // Opens the device with this bus id, as cudaDeviceGetPCIBusId prints it. Returns nullptr if the library or the device
  // is missing; measurements then have no clock readings.
  static std::unique_ptr<Nvml> open(const std::vector<std::string>& folders, const std::string& bus_id,
                                    std::string& error);
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  // Reads the device's current state; takes some milliseconds.
  ClockReading read() const;
  std::string driver_version() const;
  std::optional<double> power_limit_w() const;

 private:
  struct Functions;
  explicit Nvml(std::unique_ptr<Functions> functions);

  std::unique_ptr<Functions> functions_;
  void* device_ = nullptr;
};

}  // namespace plumbline::real::cuda
