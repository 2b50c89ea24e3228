#include "sim/serving/detail/sent_waves.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <deque>

namespace plumbline::sim {
namespace {

constexpr double rounding = 1e-9;  // of requests, which are parts of groups
constexpr double most_waves = 12;
constexpr std::int64_t most_steps = 50'000;  // of groups of few requests that each run alone

struct Arrivals {
  double time = 0, requests = 0;
};

struct Cohort {
  Arrivals came;     // in the mean
  double first = 0;  // time of the first token
  std::int64_t last = 0;
};

class Replay {
 public:
  explicit Replay(const WaveLoad& load) : load_(load), left_(load.requests * (std::min(load.waves, most_waves) - 1)) {
    waiting_.push_back({0, load.requests});
  }

  WaveTimes run() {
    for (std::int64_t step = 0; step < most_steps && !(running_.empty() && waiting_.empty()); ++step) {
      if (running_.empty()) clock_ = std::max(clock_, waiting_.front().time + load_.late);
      if (running_.empty() || load_.ahead < 1) prepared_ = clock_;
      const Arrivals begins = take();
      prepared_ = clock_;  // of the step after the next, which is launched as this one begins
      clock_ += load_.step + load_.step_of_request * decoding_ + load_.step_of_prompt * begins.requests;
      send(step, begins);
    }
    const double rest = load_.waves - most_waves;
    const Sums late = {sums_.requests - early_.requests, sums_.ttft - early_.ttft, sums_.latency - early_.latency};
    if (rest <= 0 || late.requests <= rounding) return sums_.means();
    if (rest == std::numeric_limits<double>::infinity()) return late.means();
    const WaveTimes some = sums_.means(), further = late.means();
    const double share = rest / load_.waves;
    return {some.ttft + share * (further.ttft - some.ttft), some.latency + share * (further.latency - some.latency)};
  }

 private:
  struct Sums {
    double requests = 0, ttft = 0, latency = 0;
    WaveTimes means() const { return {ttft / requests, latency / requests}; }
  };

  // Returns the requests whose prompts the next step computes, and when they came in the mean.
  Arrivals take() {
    Arrivals taken;
    while (!waiting_.empty() && waiting_.front().time + load_.late <= prepared_ &&
           load_.prompts - taken.requests > rounding) {
      Arrivals& first = waiting_.front();
      const double some = std::min(first.requests, load_.prompts - taken.requests);
      taken.time += some * first.time;
      taken.requests += some;
      first.requests -= some;
      if (first.requests <= rounding) waiting_.pop_front();
    }
    if (taken.requests > 0) taken.time /= taken.requests;
    return taken;
  }

  void send(std::int64_t step, const Arrivals& begins) {
    const double tokens = decoding_ + begins.requests;
    sent_ = std::max(sent_, clock_);
    const double first = sent_ + load_.send * (tokens + 1) / 2;
    sent_ += load_.send * tokens;
    if (begins.requests > 0) {
      const auto later = static_cast<std::int64_t>(std::max(1.0, std::round(load_.tokens - 1)));
      running_.push_back({begins, first, step + later});
      decoding_ += begins.requests;
    }
    for (; !running_.empty() && running_.front().last <= step; running_.pop_front()) end(running_.front());
    if (running_.empty()) decoding_ = 0;  // instead of what rounding leaves
  }

  void end(const Cohort& group) {
    const double requests = group.came.requests, next = std::min(left_, requests);
    decoding_ -= requests;
    sums_.requests += requests;
    sums_.ttft += requests * (group.first - group.came.time);
    sums_.latency += requests * (sent_ - group.came.time);
    if (sums_.requests <= load_.requests * most_waves / 2) early_ = sums_;
    if (next > rounding) waiting_.push_back({sent_, next});
    left_ -= next;
  }

  const WaveLoad& load_;
  double left_;  // requests that are to come
  std::deque<Arrivals> waiting_;
  std::deque<Cohort> running_;
  double decoding_ = 0, clock_ = 0, prepared_ = 0, sent_ = 0;
  Sums sums_, early_;  // of all, and of those of the first half of most_waves
};

}  // namespace

WaveTimes replay_waves(const WaveLoad& load) { return Replay(load).run(); }

}  // namespace plumbline::sim
