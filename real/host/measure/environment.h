// The machine and software properties that a measurement depends on.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace plumbline::real::host {

struct Environment {
  std::string cpu;  // model name in /proc/cpuinfo; "unknown CPU" where it has none
  int cores = 1;    // logical cores, hardware threads included
  std::vector<std::pair<std::string, std::int64_t>> caches;  // "l1d", ... in bytes; unknown ones are left out
  double load = 0;                                           // load average of the last minute
  std::string compiler, flags;                               // that built this library
  std::string eigen;                                         // version and instruction sets
};
Environment host_environment();

double available_memory_bytes();  // 0 when unknown

}  // namespace plumbline::real::host
