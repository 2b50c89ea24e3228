// What is left between predictions and measured steps, estimated from the steps of other people.
//
// ln(measured / predicted) of a row is mu + stack + precision + class of model + set + cell + row. The effects are
// normal and independent; rows of the same stack, precision, class, set or cell share theirs. The location of a new
// step is its best linear unbiased prediction, by the covariance form of the mixed model equations (Henderson 1975,
// Biometrics 31, 423; Robinson 1991, Statistical Science 6, 15): a stack with many rows lies near them, one with few or
// none near the whole. The variances of the effects are not known either: all that a grid has are tried, and
// predictions averaged by their likelihood, so that few sets give wide answers. The deviations of rows within their
// sets are lognormal over the sets, estimated by the same equations, so that no large set decides.
#pragma once

#include <compare>
#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "model/base/error.h"
#include "sim/interval/left.h"
#include "sim/predict/inputs.h"

namespace plumbline::calibrate {

// The shipped statistics of measured steps over their predictions (calibrate/residuals.csv), from which what is left of
// the uncertainty of other predictions is estimated.

// What residuals of steps may have in common.
struct StepKind {
  std::string stack;      // name of a software stack, "none" without one
  std::string precision;  // of GEMMs: "16 bit" for BF16 and FP16, whose constants are the same, "fp8_tensor", ...
  std::string model;      // "dense" or "moe"
  std::strong_ordering operator<=>(const StepKind&) const = default;
};
StepKind step_kind(const sim::Inputs& inputs);

// Of ln(measured / predicted) of some rows.
struct Residuals {
  std::size_t rows = 0;
  double mean = 0, variance = 0;  // variance: around the mean, of the rows as they are
  bool operator==(const Residuals&) const = default;
};

struct LeftCell {  // the rows of a set that are of one kind and hardware
  std::string set;
  StepKind kind;
  std::string hardware;
  Residuals time, memory;
  // Of ln(drawn / predicted) of these rows' times, where constants, shapes, loads, clocks and jitter are drawn: the
  // mean of their means and of their variances.
  double drawn_mean = 0, drawn_variance = 0;
  bool operator==(const LeftCell&) const = default;
};

struct LeftRow {  // a measured step
  std::string set;
  StepKind kind;
  std::string hardware;
  double time = 0;               // ln(measured / predicted)
  std::optional<double> memory;  // the same of its peak, where that was measured
  double drawn_mean = 0, drawn_variance = 0;
};

// Returns the statistics of the rows, ordered by set, kind and hardware.
std::vector<LeftCell> left_cells(const std::vector<LeftRow>& rows);

// The file: CSV, a row for each cell. Input errors name file, line and column.
std::string left_cells_csv(const std::vector<LeftCell>& cells);
model::Result<std::vector<LeftCell>> load_left_cells(const std::string& path);

enum class LeftOf { time, memory };

// Returns what is left of a step of the kind, without the rows of these sets, after what draws of the other sources
// explain; nothing where no rows are left.
std::optional<sim::Left> left_of(const std::vector<LeftCell>& cells, const StepKind& kind,
                                 const std::set<std::string>& without_sets = {}, LeftOf quantity = LeftOf::time);

}  // namespace plumbline::calibrate
