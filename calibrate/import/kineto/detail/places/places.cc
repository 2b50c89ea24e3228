#include "calibrate/import/kineto/detail/places/places.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

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

namespace {

// Consecutive anchors that all are backward, or all are not.
struct Run {
  std::vector<Anchor*> anchors;
  bool backward = false;
};

std::vector<Run> runs_of(std::span<Anchor> anchors, bool with_recomputed) {
  std::vector<Run> runs;
  for (Anchor& anchor : anchors) {
    if (anchor.kind == Attention::recomputed && !with_recomputed) continue;
    const bool backward = anchor.kind == Attention::backward;
    if (runs.empty() || runs.back().backward != backward) runs.push_back({{}, backward});
    runs.back().anchors.push_back(&anchor);
  }
  return runs;
}

// Marks the last `count` anchors of a run.
void mark_last(Run& run, std::size_t count) {
  for (std::size_t i = run.anchors.size() - count; i < run.anchors.size(); ++i)
    run.anchors[i]->kind = Attention::recomputed;
}

// Returns the layers of a pass: the usual length of a run of backwards where most runs hold whole passes of it, else
// the greatest common divisor of all lengths.
std::size_t common_length(std::span<const Run> runs, bool& regular) {
  constexpr double most = 0.8;
  std::map<std::size_t, int> counts;
  std::size_t divisor = 0;
  const bool any_backward = std::ranges::any_of(runs, &Run::backward);
  for (const Run& run : runs) {
    divisor = std::gcd(divisor, run.anchors.size());
    if (run.backward == any_backward) ++counts[run.anchors.size()];
  }
  const std::size_t usual = std::ranges::max_element(counts, {}, [](const auto& entry) { return entry.second; })->first;
  const auto whole = std::ranges::count_if(runs, [&](const Run& run) { return run.anchors.size() % usual == 0; });
  regular = static_cast<double>(whole) >= most * static_cast<double>(runs.size());
  if (regular || divisor < 2) return usual;
  regular = true;
  return divisor;
}

// Returns the symbols between an anchor and the next.
std::span<const std::uint32_t> between(const Anchor& anchor, const Anchor& next, const Symbols& symbols) {
  return std::span(symbols).subspan(anchor.last + 1, next.first - anchor.last - 1);
}

// Whether passes of `period` layers fill a run of `length`: what is between layers repeats with the period, and differs
// from what is between passes.
bool repeats(const Run& run, std::size_t length, std::size_t period, const Symbols& symbols) {
  const auto after = [&](std::size_t i) { return between(*run.anchors[i], *run.anchors[i + 1], symbols); };
  for (std::size_t i = 0; i + 1 < length; ++i) {
    const bool boundary = (i + 1) % period == 0;
    if (boundary && std::ranges::equal(after(i), after(i - 1))) return false;
    if (!boundary && i >= period && !std::ranges::equal(after(i), after(i - period))) return false;
  }
  return true;
}

// Returns the shortest period of at least two layers that divides every whole pass of the longest run, else `length`.
std::size_t shortest_period(const std::vector<Run>& runs, std::size_t length, const Symbols& symbols) {
  const auto most =
      std::ranges::max_element(runs, {}, [](const Run& run) { return run.backward ? 0 : run.anchors.size(); });
  for (std::size_t period = 2; 2 * period <= length; ++period)
    if (length % period == 0 && repeats(*most, std::min(length, most->anchors.size()), period, symbols)) return period;
  return length;
}

// Gives recomputed forwards the place of their backward: the last of a run belongs to the first backward behind it.
void number_recomputed(std::vector<Anchor>& anchors) {
  const std::vector<Run> runs = runs_of(anchors, true);
  for (std::size_t r = 0; r + 1 < runs.size(); ++r) {
    if (runs[r].backward) continue;
    for (std::size_t i = 0; i < runs[r].anchors.size() && i < runs[r + 1].anchors.size(); ++i) {
      Anchor& anchor = *runs[r].anchors[runs[r].anchors.size() - 1 - i];
      if (anchor.kind != Attention::recomputed) continue;
      anchor.layer = runs[r + 1].anchors[i]->layer;
      anchor.pass = runs[r + 1].anchors[i]->pass;
    }
  }
}

class StreamReader {
 public:
  StreamReader(const Trace& trace, const std::vector<std::size_t>& work,
               const std::vector<std::string_view>& class_names)
      : trace_(trace), work_(work), class_names_(class_names) {
    fused_ = std::ranges::any_of(class_names, [](std::string_view kind) { return kind.starts_with("attn_"); });
  }

