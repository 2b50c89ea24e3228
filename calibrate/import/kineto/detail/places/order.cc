#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>

#include "calibrate/import/kineto/detail/places/places.h"
#include "model/base/statistics.h"

namespace plumbline::calibrate {
namespace {

using Region = std::span<const std::uint32_t>;

std::size_t common_prefix(Region a, Region b) {
  const auto [end, ignored] = std::ranges::mismatch(a, b);
  return static_cast<std::size_t>(end - a.begin());
}

std::size_t common_suffix(Region a, Region b) {
  std::size_t count = 0;
  while (count < std::min(a.size(), b.size()) && a[a.size() - 1 - count] == b[b.size() - 1 - count]) ++count;
  return count;
}

// Finds where passes of a step end: behind the loss, or where a message to another pipeline stage starts.
class PassEnds {
 public:
  // `class_names` has the class of each piece of work. The arguments must outlive the object.
  PassEnds(const Trace& trace, const std::vector<std::size_t>& work, const std::vector<std::string_view>& class_names,
           const AttentionStream& stream)
      : trace_(trace), work_(work), class_names_(class_names), stream_(stream) {
    for (std::size_t i = 0; i < work.size(); ++i)
      if (class_names[i] == "send_receive") messages_ns_.push_back(trace.work[work[i]].start_ns);
    std::ranges::sort(messages_ns_);
  }

  // Returns the first of the stream's kernels [first, end) behind a loss; `first` where there is none.
  std::size_t behind_loss(std::size_t first, std::size_t end) const {
    std::size_t split = first;
    for (std::size_t item = first; item < end; ++item) {
      const std::size_t i = stream_.items[item];
      const std::string& name = trace_.names.text(trace_.work[work_[i]].name);
      if (class_names_[i] == "loss" && name.find("ackward") == std::string::npos) split = item + 1;
    }
    return split;
  }

  // Returns the first of these kernels behind the start of the first message after kernel `first` - 1; `first` where
  // there is none.
  std::size_t behind_message(std::size_t first, std::size_t end) const {
    const auto piece = [this](std::size_t item) -> const GpuWork& { return trace_.work[work_[stream_.items[item]]]; };
    const GpuWork& last = piece(first - 1);
    const auto sent = std::ranges::lower_bound(messages_ns_, last.end_ns());
    if (sent == messages_ns_.end()) return first;
    std::size_t split = first;
    while (split < end && piece(split).start_ns < *sent) ++split;
    return split == end ? first : split;
  }

  // Returns whether a pass ends in front of each backward that follows a forward. Then attention that alternates is of
  // passes of one layer, not of overlapped ones. False for a step with experts, whose tokens may be messages, too.
  bool between_directions() const {
    constexpr std::array<std::string_view, 4> of_experts = {"dispatch_kernel", "combine_kernel", "permute",
                                                            "router_topk"};
    const auto expert = [&](std::string_view kind) { return std::ranges::find(of_experts, kind) != of_experts.end(); };
    if (std::ranges::any_of(class_names_, expert)) return false;
    const std::vector<Anchor>& anchors = stream_.anchors;
    for (std::size_t a = 0; a + 1 < anchors.size(); ++a) {
      if (anchors[a].kind != Attention::forward || anchors[a + 1].kind != Attention::backward) continue;
      const std::size_t first = anchors[a].last + 1, end = anchors[a + 1].first;
      if (behind_loss(first, end) == first && behind_message(first, end) == first) return false;
    }
    return true;
  }

 private:
  const Trace& trace_;
  const std::vector<std::size_t>& work_;
  const std::vector<std::string_view>& class_names_;
  const AttentionStream& stream_;
  std::vector<std::int64_t> messages_ns_;  // when messages start, ascending
};

// Gives the kernels of the stream with the attention of a step their places.
class OrderedStream {
 public:
  OrderedStream(const Trace& trace, const std::vector<std::size_t>& work,
                const std::vector<std::string_view>& class_names)
      : trace_(trace),
        work_(work),
        class_names_(class_names),
        stream_(attention_stream(trace, work, class_names)),
        ends_(trace, work, class_names, stream_),
        anchors_(stream_.anchors),
        items_(stream_.items) {}

