// What is left between predictions and measurements, estimated from the steps and deployments of other people.
//
// ln(measured / predicted) of a row is mu + stack + precision + class of model + set + cell + row. The effects are
// normal and independent; rows of the same stack, precision, class, set or cell share theirs. The location of a new
// step is its best linear unbiased prediction, by the covariance form of the mixed model equations (Henderson 1975,
// Biometrics 31, 423; Robinson 1991, Statistical Science 6, 15): a stack with many rows lies near them, one with few or
// none near the whole. The variances of the effects are not known either: all that a grid has are tried, and
// predictions averaged by their likelihood, so that few sets give wide answers. How far the rows of a set scatter is
// lognormal over stacks, classes and sets, estimated by the same equations, so that no large set decides. A row of a
// set that nobody saw is a mixture over all of these, and its band is the one in which eight of ten of them lie. A
// deployment that serves has no location: what its rows show widens the band and moves no middle.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "model/base/error.h"
#include "sim/interval/left.h"
#include "sim/interval/step_draws.h"
#include "sim/predict/inputs.h"

namespace plumbline::calibrate {

// The shipped statistics of measurements over their predictions (calibrate/residuals.csv), from which what is left of
// the uncertainty of other predictions is estimated.

// What residuals may have in common.
struct StepKind {
  std::string stack;      // name of a software stack, "none" without one; of deployments the engine's
  std::string precision;  // of GEMMs: "16 bit" for BF16 and FP16, whose constants are the same, "fp8_tensor", ...
  std::string model;      // "dense" or "moe"
  std::strong_ordering operator<=>(const StepKind&) const = default;
};
StepKind step_kind(const sim::Inputs& inputs);     // of a training step
StepKind serving_kind(const sim::Inputs& inputs);  // of a deployment: the engine's, with the format of its weights

// What was measured: the time of a step and the peak of its fullest rank; of a deployment that serves the times per
// output token and to the first token, and output tokens per second of a GPU.
enum class LeftOf : std::uint8_t { time, memory, tpot, ttft, rate };
std::string_view to_string(LeftOf quantity);  // as the file and tables name it: "time", ..., "TPOT", "TTFT", "tokens/s"
std::optional<LeftOf> left_of_name(std::string_view name);

struct LeftRow {  // a measurement
  LeftOf of = LeftOf::time;
  std::string set;
  StepKind kind;
  std::string hardware;
  double value = 0;        // ln(measured / predicted)
  sim::DrawnSpread drawn;  // of its prediction, where constants, shapes, loads, clocks and jitter are drawn
};

struct LeftCell {  // the rows of a set that are of one quantity, kind and hardware
  LeftOf of = LeftOf::time;
  std::string set;
  StepKind kind;
  std::string hardware;
  std::size_t rows = 0;
  double mean = 0;  // of ln(measured / predicted)
  // Of all rows of the set's stack and class of model, around the means of their cells: nine of ten normal values are
  // less than 1.28 deviations above the mean, as eight of ten of these rows are off by less. Rows that are off by a
  // factor weigh no more than others.
  double deviation = 0;
  sim::DrawnSpread drawn;  // means over the rows
  bool operator==(const LeftCell&) const = default;
};

// Returns the statistics of the rows, ordered by quantity, set, kind and hardware.
std::vector<LeftCell> left_cells(const std::vector<LeftRow>& rows);

// The file: CSV, a row for each cell. Input errors name file, line and column: an unknown quantity, rows that are no
// whole number above 0, a logarithm beyond -10 to 10, a deviation or variance below 0.
std::string left_cells_csv(const std::vector<LeftCell>& cells);
model::Result<std::vector<LeftCell>> load_left_cells(const std::string& path);

// Returns the sets that have rows of this stack.
std::set<std::string> sets_of_stack(const std::vector<LeftCell>& cells, const std::string& stack);

// Returns what is left of a prediction of the kind, without the rows of these sets, after what draws of the other
// sources explain; nothing where no rows are left. Times per token have the rates of sets that state no such time.
std::optional<sim::Left> left_of(const std::vector<LeftCell>& cells, const StepKind& kind,
                                 const std::set<std::string>& without_sets = {}, LeftOf quantity = LeftOf::time);

}  // namespace plumbline::calibrate
