// Dynamic loss scaling (Micikevicius et al. 2018, arXiv 1710.03740, section 3.2): gradients in FP16 are multiplied by a
// factor that keeps small ones representable, and a step whose gradients overflow is skipped.
#pragma once

#include <algorithm>
#include <cstdint>

namespace plumbline::real {

struct LossScaleOptions {
  double start = 65536;          // 2^16: default of torch.amp.GradScaler
  double step = 2;               // ratio by which it grows and shrinks; default of torch.amp.GradScaler
  std::int64_t interval = 2000;  // steps in a row without overflow after which it grows; GradScaler's default
  double lowest = 1;             // default of Megatron-LM's --min-loss-scale
  double highest = 16777216;     // 2^24: default of NVIDIA Apex's max_loss_scale
};

struct LossScaleState {
  double factor = 1;
  std::int64_t good_steps = 0;  // steps without overflow since the factor changed last
};

class LossScale {
 public:
  // The factor is always 1, for formats that need no scaling.
  LossScale() = default;
  explicit LossScale(const LossScaleOptions& options) : dynamic_(true), options_(options) {
    state_.factor = options.start;
  }

  double factor() const { return state_.factor; }

  // Call after a step whose gradients were all finite.
  void keep_or_grow() {
    if (!dynamic_ || ++state_.good_steps < options_.interval) return;
    state_ = {.factor = std::min(state_.factor * options_.step, options_.highest)};
  }
  // Call after a step whose gradients overflowed. Returns false when the factor is at its lowest: a retry cannot help.
  [[nodiscard]] bool shrink() {
    if (!dynamic_ || state_.factor <= options_.lowest) return false;
    state_ = {.factor = std::max(state_.factor / options_.step, options_.lowest)};
    return true;
  }

  const LossScaleState& state() const { return state_; }
  void restore(const LossScaleState& state) { state_ = state; }

 private:
  bool dynamic_ = false;
  LossScaleOptions options_;
  LossScaleState state_;
};

}  // namespace plumbline::real
