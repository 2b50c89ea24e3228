#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "calibrate/import/kineto/detail/work.h"
#include "model/base/text.h"

namespace plumbline::calibrate {
namespace {

constexpr std::string_view before_prefix = "FSDP::pre_", behind_prefix = "FSDP::post_";

using Ranges = std::vector<Range>;
using Track = std::int64_t (*)(const Annotation&);

std::int64_t thread_of(const Annotation& a) { return a.thread; }
std::int64_t stream_of(const Annotation& a) { return stream_track(a.device, a.stream); }

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

// Finds the layers that annotations name, on the tracks that `track` returns.
class LayerFinder {
 public:
  LayerFinder(const Trace& trace, const KernelClasses& classes, const std::vector<Annotation>& annotations, Track track)
      : trace_(trace),
        track_(track),
        layers_(trace, [&classes](const std::string& name) { return classes.layer(name); }),
        phases_(trace, [&classes](const std::string& name) { return classes.annotation(name); }) {
    for (const Annotation& annotation : annotations) order_.push_back(&annotation);
    std::ranges::stable_sort(order_, {}, [](const Annotation* a) { return a->start_ns; });
  }

  LayerRanges find() {
    const std::vector<std::size_t> passes = passes_around();
    std::map<std::pair<std::uint32_t, std::size_t>, std::size_t> count;  // of a name within a pass
    for (std::size_t i = 0; i < order_.size(); ++i) {
      const Annotation& a = *order_[i];
      const LayerAnnotation& layer = layers_.of(a.name);
      if (layer.forward) add(a, static_cast<std::size_t>(*layer.forward), found_.forward);
      if (layer.backward) add(a, static_cast<std::size_t>(*layer.backward), found_.backward);
      if (!layer.counted || passes[i] == no_range) continue;
      const std::size_t number = count[{a.name, passes[i]}]++;
      add(a, number, found_.forward);
      add(a, number, found_.backward);
    }
    return std::move(found_);
  }

 private:
  // Returns the pass around the beginning of each annotation.
  std::vector<std::size_t> passes_around() {
    Ranges passes;
    std::vector<Moment> moments;
    for (std::size_t i = 0; i < order_.size(); ++i) {
      const Annotation& a = *order_[i];
      const PhaseAnnotation* phase = phases_.of(a.name);
      if (phase != nullptr && phase->section.empty()) passes.push_back({a.start_ns, a.end_ns, track_(a), i});
      if (layers_.of(a.name).counted) moments.push_back({track_(a), a.start_ns, i});
    }
    return innermost(std::move(passes), std::move(moments), order_.size());
  }

  void add(const Annotation& a, std::size_t number, Ranges& into) {
    const std::string& name = trace_.names.text(a.name);
    auto& open = open_[&into];
    if (name.starts_with(behind_prefix)) {
      const auto begun = open.find({a.thread, name.substr(behind_prefix.size())});
      if (begun == open.end()) return;
      into[begun->second].end_ns = a.end_ns;
      open.erase(begun);
      return;
    }
    if (name.starts_with(before_prefix)) open[{a.thread, name.substr(before_prefix.size())}] = into.size();
    into.push_back({a.start_ns, a.end_ns, track_(a), number});
  }

