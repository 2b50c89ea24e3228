#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>

#include "calibrate/match/detail/comparing.h"
#include "calibrate/match/detail/matching.h"
#include "calibrate/match/trace_comparison.h"
#include "model/result/comparison.h"

namespace plumbline::calibrate {
namespace {

using Items = std::vector<MatchItem>;

// The gain of a match of transfers of one kind: by when they ran, on the clock of the prediction.
class TransferScore {
 public:
  TransferScore(const Items& predicted, const Items& measured, double tolerance)
      : predicted_(predicted), measured_(measured), tolerance_(tolerance) {}
  bool same(std::size_t i, std::size_t j) const { return std::abs(apart(i, j)) < 1; }
  double operator()(std::size_t i, std::size_t j) const {
    constexpr double gain = 2, most = 1.8;
    return gain - std::min(most, std::abs(apart(i, j)));
  }

 private:
  double apart(std::size_t i, std::size_t j) const {
    return (measured_[j].start_s - predicted_[i].start_s) / tolerance_;
  }
  const Items& predicted_;
  const Items& measured_;
  double tolerance_;
};

// Turns times of the trace into times of the prediction, by kernels that match.
class StepClock {
 public:
  void add(double measured_s, double predicted_s) {
    if (points_.empty() || (measured_s > points_.back().first && predicted_s >= points_.back().second))
      points_.emplace_back(measured_s, predicted_s);
  }
  double at(double measured_s) const {
    if (points_.empty()) return measured_s;
    const auto after = std::ranges::upper_bound(points_, measured_s, {}, &std::pair<double, double>::first);
    if (after == points_.begin()) return points_.front().second - (points_.front().first - measured_s);
    const auto before = std::prev(after);
    if (after == points_.end()) return before->second + measured_s - before->first;
    const double share = (measured_s - before->first) / (after->first - before->first);
    return before->second + share * (after->second - before->second);
  }

 private:
  std::vector<std::pair<double, double>> points_;
};

class StepMatcher {
 public:
  StepMatcher(const model::Timeline& predicted, std::int32_t rank, const model::Timeline& measured)
      : predicted_(predicted),
        measured_(measured),
        predicted_items_(match_items(predicted, rank)),
        measured_items_(match_items(measured, {})) {
    result_.predicted_of.assign(measured.spans.size(), -1);
    result_.by.assign(measured.spans.size(), MatchedBy::nothing);
    result_.measured_of.assign(predicted.spans.size(), -1);
    name_layers();
    name_operators();
  }

  StepMatch run() {
    const auto computes = [](const MatchItem& item) { return !item.communicates; };
    match_compute(chosen(predicted_items_, computes), chosen(measured_items_, computes), result_);
    match_transfers();
    for (const MatchItem& item : measured_items_) {
      const auto span = static_cast<std::size_t>(item.span);
      result_.all_s += item.seconds;
      const MatchedBy by = result_.by[span];
      if (by == MatchedBy::order || by == MatchedBy::other_order) result_.matched_s += item.seconds;
      if (by == MatchedBy::other_order) result_.reordered_s += item.seconds;
      if (by == MatchedBy::neighbors) result_.placed_s += item.seconds;
    }
    return std::move(result_);
  }

 private:
  // Layers of a trace count within a chunk. They are those of the model where the rank has one chunk with as many.
  void name_layers() {
    std::set<std::int32_t> layers;
    std::int32_t most = -1;
    for (const MatchItem& item : predicted_items_)
      if (item.layer >= 0) layers.insert(item.layer);
    for (const MatchItem& item : measured_items_) most = std::max(most, item.layer);
    const bool one_chunk = std::cmp_equal(layers.size(), most + 1);
    const std::vector<std::int32_t> names(layers.begin(), layers.end());
    for (MatchItem& item : measured_items_)
      item.layer = one_chunk && item.layer >= 0 ? names[static_cast<std::size_t>(item.layer)] : -1;
  }

