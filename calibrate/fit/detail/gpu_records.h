// The records of one GPU as the cost functions of all predictions see them: lone operators, collectives and the pauses
// between kernels.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "calibrate/fit/profile_fit.h"
#include "calibrate/measurement/measurement.h"
#include "model/base/error.h"
#include "model/cost/collective_cost.h"
#include "model/cost/constants.h"
#include "model/graph/graph.h"
#include "model/profile/cluster.h"
#include "model/profile/profile.h"

namespace plumbline::calibrate {

// By how much GPUs of one kind are assumed to differ in their clocks, relative.
inline constexpr double between_gpus = 0.05;

struct GpuRecord {
  std::string family;  // "GEMMs bf16"
  const Measurement* measurement = nullptr;
  double seconds = 0;                 // measured
  std::optional<model::Graph> graph;  // of its operator; without one it is a collective or a pause
  std::int64_t sms = 0;               // that the operator has
  double runs = 1;                    // how many times the operator runs
};

struct Predicted {
  double seconds = 0;                    // 0: the profile has no constant of it
  double uncertain = 0;                  // seconds by which it may be off, by the uncertainties of its constants
  std::optional<model::ShapeKey> shape;  // whose error all records of it share
};

class GpuRecords {
 public:
  // Takes all records without a concurrent transfer whose shape is stated. `records` must outlive the object.
  GpuRecords(const FitRecords& records, const model::Device& device);

  const std::vector<GpuRecord>& all() const { return all_; }

  // Predicts each record. A sweep repeats each kernel: where the profile has a power model, an operator has the clock
  // that the device's limit leaves it when it is held. Input errors: a constant that the profile lacks.
  model::Result<std::vector<Predicted>> predict(const model::Profile& profile) const;

 private:
  model::Device device_;
  bool holds_gaps_;
  std::vector<GpuRecord> all_;
};

// Records of collectives on GPUs as the cost function of all predictions sees them.

// Returns the group of a record: its ranks, equally many on each of its nodes (one where the shape names none).
model::CollectiveGroup group_of(const Measurement& m);

// Returns the cost function of a profile on links of its own line rates. An input error names a missing constant.
model::Result<model::CollectiveCost> collectives_of(const model::Profile& profile);

double collective_seconds(const model::CollectiveCost& cost, const Measurement& m);

}  // namespace plumbline::calibrate
