#include <algorithm>
#include <unordered_map>

#include "calibrate/import/kineto/detail/enclosing.h"
#include "calibrate/import/kineto/detail/places/layers.h"
#include "calibrate/import/kineto/detail/places/places.h"

namespace plumbline::calibrate {
namespace {

constexpr std::string_view optimizer_prefix = "Optimizer.step";

using Ranges = std::vector<Range>;

// The layer of each sequence number of autograd, from the forward operators that layers enclose.
std::unordered_map<std::int64_t, int> layers_of_sequences(const Trace& trace, const Ranges& layers,
                                                          const std::vector<bool>& evaluates) {
  std::vector<Moment> moments;
  for (std::size_t i = 0; i < trace.operations.size(); ++i) {
    const Operation& operation = trace.operations[i];
    if (operation.sequence >= 0 && !evaluates[operation.name])
      moments.push_back({operation.thread, operation.start_ns, i});
  }
  const std::vector<std::size_t> found = innermost(layers, moments, trace.operations.size());
  std::unordered_map<std::int64_t, int> result;
  for (const Moment& moment : moments)
    if (found[moment.asker] != no_range)
      result.try_emplace(trace.operations[moment.asker].sequence, static_cast<int>(found[moment.asker]));
  return result;
}

void set_layer(Place& place, int layer, PlacedBy by) {
  if (place.layer_by != PlacedBy::none) return;
  place.layer = layer;
  place.layer_by = by;
}

void set_phase(Place& place, std::string_view phase) {
  if (place.phase_by != PlacedBy::none || place.optimizer) return;
  place.phase = phase;
  place.phase_by = PlacedBy::autograd;
}

void mark_optimizer(const Trace& trace, const std::vector<Moment>& launched, Places& places) {
  Ranges steps;
  for (const Annotation& a : trace.annotations)
    if (trace.names.text(a.name).starts_with(optimizer_prefix))
      steps.push_back({a.start_ns, a.end_ns, a.thread, a.name});
  const std::vector<std::size_t> found = innermost(std::move(steps), launched, places.size());
  for (std::size_t i = 0; i < places.size(); ++i) places[i].optimizer = found[i] != no_range;
}

}  // namespace

void place_by_autograd(const Trace& trace, const std::vector<std::size_t>& work, const KernelClasses& classes,
                       Places& places) {
  const std::vector<Moment> launched = launch_moments(trace, work);
  mark_optimizer(trace, launched, places);
  std::vector<bool> evaluates(trace.names.size());
  for (const Operation& operation : trace.operations)
    evaluates[operation.name] = trace.names.text(operation.name).starts_with(evaluate_prefix);
  // Without the steps of the backward, its operators look like those of a forward.
  const bool engine = std::ranges::find(evaluates, true) != evaluates.end();
  Ranges layers = thread_layers(trace, classes).forward;
  const bool named = !layers.empty();
  if (!named) layers = module_layers(trace);
  const std::vector<std::size_t> called =
      named ? std::vector<std::size_t>(places.size(), no_range) : innermost(layers, launched, places.size());
  const std::vector<Recorded> recorded = recorded_operations(trace, work);
  const auto of_sequences = layers_of_sequences(trace, layers, evaluates);
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (called[i] != no_range) set_layer(places[i], static_cast<int>(called[i]), PlacedBy::annotation);
    if (recorded[i].evaluation != no_range) {
      set_phase(places[i], "B");
      if (recorded[i].recomputed()) places[i].recomputed = true;
      const auto known = of_sequences.find(trace.operations[recorded[i].evaluation].sequence);
      if (known != of_sequences.end()) set_layer(places[i], known->second, PlacedBy::autograd);
    } else if (engine && recorded[i].operation != no_range) {
      set_phase(places[i], "F");
    }
  }
}

}  // namespace plumbline::calibrate
