// The clock of one rank in closed form: its compute, and its stream of collectives, which run one after the other. Each
// is slower while the other runs.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace plumbline::sim {

class OverlapClock {
 public:
  // Starts at 0 with no collective. `slowdown` is the factor on a collective's time while the rank computes.
  void restart(double slowdown) {
    slowdown_ = slowdown;
    now_ = left_ = slowed_ = 0;
    seconds_.clear();
    ends_.clear();
  }

  double now() const { return now_; }
  double slowed() const { return slowed_; }  // s by which collectives have made compute longer
  bool idle() const { return ends_.size() == seconds_.size(); }

  // Posts a collective that takes `seconds` while the rank does not compute, and returns its number.
  std::size_t post(double seconds) {
    if (idle()) left_ = seconds;
    seconds_.push_back(seconds);
    return seconds_.size() - 1;
  }
  std::size_t posted() const { return seconds_.size(); }

  // Computes for what takes `seconds` without collectives, and `slowdown` times as long during one.
  void compute(double seconds, double slowdown) {
    while (seconds > 0 && !idle()) {
      const double whole = seconds * slowdown, collective = left_ * slowdown_;
      const double step = std::min(whole, collective);
      now_ += step;
      slowed_ += step - step / slowdown;
      if (whole < collective) {
        left_ -= step / slowdown_;
        return;
      }
      seconds -= step / slowdown;
      end_first();
    }
    if (seconds > 0) now_ += seconds;
  }

  // Waits without computing.
  void wait_until(double time) {
    if (time <= now_) return;
    while (now_ < time && !idle()) {
      if (now_ + left_ > time) {
        left_ -= time - now_;
        break;
      }
      now_ += left_;
      end_first();
    }
    now_ = std::max(now_, time);
  }
  // Waits for the end of a collective, and returns the seconds that it took.
  double wait_for(std::size_t collective) {
    const double before = now_;
    while (ends_.size() <= collective) {
      now_ += left_;
      end_first();
    }
    return now_ - before;
  }
  // Returns when a collective ends if the rank does not compute any more.
  double end_of(std::size_t collective) const {
    if (collective < ends_.size()) return ends_[collective];
    double end = now_ + left_;
    for (std::size_t i = ends_.size() + 1; i <= collective; ++i) end += seconds_[i];
    return end;
  }

 private:
  void end_first() {
    ends_.push_back(now_);
    left_ = idle() ? 0 : seconds_[ends_.size()];
  }

  double now_ = 0, left_ = 0, slowed_ = 0, slowdown_ = 1;  // left_: of the running collective
  std::vector<double> seconds_, ends_;                     // of all collectives, of those that have ended
};

}  // namespace plumbline::sim