  AttentionStream read() {
    const int stream = busiest();
    for (std::size_t i = 0; i < work_.size(); ++i)
      if (piece(i).stream == stream && !piece(i).copy) add(i);
    find_anchors();
    return std::move(found_);
  }

 private:
  const GpuWork& piece(std::size_t i) const { return trace_.work[work_[i]]; }

  // Returns the direction of an attention kernel: 1 forward, -1 backward, 0 none.
  int direction(std::size_t i) const {
    const std::string_view kind = class_names_[i];
    if (kind == "attn_fwd") return 1;
    if (kind.starts_with("attn_bwd")) return -1;
    if (fused_ || kind == "loss") return 0;
    const std::string& name = trace_.names.text(piece(i).name);
    if (name.find("softmax") == std::string::npos) return 0;
    return name.find("ackward") == std::string::npos ? 1 : -1;
  }

  // Returns the stream with the most time in attention.
  int busiest() const {
    std::map<int, std::int64_t> attention_ns;
    for (std::size_t i = 0; i < work_.size(); ++i)
      if (direction(i) != 0) attention_ns[piece(i).stream] += piece(i).duration_ns + 1;
    if (attention_ns.empty()) return 0;
    return std::ranges::max_element(attention_ns, {}, [](const auto& entry) { return entry.second; })->first;
  }

  void add(std::size_t i) {
    found_.items.push_back(i);
    const std::string_view kind = class_names_[i].empty() ? trace_.names.text(piece(i).name) : class_names_[i];
    const auto symbol = numbers_.try_emplace(kind, static_cast<std::uint32_t>(numbers_.size())).first->second;
    found_.symbols.push_back(symbol);
    if (class_names_[i].find("gemm") != std::string_view::npos) found_.gemm_symbols.insert(symbol);
    if (kind.find("norm") != std::string_view::npos) found_.norm_symbols.insert(symbol);
  }

  void find_anchors() {
    std::vector<Anchor>& anchors = found_.anchors;
    bool gemm = true;  // since the last anchor
    for (std::size_t item = 0; item < found_.items.size(); ++item) {
      gemm = gemm || found_.is_gemm(item);
      const int way = direction(found_.items[item]);
      if (way == 0) continue;
      const Attention kind = way > 0 ? Attention::forward : Attention::backward;
      if (gemm || anchors.empty() || anchors.back().kind != kind) anchors.push_back({item, item, kind});
      anchors.back().last = item;
      gemm = false;
    }
  }

  const Trace& trace_;
  const std::vector<std::size_t>& work_;
  const std::vector<std::string_view>& class_names_;
  bool fused_ = false;
  AttentionStream found_;
  std::unordered_map<std::string_view, std::uint32_t> numbers_;
};

}  // namespace

AttentionStream attention_stream(const Trace& trace, const std::vector<std::size_t>& work,
                                 const std::vector<std::string_view>& class_names) {
  return StreamReader(trace, work, class_names).read();
}