  OrderSummary place() {
    if (anchors_.empty()) return {};
    const bool whole = first_optimizer() < items_.size();
    mark_recomputed(anchors_, whole);
    const auto joined = join_recomputed(stream_);
    const bool passes_end = ends_.between_directions();
    OrderSummary summary = number_layers(anchors_, stream_.symbols, whole, passes_end);
    guesses_.resize(items_.size());
    layers_ = summary.layers;
    summary.recomputes = summary.recomputes || !joined.empty();
    for (const Anchor& anchor : anchors_) fill(anchor.first, anchor.last + 1, of(anchor));
    for (const auto& [first, last] : joined)
      for (std::size_t item = first; item <= last; ++item) guesses_[item].recomputed = true;
    if (summary.ambiguous || !summary.regular) return summary;
    if (layers_ == 1 && passes_end) {
      place_single_layers();
    } else {
      measure_parts();
      place_between();
    }
    fill(first_optimizer(), items_.size(), {.optimizer = true});
    return summary;
  }

  // The pieces of work of the stream, by start, and the place of each.
  const std::vector<std::size_t>& items() const { return items_; }
  const Places& guesses() const { return guesses_; }

 private:
  const GpuWork& piece(std::size_t i) const { return trace_.work[work_[i]]; }
  std::string_view kind(std::size_t item) const { return class_names_[items_[item]]; }

  static Place of(const Anchor& anchor) {
    const bool forward = anchor.kind == Attention::forward;
    return {forward ? "F" : "B", anchor.layer, anchor.pass, anchor.kind == Attention::recomputed};
  }

  void fill(std::size_t first, std::size_t end, const Place& guess) {
    for (std::size_t item = first; item < end; ++item) guesses_[item] = guess;
  }

  Region region(std::size_t first, std::size_t end) const {
    return Region(stream_.symbols).subspan(first, end - first);
  }
  // Returns what is between an anchor and the next.
  Region after(std::size_t a) const { return region(anchors_[a].last + 1, anchors_[a + 1].first); }

  // Returns whether two anchors are consecutive layers of a pass, in this direction.
  bool within(std::size_t a, bool backward) const {
    const Anchor &one = anchors_[a], &next = anchors_[a + 1];
    const bool same = (one.kind == Attention::backward) == backward && (next.kind == Attention::backward) == backward;
    return same && one.kind == next.kind && one.pass == next.pass;
  }

  // Returns the most frequent work between two layers of a pass; empty where no pass has two.
  Region usual(bool backward) const {
    std::map<std::vector<std::uint32_t>, std::pair<int, std::size_t>> counts;
    for (std::size_t a = 0; a + 1 < anchors_.size(); ++a)
      if (within(a, backward)) {
        const Region found = after(a);
        auto& [count, where] = counts[{found.begin(), found.end()}];
        ++count;
        where = a;
      }
    if (counts.empty()) return {};
    return after(
        std::ranges::max_element(counts, {}, [](const auto& entry) { return entry.second.first; })->second.second);
  }

  // Returns how many of the last `count` kernels between two forward layers there are from the first norm on, with
  // which layers begin; `count` where there is none.
  std::size_t from_norm(std::size_t count) const {
    for (std::size_t found = count; found > 0; --found)
      if (stream_.norm_symbols.contains(forward_[forward_.size() - found])) return found;
    return count;
  }

  // Returns how many kernels behind the last backward layer of a pass are those that follow its attention. Where GEMMs
  // go on there, which are weight gradients that were put off, none of them counts.
  std::size_t attention_end(Region found) const {
    std::size_t end = common_prefix(found, backward_);
    if (end < found.size() && stream_.gemm_symbols.contains(found[end]))
      while (end > 0 && stream_.gemm_symbols.contains(found[end - 1])) --end;
    return end;
  }

  // Finds how many kernels in front of a forward attention, and behind a backward one, belong to its layer: those of
  // the layer's attention, which are the same whatever else the layer has.
  void measure_parts() {
    forward_ = usual(false);
    backward_ = usual(true);
    std::vector<std::size_t> before, behind;
    if (anchors_.front().kind == Attention::forward)
      before.push_back(common_suffix(region(0, anchors_.front().first), forward_));
    for (std::size_t a = 0; a + 1 < anchors_.size(); ++a)
      if (anchors_[a].kind == Attention::backward && anchors_[a + 1].kind == Attention::forward) {
        before.push_back(common_suffix(after(a), forward_));
        behind.push_back(attention_end(after(a)));
      }
    if (anchors_.back().kind == Attention::backward)
      behind.push_back(attention_end(region(anchors_.back().last + 1, items_.size())));
    forward_before_ = from_norm(before.empty() ? 0 : model::upper_median(before));
    if (backward_.empty()) {  // each backward is followed by the forward of another layer that runs again
      behind.clear();
      for (std::size_t a = 0; a + 1 < anchors_.size(); ++a)
        if (anchors_[a].kind == Attention::backward && anchors_[a + 1].kind == Attention::recomputed)
          behind.push_back(after(a).size() - std::min(after(a).size(), forward_before_));
    }
    backward_behind_ = behind.empty() ? 0 : model::upper_median(behind);
  }

