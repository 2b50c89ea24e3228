// What a measurement on this machine depends on beside the code that is measured.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace plumbline::real::host {

struct Environment {
  std::string cpu;  // as /proc/cpuinfo calls the model; "unknown CPU" where it does not say
  int cores = 1;    // that the system offers, hardware threads included
  std::vector<std::pair<std::string, std::int64_t>> caches;  // "l1d", ... in bytes, as far as known
  double load = 0;                                           // mean of the last minute
  std::string compiler, flags;                               // of this library
  std::string eigen;                                         // version and instruction sets
};
Environment host_environment();

double available_memory_bytes();  // 0 when unknown

}  // namespace plumbline::real::host