std::vector<std::pair<std::size_t, std::size_t>> join_recomputed(AttentionStream& stream) {
  std::vector<std::pair<std::size_t, std::size_t>> joined;
  std::vector<Anchor> anchors;
  for (const Anchor& anchor : stream.anchors) {
    const bool after_recomputed = !anchors.empty() && anchors.back().kind == Attention::recomputed;
    bool gemm = false;
    for (std::size_t item = after_recomputed ? anchors.back().last : anchor.first; item < anchor.first; ++item)
      gemm = gemm || stream.is_gemm(item);
    if (!after_recomputed || gemm || anchor.kind != Attention::backward) {
      anchors.push_back(anchor);
      continue;
    }
    joined.emplace_back(anchors.back().first, anchors.back().last);
    anchors.back() = {joined.back().first, anchor.last, Attention::backward};
  }
  stream.anchors = std::move(anchors);
  return joined;
}

void mark_recomputed(std::vector<Anchor>& anchors, bool whole) {
  const auto backwards = static_cast<std::size_t>(std::ranges::count(anchors, Attention::backward, &Anchor::kind));
  if (backwards == 0 || anchors.size() <= 2 * backwards) return;
  std::size_t more = anchors.size() - 2 * backwards;
  std::vector<Run> runs = runs_of(anchors, true);
  // Forwards in a run that is no longer than the backwards behind it, while as many forwards wait for theirs.
  std::size_t waiting = 0, marked = 0;
  std::vector<std::size_t> longer;  // other runs
  for (std::size_t r = 0; r + 1 < runs.size(); ++r) {
    const std::size_t size = runs[r].anchors.size(), behind = runs[r + 1].anchors.size();
    if (runs[r].backward) {
      waiting -= std::min(waiting, size);
    } else if (size <= behind && waiting >= size && size <= more && (whole || size == 1)) {
      mark_last(runs[r], size);
      more -= size;
      marked += size;
    } else {
      waiting += size;
      if (size > behind) longer.push_back(r);
    }
  }
  constexpr std::size_t parts = 5;  // without such runs, at least four fifths of the layers must run again
  if (marked == 0 && (!whole || parts * more < (parts - 1) * backwards)) return;
  for (const std::size_t r : longer) {
    const std::size_t behind = runs[r + 1].anchors.size();
    if (behind > more) continue;
    mark_last(runs[r], behind);
    more -= behind;
  }
}

OrderSummary number_layers(std::vector<Anchor>& anchors, const Symbols& symbols, bool whole, bool passes_end) {
  OrderSummary passes;
  passes.recomputes =
      std::ranges::any_of(anchors, [](const Anchor& anchor) { return anchor.kind == Attention::recomputed; });
  const std::vector<Run> runs = runs_of(anchors, false);
  if (runs.empty()) return passes;
  constexpr std::size_t few = 2;  // runs
  std::span<const Run> uncut = runs;
  if (!whole && uncut.size() > few) uncut = uncut.first(uncut.size() - 1);
  if (uncut.front().backward && uncut.size() > few) uncut = uncut.subspan(1);
  const std::size_t usual = common_length(uncut, passes.regular);
  passes.ambiguous = !passes.recomputes && runs.size() > few && usual == 1 && !passes_end;
  if (passes.ambiguous) return passes;
  const std::size_t length = shortest_period(runs, usual, symbols);
  passes.layers = static_cast<int>(length);
  for (const Run& run : runs) {
    int& count = run.backward ? passes.backward_passes : passes.forward_passes;
    // What is cut off at the beginning is missing from the first pass.
    const std::size_t missing = &run == &runs.front() ? (length - run.anchors.size() % length) % length : 0;
    for (std::size_t i = 0; i < run.anchors.size(); ++i) {
      count += i == 0 || (i + missing) % length == 0 ? 1 : 0;
      const auto place = static_cast<int>((i + missing) % length);
      run.anchors[i]->layer = run.backward ? passes.layers - 1 - place : place;
      run.anchors[i]->pass = count - 1;
    }
  }
  number_recomputed(anchors);
  return passes;
}

}  // namespace plumbline::calibrate