  // Returns how many of the `space` kernels in front of an anchor belong to its layer.
  std::size_t before(const Anchor& anchor, std::size_t space) const {
    if (anchor.kind != Attention::backward) return std::min(space, forward_before_);
    const std::size_t most = backward_.size() - std::min(backward_.size(), backward_behind_);
    return std::min(most, common_suffix(region(anchor.first - space, anchor.first), backward_));
  }

  // Returns how many of the `space` kernels behind an anchor belong to its layer.
  std::size_t behind(const Anchor& anchor, std::size_t space) const {
    if (anchor.kind == Attention::backward) return std::min(space, backward_behind_);
    const std::size_t most = forward_.size() - std::min(forward_.size(), forward_before_);
    return std::min(most, common_prefix(region(anchor.last + 1, anchor.last + 1 + space), forward_));
  }

  void place_between() {
    const std::size_t start = anchors_.front().first - before(anchors_.front(), anchors_.front().first);
    fill(start, anchors_.front().first, of(anchors_.front()));
    if (anchors_.front().kind == Attention::forward) fill(0, start, {"F", -1, anchors_.front().pass});
    for (std::size_t a = 0; a + 1 < anchors_.size(); ++a) place_between(anchors_[a], anchors_[a + 1]);
    const std::size_t end = anchors_.back().last + 1;
    const std::size_t rest = end + behind(anchors_.back(), items_.size() - end);
    fill(end, rest, of(anchors_.back()));
    if (anchors_.back().kind == Attention::backward) place_weights(rest, items_.size());
  }

  // Places what is between two anchors.
  void place_between(const Anchor& one, const Anchor& next) {
    const std::size_t first = one.last + 1, end = next.first, space = end - first;
    const bool from_backward = one.kind == Attention::backward;
    const bool to_forward = next.kind == Attention::forward;
    if (one.pass == next.pass && (one.kind == Attention::forward) == to_forward) {
      const std::size_t split = from_backward ? first + behind(one, space) : end - before(next, space);
      fill(first, split, of(one));
      fill(split, end, of(next));
      return;
    }
    const std::size_t rest = first + behind(one, space);
    const std::size_t second = end - before(next, end - rest);
    fill(first, rest, of(one));
    fill(second, end, of(next));
    if (from_backward) {
      place_weights(rest, second);
    } else if (to_forward) {
      if (missing_gemms() == 0 || !place_weights(rest, second)) fill(rest, second, {"F", -1, next.pass});
    } else {
      place_loss(rest, second, one, next);
    }
  }

  // Divides what is between the last forward layer and the first backward layer behind the loss, where there is one.
  void place_loss(std::size_t first, std::size_t end, const Anchor& one, const Anchor& next) {
    // Where no backward leaves GEMMs out, those behind a forward are the head's.
    if (missing_gemms() > 0 && place_weights(first, end)) return;
    const std::size_t split = ends_.behind_loss(first, end);
    if (split == first) return;  // not known
    fill(first, split, {"F", -1, one.pass});
    fill(split, end, {"B", -1, next.pass});
  }

  // Divides what is between the attentions of passes of one layer where a message between stages starts, or behind the
  // loss, before which the layer's end is not known.
  void place_single_layers() {
    if (anchors_.front().kind == Attention::forward) fill(0, anchors_.front().first, of(anchors_.front()));
    for (std::size_t a = 0; a + 1 < anchors_.size(); ++a) {
      const Anchor &one = anchors_[a], &next = anchors_[a + 1];
      const std::size_t first = one.last + 1, end = next.first;
      const std::size_t loss = ends_.behind_loss(first, end),
                        split = loss > first ? loss : ends_.behind_message(first, end);
      if (split == first) continue;
      Place before = of(one), behind = of(next);
      if (loss > first) before.layer = behind.layer = -1;
      fill(first, split, before);
      fill(split, end, behind);
    }
    if (anchors_.back().kind == Attention::backward) fill(anchors_.back().last + 1, items_.size(), of(anchors_.back()));
  }

  // Returns the GEMMs of a layer that its backward leaves out: it has two for each of the forward.
  std::size_t missing_gemms() const {
    const auto gemms = [this](Region part) {
      return static_cast<std::size_t>(
          std::ranges::count_if(part, [this](std::uint32_t symbol) { return stream_.gemm_symbols.contains(symbol); }));
    };
    const std::size_t all = 2 * gemms(forward_), own = gemms(backward_);
    return own == 0 || own > all ? 0 : all - own;
  }

