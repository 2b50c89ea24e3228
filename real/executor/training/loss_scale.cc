#include "real/executor/training/loss_scale.h"

#include <algorithm>

namespace plumbline::real {

LossScale::LossScale(const LossScaleOptions& options) : dynamic_(true), options_(options) {
  state_.factor = options.start;
}

void LossScale::keep_or_grow() {
  if (!dynamic_ || ++state_.good_steps < options_.interval) return;
  state_ = {.factor = std::min(state_.factor * options_.step, options_.highest)};
}

bool LossScale::shrink() {
  if (!dynamic_ || state_.factor <= options_.lowest) return false;
  state_ = {.factor = std::max(state_.factor / options_.step, options_.lowest)};
  return true;
}

}  // namespace plumbline::real
