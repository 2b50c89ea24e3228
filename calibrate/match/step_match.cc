#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "calibrate/match/detail/comparing.h"
#include "calibrate/match/detail/matching.h"
#include "calibrate/match/trace_comparison.h"
#include "model/result/timeline_comparison.h"

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

}  // namespace plumbline::calibrate