  // Places weight gradients that were put off, if these are such: GEMMs for most of the time, as many as some passes
  // leave out. Layers descend, as in the backward.
  bool place_weights(std::size_t first, std::size_t end) {
    constexpr double most = 0.8;
    double all = 0, gemms = 0;
    std::vector<std::size_t> found;
    for (std::size_t item = first; item < end && kind(item) != "optimizer"; ++item) {
      const auto duration = static_cast<double>(piece(items_[item]).duration_ns);
      all += duration;
      if (!stream_.is_gemm(item)) continue;
      gemms += duration;
      found.push_back(item);
    }
    if (found.empty() || gemms < most * all) return false;
    fill(first, end, {"W", -1, -1});
    const std::size_t of_layer = missing_gemms(), of_pass = of_layer * static_cast<std::size_t>(layers_);
    // The head of the model may precede the layers of a pass.
    const std::size_t others = of_pass == 0 ? 0 : found.size() % of_pass;
    if (of_pass == 0 || found.size() < of_pass || (others != 0 && found.size() - others != of_pass)) return true;
    if (others >= of_layer) return true;
    for (std::size_t i = others; i < found.size(); ++i) {
      const auto layer = layers_ - 1 - static_cast<int>((i - others) % of_pass / of_layer);
      fill(found[i], i + 1 < found.size() ? found[i + 1] : end, {"W", layer, -1});
    }
    return true;
  }

  // Returns the first kernel of the optimizer behind the last attention; the number of kernels where there is none.
  std::size_t first_optimizer() const {
    std::size_t item = anchors_.back().last + 1;
    while (item < items_.size() && kind(item) != "optimizer") ++item;
    return item;
  }

  const Trace& trace_;
  const std::vector<std::size_t>& work_;
  const std::vector<std::string_view>& class_names_;
  AttentionStream stream_;
  PassEnds ends_;
  std::vector<Anchor>& anchors_;
  const std::vector<std::size_t>& items_;
  int layers_ = 0;  // of a pass
  Places guesses_;
  Region forward_, backward_;                             // what is usual between two layers of a pass
  std::size_t forward_before_ = 0, backward_behind_ = 0;  // kernels of a layer's attention
};

// Takes from a guess what is unknown, unless the phase that is known is another one.
void complete(Place& place, const Place& guess) {
  place.optimizer = place.optimizer || guess.optimizer;
  if (guess.phase.empty() || place.optimizer) return;
  const bool backward = place.phase == "B" || place.phase == "I" || place.phase == "W";
  if (!place.phase.empty() && backward != (guess.phase != "F")) return;
  if (place.phase.empty()) {
    place.phase = guess.phase;
    place.phase_by = PlacedBy::order;
  }
  if (place.layer_by == PlacedBy::none && guess.layer >= 0) {
    place.layer = guess.layer;
    place.layer_by = PlacedBy::order;
  }
  if (place.pass < 0) place.pass = guess.pass;
  // Autograd states which forward operators ran within a step of the backward.
  if (place.phase_by != PlacedBy::autograd) place.recomputed = place.recomputed || guess.recomputed;
}

// Returns when each piece was launched. Without a launch it is taken to follow the launch in front of it on its stream,
// or, where there is none, to be launched as it starts.
std::vector<std::int64_t> issue_times(const Trace& trace, const std::vector<std::size_t>& work) {
  std::vector<std::optional<std::int64_t>> launched(work.size());
  for (const Moment& moment : launch_moments(trace, work)) launched[moment.asker] = moment.time_ns;
  std::unordered_map<int, std::int64_t> last;  // by stream
  std::vector<std::int64_t> times;
  for (std::size_t i = 0; i < work.size(); ++i) {
    const GpuWork& piece = trace.work[work[i]];
    if (launched[i]) last[piece.stream] = *launched[i];
    const auto before = last.find(piece.stream);
    times.push_back(before == last.end() ? piece.start_ns : before->second);
  }
  return times;
}

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

}  // namespace

OrderSummary place_by_order(const Trace& trace, const std::vector<std::size_t>& work,
                            const std::vector<std::string_view>& class_names, Places& places) {
  OrderedStream stream(trace, work, class_names);
  const OrderSummary summary = stream.place();
  if (stream.guesses().empty()) return summary;
  const std::vector<std::int64_t> issued = issue_times(trace, work);
  std::vector<const Place*> known(work.size(), nullptr);
  for (std::size_t item = 0; item < stream.items().size(); ++item)
    known[stream.items()[item]] = &stream.guesses()[item];
  std::vector<std::size_t> order(work.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return issued[i]; });
  const Place* last = nullptr;
  for (const std::size_t i : order) {
    if (known[i] != nullptr) last = known[i];
    if (last != nullptr && (known[i] != nullptr || !summary.ambiguous)) complete(places[i], *last);
  }
  return summary;
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
