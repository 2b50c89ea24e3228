#include "calibrate/import/kineto/detail/recorded.h"

#include <string>

namespace plumbline::calibrate {
namespace {

// Returns the ranges of the operations that `wanted` accepts; their values are indices into trace.operations.
template <class Wanted>
std::vector<Range> operation_ranges(const Trace& trace, const Wanted& wanted) {
  std::vector<Range> ranges;
  for (std::size_t i = 0; i < trace.operations.size(); ++i) {
    const Operation& operation = trace.operations[i];
    if (wanted(operation)) ranges.push_back({operation.start_ns, operation.end_ns, operation.thread, i});
  }
  return ranges;
}

// Whether an operation is of a backward: "MulBackward0", "torch::autograd::AccumulateGrad".
bool of_backward(const std::string& name) {
  return name.starts_with("torch::autograd::") || name.find("Backward") != std::string::npos;
}

}  // namespace

std::vector<Recorded> recorded_operations(const Trace& trace, const std::vector<std::size_t>& work) {
  const std::vector<Moment> launched = launch_moments(trace, work);
  const auto evaluates = [&](const Operation& o) { return trace.names.text(o.name).starts_with(evaluate_prefix); };
  const auto around = [&](const auto& wanted) {
    return innermost(operation_ranges(trace, wanted), launched, work.size());
  };
  const std::vector<std::size_t> operations = around([](const Operation& o) { return o.sequence >= 0; });
  const std::vector<std::size_t> evaluations = around(evaluates);
  std::vector<Recorded> recorded(work.size());
  for (std::size_t i = 0; i < work.size(); ++i) {
    recorded[i] = {operations[i], evaluations[i]};
    if (operations[i] == no_range) continue;
    const Operation& operation = trace.operations[operations[i]];
    recorded[i].forward = !evaluates(operation) && !of_backward(trace.names.text(operation.name));
  }
  return recorded;
}

}  // namespace plumbline::calibrate
