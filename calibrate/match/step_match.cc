#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "calibrate/match/detail/alignment.h"
#include "calibrate/match/detail/match_item.h"
#include "calibrate/match/trace_comparison.h"
#include "model/result/timeline_summary.h"

namespace plumbline::calibrate {
namespace {

using Items = std::vector<MatchItem>;

// The gain of a match of kernels that compute.
class ComputeScore {
 public:
  ComputeScore(const Items& predicted, const Items& measured) : predicted_(predicted), measured_(measured) {
    // A cut trace has fewer kernels of a class, but kernels like those predicted: means of logarithms, not sums.
    const auto means = [](const Items& items) {
      std::array<double, match_rows> sums{}, counts{};
      for (const MatchItem& item : items) {
        sums[scale_of(item)] += item.log_seconds;
        ++counts[scale_of(item)];
      }
      for (std::size_t row = 0; row < match_rows; ++row)
        sums[row] = counts[row] > 0 ? sums[row] / counts[row] : std::nan("");
      return sums;
    };
    const auto before = means(predicted), after = means(measured);
    for (std::size_t row = 0; row < match_rows; ++row)
      if (const double scale = after[row] - before[row]; !std::isnan(scale)) scale_[row] = scale;
  }

  bool same(std::size_t i, std::size_t j) const { return likeness(predicted_[i], measured_[j]) == Likeness::same; }

  double operator()(std::size_t i, std::size_t j) const {
    const MatchItem &p = predicted_[i], &m = measured_[j];
    const Likeness like = likeness(p, m);
    if (like == Likeness::none) return -never_;
    constexpr double same_row = 2, similar = 0.1, time_weight = 0.5;
    const double off = std::abs(m.log_seconds - p.log_seconds - scale_[scale_of(p)]);
    return (like == Likeness::same ? same_row : similar) + evidence(p, m) - time_weight * std::min(1.0, off);
  }

 private:
  // The names of most GEMMs do not state whether they are weight gradients.
  static std::size_t scale_of(const MatchItem& item) {
    return static_cast<std::size_t>(item.row == MatchRow::weight_gradient ? MatchRow::gemm : item.row);
  }

  static constexpr double never_ = 1e9;
  const Items& predicted_;
  const Items& measured_;
  std::array<double, match_rows> scale_{};  // logarithm of measured over predicted seconds
};

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

Items chosen(const Items& items, bool (*keep)(const MatchItem&)) {
  Items found;
  std::ranges::copy_if(items, std::back_inserter(found), keep);
  return found;
}

class StepMatcher {
 public:
  StepMatcher(const model::Timeline& predicted, std::int32_t rank, const model::Timeline& measured)
      : predicted_(predicted),
        measured_(measured),
        predicted_items_(match_items(predicted, rank)),
        measured_items_(match_items(measured, {})) {
    result_.predicted_of.assign(measured.spans.size(), -1);
    result_.by_place.assign(measured.spans.size(), false);
    result_.measured_of.assign(predicted.spans.size(), -1);
    name_layers();
  }

