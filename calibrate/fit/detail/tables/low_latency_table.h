// Fits low-latency dispatch and combine to the form of model/cost/forms/transfer_forms.h. Copies are assumed to go to
// all ranks alike.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "calibrate/components/rows.h"
#include "calibrate/fit/held_out.h"
#include "model/cost/forms/transfer_forms.h"

namespace plumbline::calibrate {

struct LowLatencyRow {
  std::string shape;  // decides whether the row is left out of the fit
  std::string direction;
  model::LowLatencyWork work;
  double seconds = 0;
};

// DeepEP sends a copy of a token to each of its experts, with scales and a header of 16 bytes.
LowLatencyRow low_latency_row(const ExchangeRow& row);
// TensorRT-LLM's one-sided kernels send it once to each rank, and the sum of its experts' results once back, in BF16.
LowLatencyRow low_latency_row(const TrayExchangeRow& row);

struct LowLatencyNumber {
  const char* name;  // "start", as in exchange.low_latency.<version>.<direction>.start
  double model::LowLatencyConstants::*value;
  const char* unit;
  double start;                                                           // of a fit without anything known, in SI
  bool network = false;                                                   // of the leg between nodes
  enum class Seen { always, in_groups, in_experts } seen = Seen::always;  // where rows differ in these
};
const std::array<LowLatencyNumber, 7>& low_latency_numbers();

struct LowLatencyTableFit {
  struct Number {
    const LowLatencyNumber* of;
    double value, deviation;  // in SI; relative standard deviation
  };
  std::vector<Number> numbers;  // those on which rows depend
  std::vector<std::vector<double>> correlation;
  HeldOut held_out;
};

// Fits the rows of one direction. `known` has 0 for a constant without a value; a value that is known is the center of
// a prior of 30 %. `uses_nvlink`: ranks of a node reach each other over NVLink, else through their NICs. Tables of few
// rows are fitted whole. Requires rows.
LowLatencyTableFit fit_low_latency_table(const std::vector<LowLatencyRow>& rows,
                                         const model::LowLatencyConstants& known, bool uses_nvlink,
                                         const FitMachine& machine);

}  // namespace plumbline::calibrate
