#include "real/cuda/vendor/nvml.h"

#include <utility>

namespace plumbline::real::cuda {

// Percentages over a period that the device chooses.
struct Utilization {
  unsigned gpu = 0, memory = 0;
};

// The toolkit may come without nvml.h, so that the few prototypes in use are declared here. Every function returns 0
// for success; devices are opaque pointers.
struct Nvml::Functions {
  std::shared_ptr<Library> library;
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  int (*device_by_bus_id)(const char*, void**) = nullptr;
  int (*clock)(void*, int, unsigned*) = nullptr;
  int (*power)(void*, unsigned*) = nullptr;             // milliwatts
  int (*power_limit)(void*, unsigned*) = nullptr;       // milliwatts
  int (*temperature)(void*, int, unsigned*) = nullptr;  // degrees Celsius
  int (*throttle)(void*, unsigned long long*) = nullptr;
  int (*utilization)(void*, Utilization*) = nullptr;
  int (*driver_version)(char*, unsigned) = nullptr;
};

namespace {

constexpr int clock_sm = 1, clock_memory = 2, sensor_gpu = 0;

std::string throttle_words(unsigned long long reasons) {
  // 0x1 means idle and does not concern the samples.
  const std::pair<unsigned long long, const char*> words[] = {
      {0x2, "application_clocks"}, {0x4, "power_cap"},         {0x8, "hardware_slowdown"}, {0x10, "sync_boost"},
      {0x20, "software_thermal"},  {0x40, "hardware_thermal"}, {0x80, "power_brake"},      {0x100, "display_clocks"}};
  std::string text;
  for (const auto& [bit, word] : words)
    if ((reasons & bit) != 0) text += (text.empty() ? "" : "|") + std::string(word);
  return text.empty() ? "none" : text;
}

}  // namespace

Nvml::Nvml(std::unique_ptr<Functions> functions) : functions_(std::move(functions)) {}

Nvml::~Nvml() { functions_->shutdown(); }

std::unique_ptr<Nvml> Nvml::open(const std::vector<std::string>& folders, const std::string& bus_id,
                                 std::string& error) {
  auto functions = std::make_unique<Functions>();
  functions->library = Library::open(known_library("NVML"), folders, error);
  if (!functions->library) return nullptr;
  const Library& library = *functions->library;
  const bool needed = library.load(functions->init, "nvmlInit_v2") &&
                      library.load(functions->shutdown, "nvmlShutdown") &&
                      library.load(functions->device_by_bus_id, "nvmlDeviceGetHandleByPciBusId_v2");
  if (!needed || functions->init() != 0) {
    error = "NVML (" + library.path() + ") does not start";
    return nullptr;
  }
  // The rest is optional: a missing one leaves its value out.
  library.load(functions->clock, "nvmlDeviceGetClockInfo");
  library.load(functions->power, "nvmlDeviceGetPowerUsage");
  library.load(functions->power_limit, "nvmlDeviceGetEnforcedPowerLimit");
  library.load(functions->temperature, "nvmlDeviceGetTemperature");
  library.load(functions->throttle, "nvmlDeviceGetCurrentClocksThrottleReasons");
  library.load(functions->utilization, "nvmlDeviceGetUtilizationRates");
  library.load(functions->driver_version, "nvmlSystemGetDriverVersion");
  std::unique_ptr<Nvml> nvml(new Nvml(std::move(functions)));
  if (nvml->functions_->device_by_bus_id(bus_id.c_str(), &nvml->device_) != 0) {
    error = "NVML has no device at " + bus_id;
    return nullptr;
  }
  return nvml;
}

ClockReading Nvml::read() const {
  ClockReading reading;
  const Functions& f = *functions_;
  unsigned value = 0;
  unsigned long long reasons = 0;
  if (f.clock != nullptr && f.clock(device_, clock_sm, &value) == 0) reading.sm_mhz = static_cast<int>(value);
  if (f.clock != nullptr && f.clock(device_, clock_memory, &value) == 0) reading.memory_mhz = static_cast<int>(value);
  if (f.power != nullptr && f.power(device_, &value) == 0) reading.power_w = value * 1e-3;
  if (f.temperature != nullptr && f.temperature(device_, sensor_gpu, &value) == 0) reading.temperature_c = value;
  if (f.throttle != nullptr && f.throttle(device_, &reasons) == 0) reading.throttle = throttle_words(reasons);
  Utilization used;
  constexpr double percent = 0.01;
  if (f.utilization != nullptr && f.utilization(device_, &used) == 0) reading.busy = used.gpu * percent;
  return reading;
}

std::string Nvml::driver_version() const {
  char text[96] = "";
  if (functions_->driver_version == nullptr || functions_->driver_version(text, sizeof text) != 0) return "";
  return text;
}

std::optional<double> Nvml::power_limit_w() const {
  unsigned value = 0;
  if (functions_->power_limit == nullptr || functions_->power_limit(device_, &value) != 0) return std::nullopt;
  return value * 1e-3;
}

}  // namespace plumbline::real::cuda