  const Trace& trace_;
  Track track_;
  NameMemo<LayerAnnotation> layers_;
  NameMemo<const PhaseAnnotation*> phases_;
  std::vector<const Annotation*> order_;  // by start
  LayerRanges found_;
  // The hooks before a pass without their end, by thread and "forward (layers.3)": indices of ranges.
  std::map<const Ranges*, std::map<std::pair<std::uint32_t, std::string>, std::size_t>> open_;
};

using PhaseNames = NameMemo<const PhaseAnnotation*>;

// The annotations with a phase, as places and the ranges that hold their indices.
struct Labeled {
  Places places;
  std::vector<Range> ranges;
};

// Returns the annotations with a phase. `counted_on` returns the track on which occurrences of a name are counted;
// equal layers have equal numbers only within one such track.
template <class Track, class CountedOn>
Labeled labeled(const std::vector<Annotation>& annotations, PhaseNames& names, const Track& track,
                const CountedOn& counted_on) {
  std::vector<const Annotation*> order;
  for (const Annotation& annotation : annotations) {
    if (names.of(annotation.name) != nullptr) order.push_back(&annotation);
  }
  std::ranges::stable_sort(order, {}, [](const Annotation* a) { return a->start_ns; });
  std::map<std::pair<std::uint32_t, std::int64_t>, int> count;
  Labeled result;
  for (const Annotation* a : order) {
    int& occurrence = count[{a->name, counted_on(*a)}];
    result.ranges.push_back({a->start_ns, a->end_ns, track(*a), result.places.size()});
    Place& place = result.places.emplace_back();
    const PhaseAnnotation& meaning = *names.of(a->name);
    place.phase = meaning.phase;
    place.section = a->name;
    place.phase_by = PlacedBy::annotation;
    (meaning.section.empty() ? place.pass : place.layer) = occurrence;
    if (place.layer >= 0) place.layer_by = PlacedBy::annotation;
    ++occurrence;
  }
  for (std::size_t i = 0; i < order.size(); ++i) {
    Place& place = result.places[i];
    if (place.layer >= 0 && names.of(order[i]->name)->descending)
      place.layer = count.at({order[i]->name, counted_on(*order[i])}) - 1 - place.layer;
  }
  return result;
}

// Gives the work without a phase that of the range around its moment.
void answer(Labeled labels, const std::vector<Moment>& moments, Places& places) {
  const std::vector<std::size_t> found = innermost(std::move(labels.ranges), moments, places.size());
  for (std::size_t i = 0; i < places.size(); ++i)
    if (found[i] != no_range && places[i].phase.empty()) places[i] = labels.places[found[i]];
}

// Gives the work within ranges of a layer its number, which is worth more than a count of occurrences. Where the phase
// is not known, both directions must have the same number.
void name_layers(LayerRanges layers, const std::vector<Moment>& moments, Places& places) {
  const std::vector<std::size_t> forward = innermost(std::move(layers.forward), moments, places.size());
  const std::vector<std::size_t> backward = innermost(std::move(layers.backward), moments, places.size());
  for (std::size_t i = 0; i < places.size(); ++i) {
    Place& place = places[i];
    const std::size_t number = place.phase == "F" || forward[i] == backward[i] ? forward[i]
                               : place.phase.empty()                           ? no_range
                                                                               : backward[i];
    if (number == no_range) continue;
    place.layer = static_cast<int>(number);
    place.layer_by = PlacedBy::annotation;
  }
}

constexpr std::string_view optimizer_prefix = "Optimizer.step";

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

LayerRanges thread_layers(const Trace& trace, const KernelClasses& classes) {
  return LayerFinder(trace, classes, trace.annotations, thread_of).find();
}

LayerRanges stream_layers(const Trace& trace, const KernelClasses& classes) {
  return LayerFinder(trace, classes, trace.gpu_annotations, stream_of).find();
}

std::vector<Range> module_layers(const Trace& trace) {
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

Places annotated_places(const Trace& trace, const std::vector<std::size_t>& work, const KernelClasses& classes) {
  Places places(work.size());
  PhaseNames names(trace, [&classes](const std::string& name) { return classes.annotation(name); });
  const auto together = [](const Annotation&) { return std::int64_t{0}; };
  const auto thread = [](const Annotation& a) { return std::int64_t{a.thread}; };
  const auto stream = [](const Annotation& a) { return stream_track(a.device, a.stream); };

  std::vector<Moment> launched = launch_moments(trace, work);
  answer(labeled(trace.annotations, names, thread, together), launched, places);
  // The trace repeats a GPU annotation on each stream that had work in it.
  answer(labeled(trace.gpu_annotations, names, stream, stream), start_moments(trace, work), places);
  // The last attempt treats all threads as one.
  for (Moment& moment : launched) moment.track = 0;
  answer(labeled(trace.annotations, names, together, together), launched, places);
  name_layers(thread_layers(trace, classes), launch_moments(trace, work), places);
  name_layers(stream_layers(trace, classes), start_moments(trace, work), places);
  return places;
}

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