  void name_operators() {
    const OperatorNames names(predicted_);
    for (MatchItem& item : predicted_items_) item.named = names.predicted(static_cast<std::size_t>(item.span));
    for (MatchItem& item : measured_items_)
      item.named = names.measured(measured_.kernel_of(measured_.spans[static_cast<std::size_t>(item.span)]));
  }

  void match_transfers() {
    StepClock clock;
    for (const MatchItem& item : measured_items_) {
      const auto span = static_cast<std::size_t>(item.span);
      const std::int32_t own = result_.predicted_of[span];
      if (item.communicates || result_.by[span] != MatchedBy::order) continue;
      clock.add(item.start_s, static_cast<double>(predicted_.spans[static_cast<std::size_t>(own)].start_ps) * 1e-12);
    }
    std::map<std::string, std::pair<Items, Items>> kinds;
    for (const MatchItem& item : predicted_items_)
      if (item.communicates) kinds[item.transfer].first.push_back(item);
    for (MatchItem item : measured_items_) {
      if (!item.communicates) continue;
      item.start_s = clock.at(item.start_s);
      kinds[item.transfer].second.push_back(item);
    }
    std::pair<Items, Items> rest;
    for (const auto& [kind, items] : kinds) {
      match_kind(items.first, items.second);
      const auto left = [this](const Items& all, const std::vector<std::int32_t>& of, Items& into) {
        for (const MatchItem& item : all)
          if (of[static_cast<std::size_t>(item.span)] < 0) into.push_back(item);
      };
      left(items.first, result_.measured_of, rest.first);
      left(items.second, result_.predicted_of, rest.second);
    }
    // Other algorithms of collectives than predicted, and names that state none.
    for (Items* items : {&rest.first, &rest.second}) std::ranges::stable_sort(*items, {}, &MatchItem::start_s);
    match_kind(rest.first, rest.second);
  }

  void match_kind(const Items& predicted, const Items& measured) {
    if (predicted.empty() || measured.empty()) return;
    constexpr double share_of_step = 0.02;
    const double tolerance = std::max(1e-6, share_of_step * static_cast<double>(predicted_.end_ps) * 1e-12);
    const TransferScore score(predicted, measured, tolerance);
    add_matches(align(predicted.size(), measured.size(), score), predicted, measured, MatchedBy::order, result_);
  }

  const model::Timeline& predicted_;
  const model::Timeline& measured_;
  Items predicted_items_, measured_items_;  // by start
  StepMatch result_;
};

constexpr std::size_t no_position = static_cast<std::size_t>(-1);

// A score by which kernels match one by one, and only those of one class that nothing speaks against.
class PairScore {
 public:
  explicit PairScore(const ComputeScore& score) : score_(score) {}
  static bool same(std::size_t, std::size_t) { return false; }
  double operator()(std::size_t i, std::size_t j) const {
    constexpr double least = 1, never = -1e9;
    const double gain = score_(i, j);
    return gain >= least ? gain : never;
  }

 private:
  const ComputeScore& score_;
};

// Whether one stands for several.
bool joins(const Alignment& alignment) {
  const auto matched = [](const std::vector<std::int32_t>& of) {
    return std::ranges::count_if(of, [](std::int32_t i) { return i >= 0; });
  };
  return matched(alignment.predicted_of) != matched(alignment.measured_of);
}

class ComputeMatcher {
 public:
  ComputeMatcher(const Items& predicted, const Items& measured, StepMatch& result)
      : predicted_(predicted), measured_(measured), result_(result) {
    for (std::size_t i = 0; i < predicted.size(); ++i) position_[predicted[i].span] = i;
    double seconds = 0, anchors = 0;
    for (const MatchItem& item : measured) {
      seconds += item.anchor() ? item.seconds : 0;
      anchors += item.anchor() ? 1 : 0;
    }
    constexpr double small = 0.05, most = 0.8;
    small_s_ = small * seconds / std::max(1.0, anchors);
    separate_ = gradient_share(measured) > 0 && gradient_share(measured) >= most * gradient_share(predicted);
  }

