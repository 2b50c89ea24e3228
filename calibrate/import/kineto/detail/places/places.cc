#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "calibrate/import/kineto/detail/places/places.h"
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

}  // namespace plumbline::calibrate
