#include "real/cuda/probe/dry_run.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "real/cuda/probe/budget.h"

namespace plumbline::real::cuda {

namespace {

std::string quantity(double value) {
  if (value <= 0) return "-";
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", value);
  return text;
}

// "2:05 min".
std::string minutes(double seconds) {
  const long whole = std::lround(std::ceil(seconds));
  char text[32];
  std::snprintf(text, sizeof text, "%ld:%02ld min", whole / 60, whole % 60);
  return text;
}

}  // namespace

std::string dry_run_table(const std::vector<Case>& cases, const DevicePeak& peak, int samples) {
  char line[512];
  std::snprintf(line, sizeof line, "%10s %10s %10s  %-7s %s\n", "GFLOP", "MB", "floor us", "bound", "case");
  std::string table = line;
  double total = 0, seconds = 0;
  for (const Case& value : cases) {
    const Work work = work_of(value);
    const double floor = floor_us(value, peak);
    const double memory = work.bytes / (peak.memory_gbps * 1e3);
    const char* bound = "-";
    if (floor < 0) {
      bound = "cannot";
    } else if (floor > 0) {
      bound = value.op == "host_to_device" ? "link" : floor > memory ? "compute" : "memory";
    }
    std::snprintf(line, sizeof line, "%10s %10s %10s  %-7s %s\n", quantity(work.flops * 1e-9).c_str(),
                  quantity(work.bytes * 1e-6).c_str(), quantity(floor).c_str(), bound, to_line(value).c_str());
    table += line;
    total += std::max(floor, 0.0);
    if (floor >= 0) seconds += estimated_seconds(value, peak, samples);
  }
  std::snprintf(line, sizeof line,
                "%zu cases; the sum of the floors is %.3g ms on %s (datasheet rates); measuring takes about %s\n",
                cases.size(), total * 1e-3, peak.name.c_str(), minutes(seconds).c_str());
  return table + line;
}

}  // namespace plumbline::real::cuda