  void run() {
    match_anchors();
    match_left_over();
    match_between();
  }

 private:
  // Returns the share of weight gradients among GEMMs.
  static double gradient_share(const Items& items) {
    const auto gradients = std::ranges::count(items, MatchRow::weight_gradient, &MatchItem::row);
    const auto gemms = gradients + std::ranges::count(items, MatchRow::gemm, &MatchItem::row);
    return gemms > 0 ? static_cast<double>(gradients) / static_cast<double>(gemms) : 0;
  }

  // Whether what runs next to a kernel of the trace is predicted next to its match.
  bool locates(const MatchItem& item) const {
    return item.anchor() && !(separate_ && item.row == MatchRow::weight_gradient);
  }

  std::int32_t& predicted_of(const MatchItem& item) {
    return result_.predicted_of[static_cast<std::size_t>(item.span)];
  }
  std::int32_t& measured_of(const MatchItem& item) { return result_.measured_of[static_cast<std::size_t>(item.span)]; }

  MatchedBy& matched_by(const MatchItem& item) { return result_.by[static_cast<std::size_t>(item.span)]; }

  // Aligns GEMMs and attention. Weight gradients wait for nothing but their operands, and frameworks run them at places
  // of their own: where the trace separates them, they are aligned among themselves.
  void match_anchors() {
    double score = 0, places = 0, count = 0;
    const auto match = [&](const auto& wanted) {
      const Items first = chosen(predicted_, wanted), second = chosen(measured_, wanted);
      ComputeScore gain(first, second);
      Alignment alignment = align(first.size(), second.size(), gain);
      if (joins(alignment)) {
        gain.scale_gemms(alignment);
        alignment = align(first.size(), second.size(), gain);
      }
      score += alignment.score;
      for (std::size_t j = 0; j < second.size(); ++j) {
        const std::int32_t i = alignment.predicted_of[j];
        if (i >= 0 && !std::cmp_equal(alignment.measured_of[static_cast<std::size_t>(i)], j)) continue;  // it joins
        ++count;
        places += i >= 0 ? place_evidence(first[static_cast<std::size_t>(i)], second[j]) : 0;
      }
      add_matches(alignment, first, second, MatchedBy::order, result_);
    };
    match([this](const MatchItem& item) { return locates(item); });
    if (separate_) match([](const MatchItem& item) { return item.row == MatchRow::weight_gradient; });
    result_.score = score / std::max(1.0, count);
    result_.order_score = (score - places) / std::max(1.0, count);
  }

  // Aligns the GEMMs and attention that the order of the plan leaves out among themselves, again and again: they run in
  // another order.
  void match_left_over() {
    constexpr int most_rounds = 8;
    for (int round = 0; round < most_rounds; ++round) {
      const Items first = chosen(predicted_, [&](const MatchItem& i) { return i.anchor() && measured_of(i) < 0; });
      const Items second = chosen(measured_, [&](const MatchItem& j) { return j.anchor() && predicted_of(j) < 0; });
      if (first.empty() || second.empty()) return;
      const ComputeScore score(first, second);
      const Alignment alignment = align(first.size(), second.size(), PairScore(score));
      if (std::ranges::all_of(alignment.predicted_of, [](std::int32_t i) { return i < 0; })) return;
      add_matches(alignment, first, second, MatchedBy::other_order, result_);
    }
  }

  bool taken(std::size_t position) { return locates(predicted_[position]) && measured_of(predicted_[position]) >= 0; }

  // Returns the next position behind `from` with a GEMM or attention that another one of the trace matches, the number
  // of kernels where there is none.
  std::size_t next_taken(std::size_t from) {
    const std::int32_t own = from == no_position ? -1 : measured_of(predicted_[from]);
    std::size_t at = from == no_position ? 0 : from + 1;
    while (at < predicted_.size() && (!taken(at) || measured_of(predicted_[at]) == own)) ++at;
    return at;
  }

