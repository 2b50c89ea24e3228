#include <algorithm>
#include <limits>
#include <map>
#include <span>
#include <unordered_map>
#include <utility>

#include "calibrate/import/kineto/detail/anchors.h"
#include "calibrate/import/kineto/detail/enclosing.h"
#include "calibrate/import/kineto/detail/places.h"

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

template <class T>
T median(std::vector<T> values) {
  if (values.empty()) return {};
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

// The place that order gives a kernel.
struct Guess {
  std::string_view phase;
  int layer = -1, pass = -1;
  bool recomputed = false, optimizer = false;
};

// The kernels of the stream with the attention of a step.
class MainStream {
 public:
  MainStream(const Trace& trace, const std::vector<std::size_t>& work, const std::vector<std::string_view>& class_names)
      : trace_(trace), work_(work), class_names_(class_names) {
    choose_stream();
    for (std::size_t i = 0; i < work.size(); ++i)
      if (piece(i).stream == stream_ && !piece(i).copy) add(i);
    find_anchors();
  }

  OrderSummary place() {
    OrderSummary summary;
    if (anchors_.empty()) return summary;
    const bool whole = first_optimizer() < items_.size();
    mark_recomputed(anchors_, whole);
    const Passes passes = number_layers(anchors_, symbols_, whole);
    summary = {passes.layers, passes.forward, passes.backward, passes.recomputes, passes.regular, passes.ambiguous};
    guesses_.resize(items_.size());
    for (const Anchor& anchor : anchors_) fill(anchor.first, anchor.last + 1, of(anchor));
    if (!passes.ambiguous && passes.regular) {
      measure_parts();
      place_between();
    }
    return summary;
  }

  // The pieces of work of the stream, by start, and the place of each.
  const std::vector<std::size_t>& items() const { return items_; }
  const std::vector<Guess>& guesses() const { return guesses_; }

 private:
  const GpuWork& piece(std::size_t i) const { return trace_.work[work_[i]]; }

  // Returns the direction of an attention kernel: 1 forward, -1 backward, 0 none. Without a kernel of an attention
  // class, softmax kernels count.
  int direction(std::size_t i) const {
    const std::string_view kind = class_names_[i];
    if (kind == "attn_fwd") return 1;
    if (kind.starts_with("attn_bwd")) return -1;
    if (fused_ || kind == "loss") return 0;
    const std::string& name = trace_.names.text(piece(i).name);
    if (name.find("softmax") == std::string::npos) return 0;
    return name.find("ackward") == std::string::npos ? 1 : -1;
  }

  void choose_stream() {
    fused_ = std::ranges::any_of(class_names_, [](std::string_view kind) { return kind.starts_with("attn_"); });
    std::map<int, std::int64_t> attention_ns;
    for (std::size_t i = 0; i < work_.size(); ++i)
      if (direction(i) != 0) attention_ns[piece(i).stream] += piece(i).duration_ns + 1;
    if (attention_ns.empty()) return;
    stream_ = std::ranges::max_element(attention_ns, {}, [](const auto& entry) { return entry.second; })->first;
  }

  void add(std::size_t i) {
    items_.push_back(i);
    const std::string_view kind = class_names_[i].empty() ? trace_.names.text(piece(i).name) : class_names_[i];
    symbols_.push_back(numbers_.try_emplace(kind, static_cast<std::uint32_t>(numbers_.size())).first->second);
  }

  std::string_view kind(std::size_t item) const { return class_names_[items_[item]]; }
  bool is_gemm(std::size_t item) const { return kind(item).find("gemm") != std::string_view::npos; }

  void find_anchors() {
    bool gemm = true;  // since the last anchor
    for (std::size_t item = 0; item < items_.size(); ++item) {
      gemm = gemm || is_gemm(item);
      const int way = direction(items_[item]);
      if (way == 0) continue;
      const Attention found = way > 0 ? Attention::forward : Attention::backward;
      if (gemm || anchors_.empty() || anchors_.back().kind != found) anchors_.push_back({item, item, found});
      anchors_.back().last = item;
      gemm = false;
    }
  }

  static Guess of(const Anchor& anchor) {
    const bool forward = anchor.kind == Attention::forward;
    return {forward ? "F" : "B", anchor.layer, anchor.pass, anchor.kind == Attention::recomputed};
  }

  void fill(std::size_t first, std::size_t end, const Guess& guess) {
    for (std::size_t item = first; item < end; ++item) guesses_[item] = guess;
  }

  Region region(std::size_t first, std::size_t end) const { return Region(symbols_).subspan(first, end - first); }
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

  // Finds how many kernels of a layer come before and behind its attention.
  void measure_parts() {
    forward_ = usual(false);
    backward_ = usual(true);
    std::vector<std::size_t> before_forward, before_backward;
    if (anchors_.front().kind == Attention::forward)
      before_forward.push_back(common_suffix(region(0, anchors_.front().first), forward_));
    for (std::size_t a = 0; a + 1 < anchors_.size(); ++a) {
      const bool from_backward = anchors_[a].kind == Attention::backward;
      const bool to_backward = anchors_[a + 1].kind == Attention::backward;
      if (from_backward && !to_backward) before_forward.push_back(common_suffix(after(a), forward_));
      if (!from_backward && to_backward) before_backward.push_back(common_suffix(after(a), backward_));
    }
    forward_before_ = median(before_forward);
    if (backward_.empty()) {  // each backward follows its recomputed forward
      const std::size_t behind = forward_.size() - forward_before_;
      std::vector<std::size_t> before, after_it;
      for (std::size_t a = 0; a + 1 < anchors_.size(); ++a) {
        const std::size_t size = after(a).size();
        if (anchors_[a].kind == Attention::recomputed && size > behind) before.push_back(size - behind);
        if (anchors_[a + 1].kind == Attention::recomputed && anchors_[a].kind == Attention::backward &&
            size > forward_before_)
          after_it.push_back(size - forward_before_);
      }
      backward_before_ = median(before);
      backward_behind_ = median(after_it);
    } else {
      backward_before_ = median(before_backward);
      backward_behind_ = backward_.size() - backward_before_;
    }
  }

  // Returns how many kernels in front of `end` belong to the layer of the anchor there.
  std::size_t before(const Anchor& anchor, std::size_t space) const {
    return std::min(space, anchor.kind == Attention::backward ? backward_before_ : forward_before_);
  }

  // Returns how many kernels from `first` on belong to the layer of the anchor in front of it, at most `space`.
  std::size_t behind(const Anchor& anchor, std::size_t first, std::size_t space) const {
    const bool backward = anchor.kind == Attention::backward;
    const Region usual = backward ? backward_ : forward_;
    const std::size_t most = std::min(space, backward ? backward_behind_ : forward_.size() - forward_before_);
    return usual.empty() ? most : std::min(most, common_prefix(region(first, first + space), usual));
  }

  void place_between() {
    const std::size_t start = anchors_.front().first - before(anchors_.front(), anchors_.front().first);
    fill(start, anchors_.front().first, of(anchors_.front()));
    if (anchors_.front().kind == Attention::forward) fill(0, start, {"F", -1, anchors_.front().pass});
    for (std::size_t a = 0; a + 1 < anchors_.size(); ++a) place_between(anchors_[a], anchors_[a + 1]);
    const std::size_t end = anchors_.back().last + 1;
    const std::size_t rest = end + behind(anchors_.back(), end, items_.size() - end);
    fill(end, rest, of(anchors_.back()));
    place_rest(rest, items_.size(), anchors_.back());
    fill(first_optimizer(), items_.size(), {.optimizer = true});
  }

  // Places what is between two anchors.
  void place_between(const Anchor& one, const Anchor& next) {
    const std::size_t first = one.last + 1, space = next.first - first;
    const std::size_t second = next.first - before(next, space);
    fill(second, next.first, of(next));
    const bool from_backward = one.kind == Attention::backward, to_backward = next.kind == Attention::backward;
    const bool to_recomputed = next.kind == Attention::recomputed;
    const bool forward_run = one.kind == Attention::forward && next.kind == Attention::forward;
    const bool backward_run = one.kind != Attention::forward && (to_backward || to_recomputed);
    if ((forward_run || backward_run) && one.pass == next.pass) return fill(first, second, of(one));
    const std::size_t rest = first + behind(one, first, second - first);
    fill(first, rest, of(one));
    if (forward_run) return fill(rest, second, {"F", -1, next.pass});
    if (from_backward) return place_rest(rest, second, one);
    if (to_backward || to_recomputed) place_loss(rest, second, one, next);
  }

  // Divides what is between the last forward layer and the first backward layer behind the loss, where there is one.
  void place_loss(std::size_t first, std::size_t end, const Anchor& one, const Anchor& next) {
    std::size_t split = first;
    for (std::size_t item = first; item < end; ++item)
      if (kind(item) == "loss" && trace_.names.text(piece(items_[item]).name).find("ackward") == std::string::npos)
        split = item + 1;
    if (split == first) return;  // not known
    fill(first, split, {"F", -1, one.pass});
    fill(split, end, {"B", -1, next.pass});
  }

  // Places what follows the layers of a backward: weight gradients that were put off are GEMMs; anything else in front
  // of the next forward is not known.
  void place_rest(std::size_t first, std::size_t end, const Anchor& one) {
    constexpr double most = 0.8;
    if (one.kind != Attention::backward) return;
    double all = 0, gemms = 0;
    for (std::size_t item = first; item < end && kind(item) != "optimizer"; ++item) {
      const auto duration = static_cast<double>(piece(items_[item]).duration_ns);
      all += duration;
      gemms += is_gemm(item) ? duration : 0;
    }
    if (gemms > 0 && gemms >= most * all) fill(first, end, {"W", -1, one.pass});
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
  bool fused_ = false;
  int stream_ = 0;
  std::vector<std::size_t> items_;
  Symbols symbols_;
  std::unordered_map<std::string_view, std::uint32_t> numbers_;
  std::vector<Anchor> anchors_;
  std::vector<Guess> guesses_;
  Region forward_, backward_;  // what is usual between two layers of a pass
  std::size_t forward_before_ = 0, backward_before_ = 0, backward_behind_ = 0;  // kernels of a layer
};

// Takes from a guess what is unknown, unless the phase that is known is another one.
void complete(Place& place, const Guess& guess) {
  place.optimizer = place.optimizer || guess.optimizer;
  if (guess.phase.empty() || place.optimizer) return;
  const bool backward = place.phase == "B" || place.phase == "I" || place.phase == "W";
  if (!place.phase.empty() && backward != (guess.phase != "F")) return;
  if (place.phase.empty()) {
    place.phase = guess.phase;
    place.phase_by = Evidence::order;
  }
  if (place.layer_by == Evidence::none && guess.layer >= 0) {
    place.layer = guess.layer;
    place.layer_by = Evidence::order;
  }
  if (place.pass < 0) place.pass = guess.pass;
  place.recomputed = place.recomputed || guess.recomputed;
}

// Returns when each piece was launched. Without a launch it is taken to follow the piece in front of it on its stream,
// or, of the first ones, to be launched as it starts.
std::vector<std::int64_t> issue_times(const Trace& trace, const std::vector<std::size_t>& work) {
  constexpr std::int64_t none = std::numeric_limits<std::int64_t>::min();
  std::vector<std::int64_t> times(work.size(), none);
  for (const Moment& moment : launch_moments(trace, work)) times[moment.asker] = moment.time_ns;
  std::unordered_map<int, std::int64_t> last;  // by stream
  for (std::size_t i = 0; i < work.size(); ++i) {
    const GpuWork& piece = trace.work[work[i]];
    const auto [before, first] = last.try_emplace(piece.stream, piece.start_ns);
    if (times[i] == none) times[i] = before->second;
    before->second = times[i];
  }
  return times;
}

}  // namespace

OrderSummary place_by_order(const Trace& trace, const std::vector<std::size_t>& work,
                            const std::vector<std::string_view>& class_names, Places& places) {
  MainStream stream(trace, work, class_names);
  const OrderSummary summary = stream.place();
  if (stream.guesses().empty()) return summary;
  const std::vector<std::int64_t> issued = issue_times(trace, work);
  std::vector<const Guess*> known(work.size(), nullptr);
  for (std::size_t item = 0; item < stream.items().size(); ++item)
    known[stream.items()[item]] = &stream.guesses()[item];
  std::vector<std::size_t> order(work.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return issued[i]; });
  const Guess* last = nullptr;
  for (const std::size_t i : order) {
    if (known[i] != nullptr) last = known[i];
    if (last != nullptr && (known[i] != nullptr || !summary.ambiguous)) complete(places[i], *last);
  }
  return summary;
}

}  // namespace plumbline::calibrate
