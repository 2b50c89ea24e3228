#include "cli/busiest_device.h"

#include <cstddef>
#include <map>

namespace plumbline::cli {

using calibrate::Measurement;
using calibrate::Measurements;

const std::string* busiest_device(const Measurements& all) {
  std::map<std::string, std::size_t> counts;
  for (const Measurement& m : all.values) ++counts[m.device];
  const Measurement* chosen = nullptr;
  for (const Measurement& m : all.values) {
    if (chosen == nullptr || counts[m.device] > counts[chosen->device]) chosen = &m;
  }
  return chosen == nullptr ? nullptr : &chosen->device;
}

}  // namespace plumbline::cli
