// Files of measurements, JSON Lines or CSV.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "calibrate/measurement/measurement.h"

namespace plumbline::calibrate {

// Reads a .jsonl or .csv file and checks it. Input errors with file, line and key: bad JSON, unknown or missing
// keys, unknown units, a rate that is not work over time, times that are NaN, not positive or out of order,
// duplicates, rates above the datasheet peak of a device among `devices` (another device: a note). A last line
// that a killed program left unfinished is a note.
model::Result<Measurements> load_measurements(const std::string& path,
                                              const std::vector<topologies::KnownDevice>& devices);

// The same from text; the ending of `path` tells the form, and errors name it.
model::Result<Measurements> parse_measurements(std::string_view text, const std::string& path,
                                               const std::vector<topologies::KnownDevice>& devices);

std::string to_jsonl(const Measurements& measurements);
std::string to_csv(const Measurements& measurements);

}  // namespace plumbline::calibrate
