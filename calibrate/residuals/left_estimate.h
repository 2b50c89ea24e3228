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

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "calibrate/residuals/left_cells.h"
#include "sim/interval/left.h"

namespace plumbline::calibrate {

enum class LeftOf { time, memory };

// Returns what is left of a step of the kind, without the rows of these sets, after what draws of the other sources
// explain; nothing where no rows are left.
std::optional<sim::Left> left_of(const std::vector<LeftCell>& cells, const StepKind& kind,
                                 const std::set<std::string>& without_sets = {}, LeftOf quantity = LeftOf::time);

}  // namespace plumbline::calibrate
