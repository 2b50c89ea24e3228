#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>

#include "calibrate/import/kineto/detail/enclosing.h"
#include "calibrate/import/kineto/detail/places/places.h"
#include "model/base/text.h"

namespace plumbline::calibrate {
namespace {

constexpr std::string_view optimizer_prefix = "Optimizer.step";
constexpr std::string_view before_prefix = "FSDP::pre_", behind_prefix = "FSDP::post_";

using Ranges = std::vector<Range>;

// A class of modules: "TransformerBlock" of "nn.Module: TransformerBlock_3".
struct ModuleClass {
  std::set<int> instances;
  std::int64_t total_ns = 0;
};

struct ModuleName {
  std::string_view kind;
  int instance = 0;
};

std::optional<ModuleName> module_name(std::string_view name) {
  name.remove_prefix(std::string_view("nn.Module: ").size());
  const std::size_t underscore = name.rfind('_');
  if (underscore == std::string_view::npos) return std::nullopt;
  const auto instance = model::parse_number<int>(name.substr(underscore + 1));
  if (!instance) return std::nullopt;
  return ModuleName{name.substr(0, underscore), *instance};
}

// Returns the calls of the modules that are layers: the class with several instances whose calls take the longest.
Ranges module_layers(const Trace& trace) {
  std::map<std::string_view, ModuleClass> kinds;
  for (const Annotation& call : trace.modules)
    if (const auto name = module_name(trace.names.text(call.name))) {
      kinds[name->kind].instances.insert(name->instance);
      kinds[name->kind].total_ns += call.end_ns - call.start_ns;
    }
  std::erase_if(kinds, [](const auto& entry) { return entry.second.instances.size() < 2; });
  if (kinds.empty()) return {};
  const auto layers = std::ranges::max_element(kinds, {}, [](const auto& entry) { return entry.second.total_ns; });
  const std::set<int>& instances = layers->second.instances;
  Ranges ranges;
  for (const Annotation& call : trace.modules) {
    const auto name = module_name(trace.names.text(call.name));
    if (!name || name->kind != layers->first) continue;
    const auto number = std::distance(instances.begin(), instances.find(name->instance));
    ranges.push_back({call.start_ns, call.end_ns, call.thread, static_cast<std::size_t>(number)});
  }
  return ranges;
}

// Returns the annotations whose name has a layer's number. A hook of FSDP before a layer's pass extends to the end of
// that behind it.
Ranges named_layers(const Trace& trace, const KernelClasses& classes) {
  std::vector<const Annotation*> order;
  for (const Annotation& annotation : trace.annotations) order.push_back(&annotation);
  std::ranges::stable_sort(order, {}, [](const Annotation* a) { return a->start_ns; });
  std::unordered_map<std::uint32_t, std::optional<int>> numbers;
  std::map<std::pair<std::uint32_t, std::string>, std::size_t> open;  // by thread and "forward (layers.3)"
  Ranges ranges;
  for (const Annotation* a : order) {
    const std::string& name = trace.names.text(a->name);
    const auto [number, fresh] = numbers.try_emplace(a->name, std::nullopt);
    if (fresh) number->second = classes.layer(name);
    if (!number->second) continue;
    if (name.starts_with(behind_prefix)) {
      const auto begun = open.find({a->thread, name.substr(behind_prefix.size())});
      if (begun == open.end()) continue;
      ranges[begun->second].end_ns = a->end_ns;
      open.erase(begun);
      continue;
    }
    if (name.starts_with(before_prefix)) open[{a->thread, name.substr(before_prefix.size())}] = ranges.size();
    ranges.push_back({a->start_ns, a->end_ns, a->thread, static_cast<std::size_t>(*number->second)});
  }
  return ranges;
}

// Returns the ranges of the operations that `wanted` accepts; their values are indices into trace.operations.
template <class Wanted>
Ranges operations(const Trace& trace, const Wanted& wanted) {
  Ranges ranges;
  for (std::size_t i = 0; i < trace.operations.size(); ++i) {
    const Operation& operation = trace.operations[i];
    if (wanted(operation)) ranges.push_back({operation.start_ns, operation.end_ns, operation.thread, i});
  }
  return ranges;
}

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

void set_layer(Place& place, int layer, Evidence by) {
  if (place.layer_by != Evidence::none) return;
  place.layer = layer;
  place.layer_by = by;
}

void set_phase(Place& place, std::string_view phase) {
  if (place.phase_by != Evidence::none || place.optimizer) return;
  place.phase = phase;
  place.phase_by = Evidence::autograd;
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
  Ranges layers = named_layers(trace, classes);
  if (layers.empty()) layers = module_layers(trace);

  const std::vector<std::size_t> layer = innermost(layers, launched, places.size());
  const std::vector<std::size_t> backward =
      innermost(operations(trace, [&](const Operation& o) { return evaluates[o.name]; }), launched, places.size());
  const std::vector<std::size_t> recorded =
      innermost(operations(trace, [](const Operation& o) { return o.sequence >= 0; }), launched, places.size());
  const auto of_sequences = layers_of_sequences(trace, layers, evaluates);
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (layer[i] != no_range) set_layer(places[i], static_cast<int>(layer[i]), Evidence::annotation);
    if (backward[i] != no_range) {
      set_phase(places[i], "B");
      const auto known = of_sequences.find(trace.operations[backward[i]].sequence);
      if (known != of_sequences.end()) set_layer(places[i], known->second, Evidence::autograd);
    } else if (engine && recorded[i] != no_range) {
      set_phase(places[i], "F");
    }
  }
}

}  // namespace plumbline::calibrate