  StepMatch run() {
    const auto computes = [](const MatchItem& item) { return !item.communicates; };
    match_compute(chosen(predicted_items_, computes), chosen(measured_items_, computes));
    match_transfers();
    for (const MatchItem& item : measured_items_) {
      const auto span = static_cast<std::size_t>(item.span);
      result_.all_s += item.seconds;
      if (result_.predicted_of[span] < 0) continue;
      (result_.by_place[span] ? result_.placed_s : result_.matched_s) += item.seconds;
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

  void join(const Items& predicted, const Items& measured, const Alignment& alignment) {
    for (std::size_t j = 0; j < measured.size(); ++j)
      if (const std::int32_t i = alignment.predicted_of[j]; i >= 0)
        result_.predicted_of[static_cast<std::size_t>(measured[j].span)] = predicted[static_cast<std::size_t>(i)].span;
    for (std::size_t i = 0; i < predicted.size(); ++i)
      if (const std::int32_t j = alignment.measured_of[i]; j >= 0)
        result_.measured_of[static_cast<std::size_t>(predicted[i].span)] = measured[static_cast<std::size_t>(j)].span;
  }

  // Aligns GEMMs and attention, then what is between them.
  void match_compute(const Items& predicted, const Items& measured) {
    const auto anchors = [](const MatchItem& item) { return item.anchor(); };
    const Items first = chosen(predicted, anchors), second = chosen(measured, anchors);
    const ComputeScore score(first, second);
    const Alignment alignment = align(first.size(), second.size(), score);
    join(first, second, alignment);
    double places = 0;
    for (std::size_t j = 0; j < second.size(); ++j)
      if (const std::int32_t i = alignment.predicted_of[j]; i >= 0)
        places += place_evidence(first[static_cast<std::size_t>(i)], second[j]);
    const auto count = static_cast<double>(std::max<std::size_t>(second.size(), 1));
    result_.score = alignment.score / count;
    result_.order_score = (alignment.score - places) / count;
    // Gaps end at pairs of anchors that rise in both sequences.
    std::size_t from_predicted = 0, from_measured = 0, at = 0;
    bool clean = true;  // every anchor since the last pair has its match
    for (std::size_t j = 0; j < measured.size(); ++j) {
      if (!measured[j].anchor()) continue;
      const std::int32_t span = result_.predicted_of[static_cast<std::size_t>(measured[j].span)];
      clean = clean && span >= 0;
      if (span < 0) continue;
      std::size_t place = at;
      while (place < predicted.size() && predicted[place].span != span) ++place;
      if (place == predicted.size()) continue;  // joins the pair before
      match_gap({predicted.begin() + static_cast<std::ptrdiff_t>(from_predicted),
                 predicted.begin() + static_cast<std::ptrdiff_t>(place + 1)},
                {measured.begin() + static_cast<std::ptrdiff_t>(from_measured),
                 measured.begin() + static_cast<std::ptrdiff_t>(j + 1)},
                clean);
      from_predicted = at = place;
      from_measured = j;
      clean = true;
    }
    match_gap({predicted.begin() + static_cast<std::ptrdiff_t>(from_predicted), predicted.end()},
              {measured.begin() + static_cast<std::ptrdiff_t>(from_measured), measured.end()}, clean);
  }

  // Matches what is between the first and the last kernel of both, which are anchors or the ends of the step.
  void match_gap(const Items& predicted, const Items& measured, bool clean) {
    const auto between = [](const MatchItem& item) { return !item.anchor(); };
    const Items first = chosen(predicted, between), second = chosen(measured, between);
    if (second.empty()) return;
    join(first, second, align(first.size(), second.size(), ComputeScore(first, second)));
    if (!clean || predicted.empty()) return;
    // The kernels before each kernel place it, else those after it.
    std::int32_t place = -1;
    for (const MatchItem& item : measured) {
      const std::int32_t own = result_.predicted_of[static_cast<std::size_t>(item.span)];
      if (own >= 0) place = own;
      if (own < 0 && !item.anchor()) put(item, place >= 0 ? place : predicted.front().span);
    }
  }

  void put(const MatchItem& item, std::int32_t predicted) {
    result_.predicted_of[static_cast<std::size_t>(item.span)] = predicted;
    result_.by_place[static_cast<std::size_t>(item.span)] = true;
  }

  void match_transfers() {
    StepClock clock;
    for (const MatchItem& item : measured_items_) {
      const auto span = static_cast<std::size_t>(item.span);
      const std::int32_t own = result_.predicted_of[span];
      if (item.communicates || own < 0 || result_.by_place[span]) continue;
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
    join(predicted, measured, align(predicted.size(), measured.size(), TransferScore(predicted, measured, tolerance)));
  }

  const model::Timeline& predicted_;
  const model::Timeline& measured_;
  Items predicted_items_, measured_items_;  // by start
  StepMatch result_;
};

}  // namespace

StepMatch match_step(const model::Timeline& predicted, std::int32_t rank, const model::Timeline& measured) {
  return StepMatcher(predicted, rank, measured).run();
}

std::vector<double> measured_seconds(const StepMatch& match, const model::Timeline& predicted,
                                     const model::Timeline& measured) {
  const auto taken = [&](std::size_t j) {
    const model::Span& span = measured.spans[j];
    return static_cast<double>(span.duration_ps + measured.kernels[static_cast<std::size_t>(span.kernel)].gap_ps) *
           1e-12;
  };
  std::vector<double> covered(measured.spans.size(), 0), seconds(predicted.spans.size(), 0);
  for (std::size_t i = 0; i < seconds.size(); ++i)
    if (const std::int32_t j = match.measured_of[i]; j >= 0)
      covered[static_cast<std::size_t>(j)] += static_cast<double>(predicted.spans[i].duration_ps);
  for (std::size_t i = 0; i < seconds.size(); ++i) {
    if (match.measured_of[i] < 0) continue;
    const auto j = static_cast<std::size_t>(match.measured_of[i]);
    seconds[i] = taken(j) * static_cast<double>(predicted.spans[i].duration_ps) / std::max(1.0, covered[j]);
  }
  for (std::size_t j = 0; j < covered.size(); ++j) {
    const std::int32_t i = match.predicted_of[j];
    const bool joins = i >= 0 && covered[j] == 0 && !match.by_place[j];  // another kernel's match
    if (joins) seconds[static_cast<std::size_t>(i)] += taken(j);
  }
  return seconds;
}

}  // namespace plumbline::calibrate
