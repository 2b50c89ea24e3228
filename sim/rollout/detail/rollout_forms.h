// Generation of a step's answers as functions of plain numbers (docs/reinforcement_learning.md). Times are seconds,
// lengths tokens.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <numbers>
#include <queue>
#include <vector>

#include "model/base/random.h"

namespace plumbline::sim {

// Lengths of answers: log-normal, those above `most` cut there. The mean is that of the cut lengths, the deviation that
// of lengths that nothing cuts: sigma^2 = ln(1 + (deviation / mean)^2).
class AnswerLengths {
 public:
  AnswerLengths(double mean, double deviation, double most)
      : sigma_(mean < most ? std::sqrt(std::log1p(deviation * deviation / (mean * mean))) : 0),
        log_mean_(std::log(mean)),
        most_(most) {
    if (sigma_ == 0) return;
    double low = log_mean_ - sigma_ * sigma_, high = std::log(most) + 8 * sigma_;
    for (int i = 0; i < 100; ++i) {
      log_mean_ = (low + high) / 2;
      (cut_mean() < mean ? low : high) = log_mean_;
    }
  }

  double draw(model::Random& random) const {
    return std::clamp(std::round(std::exp(log_mean_ + sigma_ * random.normal())), 1.0, most_);
  }
  // Returns the mean of the cut lengths: exp(mu + sigma^2 / 2) Phi((ln most - mu) / sigma - sigma) +
  // most Phi((mu - ln most) / sigma).
  double cut_mean() const {
    if (sigma_ == 0) return std::exp(log_mean_);
    const double z = (std::log(most_) - log_mean_) / sigma_;
    return std::exp(log_mean_ + sigma_ * sigma_ / 2) * below(z - sigma_) + most_ * below(-z);
  }
  double cut_share() const {
    const double above = log_mean_ - std::log(most_);
    if (sigma_ > 0) return below(above / sigma_);
    return above < 0 ? 0 : 1;
  }

 private:
  static double below(double z) { return std::erfc(-z / std::numbers::sqrt2) / 2; }  // Phi

  double sigma_, log_mean_, most_;
};

struct Drain {
  double seconds = 0;
  double nine_tenths = 0;  // until nine of ten requests have ended
};

// Returns how long one instance takes for requests of these lengths, of which it decodes at most `most` at once. The
// next one begins when one ends (continuous batching), after the `prefill` seconds of its prompt, in which nothing
// decodes; nothing follows the last ones, and the batch drains. A step gives a request `tokens_per_step` tokens and
// takes step(requests that decode, tokens that each of them has, in the mean) seconds.
template <class Step>
Drain drain(const std::vector<double>& lengths, double most, double prefill, double tokens_per_step, const Step& step) {
  struct Active {
    double end = 0, begin = 0;  // in tokens that a request in flight from the start would have
    bool operator>(const Active& other) const { return end > other.end; }
  };
  std::priority_queue<Active, std::vector<Active>, std::greater<>> active;
  const auto places = static_cast<std::size_t>(std::max(1.0, std::floor(most)));
  Drain result;
  double now = 0, begins = 0;  // begins: the sum over the active ones
  std::size_t next = 0;
  while (next < lengths.size() || !active.empty()) {
    for (; next < lengths.size() && active.size() < places; ++next) {
      active.push({now + lengths[next], now});
      begins += now;
      result.seconds += prefill;
    }
    const auto batch = static_cast<double>(active.size());
    const double end = active.top().end;
    if (end > now) result.seconds += (end - now) / tokens_per_step * step(batch, (now + end) / 2 - begins / batch);
    now = end;
    for (; !active.empty() && active.top().end <= now; active.pop()) begins -= active.top().begin;
    const std::size_t ended = next - active.size();
    if (result.nine_tenths == 0 && 10 * ended >= 9 * lengths.size()) result.nine_tenths = result.seconds;
  }
  return result;
}

}  // namespace plumbline::sim
