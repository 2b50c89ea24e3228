#include "real/host/measure/environment.h"

#include <fmt/format.h>
#include <unistd.h>

#include <Eigen/Core>
#include <algorithm>
#include <fstream>
#include <sstream>
#include <thread>

namespace plumbline::real::host {
namespace {

// Returns the text after the first "key : " of a file of such lines, or "".
std::string value_of(const char* path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(key)) continue;
    const std::size_t colon = line.find(':');
    const std::size_t text = colon == std::string::npos ? colon : line.find_first_not_of(" \t", colon + 1);
    if (text != std::string::npos) return line.substr(text);
  }
  return "";
}

}  // namespace

Environment host_environment() {
  Environment environment;
  environment.cpu = value_of("/proc/cpuinfo", "model name");
  if (environment.cpu.empty()) environment.cpu = "unknown CPU";
  environment.cores = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  const std::pair<const char*, int> levels[] = {
      {"l1d", _SC_LEVEL1_DCACHE_SIZE}, {"l2", _SC_LEVEL2_CACHE_SIZE}, {"l3", _SC_LEVEL3_CACHE_SIZE}};
  for (const auto& [name, query] : levels)
    if (const long bytes = sysconf(query); bytes > 0) environment.caches.emplace_back(name, bytes);
  if (double load = 0; getloadavg(&load, 1) == 1) environment.load = load;
  environment.compiler = __VERSION__;
  environment.flags = PLUMBLINE_HOST_FLAGS;
  environment.eigen = fmt::format("{}.{}.{}, {}", EIGEN_WORLD_VERSION, EIGEN_MAJOR_VERSION, EIGEN_MINOR_VERSION,
                                  Eigen::SimdInstructionSetsInUse());
  return environment;
}

double available_memory_bytes() {
  double kibibytes = 0;
  std::istringstream(value_of("/proc/meminfo", "MemAvailable")) >> kibibytes;
  constexpr double kibi = 1024;
  return kibibytes * kibi;
}

}  // namespace plumbline::real::host
