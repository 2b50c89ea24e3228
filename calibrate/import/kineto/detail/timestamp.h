// Times as traces write them.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace plumbline::calibrate {

// Microseconds as a JSON number or a string of one ("1740461642123456.789", 12, 1.5e3), to whole nanoseconds,
// exact where a double would not be: microseconds since 1970 leave it a resolution of a quarter microsecond.
// nullopt when it is no finite number or does not fit.
std::optional<std::int64_t> nanoseconds(std::string_view microseconds);

}  // namespace plumbline::calibrate