  // Adds the positions from one to the other, both included, of what was not matched yet of the predicted kernels.
  void add_free(std::size_t first, std::size_t last, std::vector<std::size_t>& into) {
    for (std::size_t at = first; at <= last && at < predicted_.size(); ++at)
      if (!predicted_[at].anchor() && measured_of(predicted_[at]) < 0 && std::ranges::find(into, at) == into.end())
        into.push_back(at);
  }

  // Returns the spans of predicted GEMMs that the trace runs as several with other work between them, such as gate and
  // up, with the activation of the gate in between. That work may belong in front of the GEMM or behind it.
  std::set<std::int32_t> find_divided() {
    std::map<std::int32_t, std::size_t> last;  // of a predicted span: index of its last kernel in the trace
    std::set<std::int32_t> divided;
    std::size_t work = 0;  // the last index with work
    for (std::size_t j = 0; j < measured_.size(); ++j) {
      const MatchItem& item = measured_[j];
      if (!item.anchor() && item.row != MatchRow::copy) work = j;
      if (!locates(item) || predicted_of(item) < 0) continue;
      const auto [part, first] = last.try_emplace(predicted_of(item), j);
      if (!first && work > part->second) divided.insert(predicted_of(item));
      part->second = j;
    }
    return divided;
  }

  // Matches what runs between two GEMMs or attentions of the trace with what is predicted behind the one and in front
  // of the other.
  void match_between() {
    const std::set<std::int32_t> divided = find_divided();
    std::size_t from = 0;
    std::vector<std::size_t> passed{no_position};  // where those since then are predicted, the first in front of `from`
    bool clean = true;                             // every GEMM and attention since then has its match
    for (std::size_t j = 0; j < measured_.size(); ++j) {
      if (!locates(measured_[j])) continue;
      const std::int32_t span = predicted_of(measured_[j]);
      if (span < 0) {
        clean = clean && measured_[j].seconds < small_s_;
        continue;
      }
      const std::size_t position = position_.at(span);
      if (position != passed.back()) passed.push_back(position);
      if (divided.contains(span)) continue;
      match_gap(from, j + 1, passed, clean);
      from = j;
      passed = {position};
      clean = true;
    }
    passed.push_back(predicted_.size());
    match_gap(from, measured_.size(), passed, clean);
  }

  // Matches the kernels [from, end) of the trace with what is predicted between these positions.
  void match_gap(std::size_t from, std::size_t end, const std::vector<std::size_t>& passed, bool clean) {
    const Items measured = chosen(
        {measured_.begin() + static_cast<std::ptrdiff_t>(from), measured_.begin() + static_cast<std::ptrdiff_t>(end)},
        [](const MatchItem& item) { return !item.anchor(); });
    if (measured.empty()) return;
    std::vector<std::size_t> free;
    bool ordered = true;
    for (std::size_t k = 0; k + 1 < passed.size(); ++k) {
      const std::size_t before = passed[k], behind = passed[k + 1], next = next_taken(before);
      ordered = ordered && next == behind;
      add_free(before == no_position ? 0 : before, next, free);
      if (next != behind) add_free(last_taken_before(behind), behind, free);
    }
    Items predicted;
    for (const std::size_t at : free) predicted.push_back(predicted_[at]);
    const Alignment alignment =
        align(predicted.size(), measured.size(), ComputeScore(predicted, measured), {.end = 0.5, .whole = true});
    const bool in_order = ordered && (passed.front() == no_position || matched_by(measured_[from]) == MatchedBy::order);
    add_matches(alignment, predicted, measured, in_order ? MatchedBy::order : MatchedBy::other_order, result_);
    const std::size_t start = passed.front() == no_position ? 0 : passed.front();
    if (clean && !predicted_.empty()) place(from, end, predicted_[std::min(start, predicted_.size() - 1)].span);
  }

