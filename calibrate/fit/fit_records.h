// Records of `plumbline measure` by host and GPU, sorted by what can be learnt of them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "calibrate/measurement/measurement.h"
#include "model/base/error.h"
#include "model/cost/operator_class.h"

namespace plumbline::calibrate {

double extent_of(const Measurement& measurement, std::string_view name);  // of the shape; 0 where it has none

struct FitRecord {
  const Measurement* measurement = nullptr;
  model::OperatorKind kind = model::OperatorKind::add;
  model::OperatorClass type = model::OperatorClass::gemm;
  std::string format;  // of the first operand, by which the cost functions choose their constants
  std::string key;     // operator_key, or empty
  // Of a host the cores it ran on. Of a GPU the SMs that a product was launched on; of others, and of all beside
  // something, those that were free; of an exchange those that it held.
  std::int64_t cores = 1;
  double seconds = 0;  // typical_seconds()

  double extent(std::string_view name) const { return extent_of(*measurement, name); }
};

enum class MachineKind : std::uint8_t { host, gpu };

struct FitRecords {
  MachineKind machine = MachineKind::host;
  std::string device, clock, date;  // of a host its clock, else empty; the latest day, "2026-11-21"
  std::vector<FitRecord> gemms, attention, memory, routers;
  std::vector<FitRecord> together;  // exchanges and collectives of a plan's operators, of all ranks of a group
  // Of a host products and attention while others copied through memory; of a GPU all operators while an exchange ran.
  std::vector<FitRecord> overlapped;
  std::vector<FitRecord> together_overlapped;                                    // exchanges while operators ran
  std::vector<const Measurement*> launches, messages, all_to_alls, collectives;  // no operator of a plan
  std::vector<std::string> notes;                                                // what nothing is made of
};

// Of `clock` ("wall" or "cpu"; empty: the only one there is, or those of a GPU). Input errors: no record that a profile
// can be made of, more than one device, more than one clock. The files must outlive what is returned.
model::Result<FitRecords> fit_records(const std::vector<Measurements>& files, const std::string& clock = "");

// Of one execution, for sums over many: the mean of the samples but the slowest twentieth, which interruptions made;
// the median where a record keeps no samples.
double typical_seconds(const Measurement& measurement);

// Relative standard deviation of one execution: from the median of the absolute deviations, which a few disturbed
// samples do not move, else from the 10th and 90th percentile; 0 where the record states neither.
double relative_spread(const Measurement& measurement);

}  // namespace plumbline::calibrate
