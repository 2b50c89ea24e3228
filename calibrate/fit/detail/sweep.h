// How fits use records of single kernels of a GPU: those of `plumbline measure` without a plan, of nccl-tests, and of
// tables of one's own.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "calibrate/measurement/measurement.h"
#include "model/graph/graph.h"

namespace plumbline::calibrate {

class Sweep {
 public:
  // The files must outlive the object.
  explicit Sweep(const std::vector<Measurements>& files);

  static constexpr const char* with_copy = "overlapped with a copy, or in turns with one";

  // Returns why no constant is fitted to a record; empty for a record that is used.
  std::string unused(const Measurement& m) const;
  // Returns the same kernel alone, of a record that was taken in turns with it; nullptr when there is none.
  const Measurement* alone(const Measurement& m) const;
  // Returns the seconds of one execution, without the events around it where the operands were not in the cache: hot
  // records of short kernels are timed in graphs without events.
  double seconds(const Measurement& m) const;

 private:
  std::set<std::string> cold_;                       // cases that were measured with their operands in memory
  std::map<std::string, const Measurement*> alone_;  // by case line
  std::map<const Measurement*, double> events_;      // seconds of a pair of events, which cold records hold
};

// Returns the operator whose constants the record of a single kernel determines; nullopt when there is none.
std::optional<model::OperatorKind> operator_of(const Measurement& m);
// Returns the operator of a plan with this name; nullopt when there is none.
std::optional<model::OperatorKind> named_operator(std::string_view op);

// Returns how many kernels a GEMM of several groups is: one a group, one behind the other.
double launches_of(const Measurement& m);

}  // namespace plumbline::calibrate
