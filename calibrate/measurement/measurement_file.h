// Files of measurements, JSON Lines or CSV.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "calibrate/measurement/measurement.h"

namespace plumbline::calibrate {

// Reads a .jsonl or .csv file and checks it. Input errors name file, line and key: bad JSON, unknown or missing keys,
// unknown units, a rate that is not work over time, times that are NaN, not positive or out of order, duplicates, rates
// more than 5 % above the datasheet peak of a device among `devices` (an unknown device is a note), a device that is
// none of those that the file's name names. An unfinished last line, as a killed program leaves it, is a note.
model::Result<Measurements> load_measurements(const std::string& path,
                                              const std::vector<topologies::KnownDevice>& devices);

// Parses the same from text; the extension of `path` selects the form, and errors name the path.
model::Result<Measurements> parse_measurements(std::string_view text, const std::string& path,
                                               const std::vector<topologies::KnownDevice>& devices);

// Checks that a device is one of those that the file's name names, if it names any ("nvidia-h100-80gb-hbm3-2026.jsonl",
// "my-h200.csv"); the error names neither file nor line.
model::Result<void> check_name(const std::string& path, const std::string& device,
                               const std::vector<topologies::KnownDevice>& devices);

// Checks records of several files against each other. Input errors name both places: a record that is given twice, and
// a case whose times differ by more than a factor of two, so that one of them is wrong. Other repetitions are runs.
model::Result<void> check_repeats(const std::vector<Measurements>& files);

std::string to_jsonl(const Measurements& measurements);
std::string to_csv(const Measurements& measurements);

}  // namespace plumbline::calibrate
