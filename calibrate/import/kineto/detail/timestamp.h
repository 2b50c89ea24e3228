// Times in the notation of traces.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace plumbline::calibrate {

// Converts microseconds, as a JSON number or a string of one ("1740461642123456.789", 12, 1.5e3), to whole nanoseconds.
// It is exact, unlike a double, whose resolution for microseconds since 1970 is a quarter microsecond. Returns nullopt
// when the text is no finite number or does not fit.
std::optional<std::int64_t> nanoseconds(std::string_view microseconds);

}  // namespace plumbline::calibrate
