// Measurements in one form, from any origin: a GPU, the host, a publication. There is one record per case, in JSON
// Lines or CSV; docs/measuring.md describes both.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/base/error.h"
#include "model/base/provenance.h"
#include "topologies/topology.h"

namespace plumbline::calibrate {

using Shape = std::vector<std::pair<std::string, std::int64_t>>;  // {"m", 4096}, {"n", 24576}, ... in order

// The subject of a record. Texts that are unknown or do not apply are empty, numbers nullopt: never 0.
struct Subject {
  std::string source;                                    // program and version, or the publication
  model::Evidence evidence = model::Evidence::measured;  // measured with plumbline, or published
  std::string device;                                    // the device's own name of its model
  std::string date;                                      // ISO 8601
  std::string op;                                        // gemm, rmsnorm, copy, ...
  std::string name;                                      // for people: "deepseek-v3/q_b"
  std::string phase;                                     // F, I or W
  std::string format;                                    // bf16, fp8_tensor, fp8_block, ...
  std::string case_line;                                 // the line of the case file that requested it
  Shape shape;
};

struct Times {  // seconds of one execution
  double p50 = 0;
  std::optional<double> p10, p90, min;
  std::optional<double> mad;    // median of the absolute deviations from p50
  std::vector<double> samples;  // in the order of execution; empty: not kept
};

struct Check {  // against a reference in double precision
  double relative_error = 0;
  double tolerance = 0;
  bool ok = false;
  std::string note;
};

struct Clock {  // readings while the samples ran
  std::optional<double> sm_mhz, memory_mhz, power_w, temperature_c;
  std::string throttle;  // "none", or the reasons
};

// Times of one case, and the conditions during them.
struct Measurement : Subject {
  std::optional<std::int64_t> sms;                // of the device
  std::optional<std::int64_t> communication_sms;  // SMs of the concurrent copy kernel, one per CTA
  std::optional<std::int64_t> target_sms;         // for which the algorithm was chosen; 0: all
  std::string copy_to;                            // destination of the concurrent copy
  std::optional<double> copy_rate;                // bytes per second of the concurrent copy
  std::string cache;                              // hot or cold
  std::string variant;
  std::optional<std::int64_t> samples;
  Times time;
  std::optional<double> flops;  // of one execution
  std::optional<double> bytes;  // in device memory, each operand once
  std::optional<Check> check;
  Clock clock;
  std::string algorithm;  // a JSON object
  std::string note;
  int line = 0;  // of the file that holds the record; 0: of none

  // Rates at p50: FLOP/s, and bytes per second.
  std::optional<double> flop_rate() const { return flops ? std::optional(*flops / time.p50) : std::nullopt; }
  std::optional<double> byte_rate() const { return bytes ? std::optional(*bytes / time.p50) : std::nullopt; }
};

struct Failure : Subject {  // a case that could not be measured
  std::string reason;
};

struct Environment {  // the machine and software of a run
  std::string source, device, date;
  std::optional<std::int64_t> sms;
  std::string properties;  // a JSON object
};

struct Measurements {  // the content of a file
  std::string path;
  std::vector<Measurement> values;
  std::vector<Failure> failures;
  std::vector<Environment> environments;
  std::vector<std::string> notes;  // checks that were skipped and records that were left out, as sentences
};

// Returns a number that the environment of a run states; 0 when it does not.
double environment_number(const Measurements& file, const char* key);

// Returns an extent of the shape; 0 when the shape lacks the name.
double extent_of(const Subject& subject, std::string_view name);

// Returns the seconds of one execution, for sums over many: the mean of the samples without the slowest twentieth,
// which interruptions caused. Without samples it is the median.
double typical_seconds(const Measurement& measurement);

// Returns the relative standard deviation of one execution, from the median of the absolute deviations, which a few
// disturbed samples do not move, else from the 10th and 90th percentile. It is 0 when the record has neither.
double relative_spread(const Measurement& measurement);

// Returns the datasheet peak of the format's GEMMs in FLOP/s; nullopt for FP8 on devices without it and for unknown
// formats.
std::optional<double> peak_flop_rate(const model::Device& device, std::string_view format);

// Files of measurements, JSON Lines or CSV.

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
