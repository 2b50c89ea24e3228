#include "sim/interval/step_spread.h"

#include "sim/interval/interval.h"
#include "sim/whatif/power_span.h"

namespace plumbline::sim {

model::Result<void> add_spread(const Inputs& inputs, model::StepResult& result,
                               const std::optional<IntervalOptions>& options) {
  result.power_span_s = TRY(power_span(inputs, result.step.time_s));
  add_fit(inputs, result.memory, options.value_or(IntervalOptions()));
  if (options) result.interval = TRY(interval_of(inputs, result, *options));
  return {};
}

}  // namespace plumbline::sim
