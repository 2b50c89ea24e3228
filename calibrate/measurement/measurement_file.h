// Files of measurements, JSON Lines or CSV.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "calibrate/measurement/measurement.h"

namespace plumbline::calibrate {

// Reads a .jsonl or .csv file and checks it. Input errors name file, line and key: bad JSON, unknown or missing keys,
// unknown units, a rate that is not work over time, times that are NaN, not positive or out of order, duplicates, rates
// above the datasheet peak of a device among `devices` (an unknown device is a note). An unfinished last line, as a
// killed program leaves it, is a note.
model::Result<Measurements> load_measurements(const std::string& path,
                                              const std::vector<topologies::KnownDevice>& devices);

// Parses the same from text; the extension of `path` selects the form, and errors name the path.
model::Result<Measurements> parse_measurements(std::string_view text, const std::string& path,
                                               const std::vector<topologies::KnownDevice>& devices);

std::string to_jsonl(const Measurements& measurements);
std::string to_csv(const Measurements& measurements);

}  // namespace plumbline::calibrate