  std::size_t last_taken_before(std::size_t position) {
    std::size_t at = position;
    while (at > 0 && !taken(at - 1)) --at;
    return at == 0 ? 0 : at - 1;
  }

  // Places the kernels without a match by those before them, the first ones by `place`.
  void place(std::size_t from, std::size_t end, std::int32_t place) {
    for (std::size_t j = from; j < end; ++j) {
      const std::int32_t own = predicted_of(measured_[j]);
      const bool leads = !measured_[j].anchor() || locates(measured_[j]);
      if (own >= 0 && leads) place = own;
      if (own >= 0 || measured_[j].anchor()) continue;
      predicted_of(measured_[j]) = place;
      matched_by(measured_[j]) = MatchedBy::neighbors;
    }
  }

  const Items& predicted_;
  const Items& measured_;
  StepMatch& result_;
  double small_s_ = 0;     // a GEMM that takes less may lack a match, as that of a table of angles
  bool separate_ = false;  // weight gradients are aligned among themselves
  std::unordered_map<std::int32_t, std::size_t> position_;  // of a predicted span in predicted_
};

}  // namespace

StepMatch match_step(const model::Timeline& predicted, std::int32_t rank, const model::Timeline& measured) {
  return StepMatcher(predicted, rank, measured).run();
}

std::vector<MeasuredPart> measured_parts(const StepMatch& match, const model::Timeline& predicted,
                                         const model::Timeline& measured) {
  const auto whole = [&](std::size_t j) {
    const model::Span& span = measured.spans[j];
    const model::Kernel& kernel = measured.kernel_of(span);
    return MeasuredPart{static_cast<double>(span.duration_ps + kernel.gap_ps) * 1e-12, 1, traced_flops(kernel)};
  };
  std::vector<double> covered(measured.spans.size(), 0);
  std::vector<MeasuredPart> parts(predicted.spans.size());
  for (std::size_t i = 0; i < parts.size(); ++i)
    if (const std::int32_t j = match.measured_of[i]; j >= 0)
      covered[static_cast<std::size_t>(j)] += static_cast<double>(predicted.spans[i].duration_ps);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (match.measured_of[i] < 0) continue;
    const auto j = static_cast<std::size_t>(match.measured_of[i]);
    const double share = static_cast<double>(predicted.spans[i].duration_ps) / std::max(1.0, covered[j]);
    const MeasuredPart part = whole(j);
    parts[i] = {share * part.seconds, share * part.kernels, share * part.flops};
  }
  for (std::size_t j = 0; j < covered.size(); ++j) {
    const std::int32_t i = match.predicted_of[j];
    const bool joins = i >= 0 && covered[j] == 0 && match.by[j] != MatchedBy::neighbors;  // another kernel's match
    if (!joins) continue;
    const MeasuredPart part = whole(j);
    MeasuredPart& sum = parts[static_cast<std::size_t>(i)];
    sum.seconds += part.seconds;
    sum.kernels += part.kernels;
    sum.flops += part.flops;
  }
  return parts;
}

void add_matches(const Alignment& alignment, const Items& predicted, const Items& measured, MatchedBy by,
                 StepMatch& result) {
  for (std::size_t j = 0; j < measured.size(); ++j)
    if (const std::int32_t i = alignment.predicted_of[j]; i >= 0) {
      const auto span = static_cast<std::size_t>(measured[j].span);
      result.predicted_of[span] = predicted[static_cast<std::size_t>(i)].span;
      result.by[span] = by;
    }
  for (std::size_t i = 0; i < predicted.size(); ++i)
    if (const std::int32_t j = alignment.measured_of[i]; j >= 0)
      result.measured_of[static_cast<std::size_t>(predicted[i].span)] = measured[static_cast<std::size_t>(j)].span;
}

void match_compute(const std::vector<MatchItem>& predicted, const std::vector<MatchItem>& measured, StepMatch& result) {
  ComputeMatcher(predicted, measured, result).run();
}

}  // namespace plumbline::calibrate
