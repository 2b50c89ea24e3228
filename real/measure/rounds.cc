#include "real/measure/rounds.h"

#include <chrono>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>

#include "model/base/random.h"
#include "model/base/statistics.h"

namespace plumbline::real {
namespace {

class Measuring {
 public:
  Measuring(std::vector<RunnableWorkload>& workloads, const RoundOptions& options, const MeasureObserver& observer)
      : workloads_(workloads), options_(options), observer_(observer) {
    for (RunnableWorkload& workload : workloads_) {
      auto& places = places_.emplace_back();
      for (Subject& subject : workload.subjects) {
        const auto [known, fresh] = index_.try_emplace(subject.place(), series_.size());
        if (fresh) series_.push_back({std::move(subject), {}, 0});
        places.push_back(known->second);
      }
    }
    rate_sums_.resize(series_.size());
  }

  model::Result<std::vector<Series>> run() {
    model::Random random(options_.seed);
    std::vector<std::size_t> order(workloads_.size());
    std::iota(order.begin(), order.end(), 0);
    bool going = true;
    for (std::size_t round = 0; going && round <= options_.rounds; ++round) {
      shuffle(order, random);
      const auto ended = TRY(all_once(round, order));
      going = ended;
    }
    return finished();
  }

 private:
  // Returns false when the measurement is to end here.
  model::Result<bool> all_once(std::size_t round, const std::vector<std::size_t>& order) {
    const bool counts = round > 0;
    for (std::size_t i = 0; i < order.size(); ++i) {
      const auto samples = TRY(workloads_[order[i]].runner->round(round));
      if (counts) keep(places_[order[i]], samples);
      const bool last = i + 1 == order.size();
      const MeasureProgress progress{last ? round : round - (counts ? 1 : 0), options_.rounds,
                                     round * order.size() + i + 1, (options_.rounds + 1) * order.size(),
                                     counts && last};
      if (observer_ && !observer_(progress, series_)) return false;
      if (round > 1 && out_of_time()) return false;
    }
    return round == 0 || !out_of_time();
  }

  void keep(const std::vector<std::size_t>& places, const std::vector<Sample>& samples) {
    for (const Sample& sample : samples) {
      const std::size_t place = places[sample.subject];
      if (sample.seconds <= 0) continue;
      series_[place].seconds.push_back(sample.seconds);
      rate_sums_[place] += sample.copy_rate;
      series_[place].copy_rate = rate_sums_[place] / static_cast<double>(series_[place].seconds.size());
    }
  }

  // Leaves out cases without samples, which an early end causes.
  std::vector<Series> finished() {
    std::erase_if(series_, [](const Series& series) { return series.seconds.empty(); });
    return std::move(series_);
  }

  bool out_of_time() const {
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin_;
    return options_.budget_s && passed.count() >= *options_.budget_s;
  }

  static void shuffle(std::vector<std::size_t>& order, model::Random& random) {
    for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.next() % i]);
  }

  std::vector<RunnableWorkload>& workloads_;
  const RoundOptions& options_;
  const MeasureObserver& observer_;
  std::vector<std::vector<std::size_t>> places_;  // [workload][subject]: index into series_
  std::map<Subject::Place, std::size_t> index_;
  std::vector<Series> series_;
  std::vector<double> rate_sums_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace

model::Result<std::vector<Series>> measure_in_rounds(std::vector<RunnableWorkload>& workloads,
                                                     const RoundOptions& options, const MeasureObserver& observer) {
  return Measuring(workloads, options, observer).run();
}

Spread spread_of(std::vector<double> samples) {
  constexpr double low = 0.1, middle = 0.5, high = 0.9;
  const auto at = [&](double share) { return model::quantile(samples, share); };
  Spread spread{at(0), at(low), at(middle), at(high), 0};
  for (double& sample : samples) sample = std::abs(sample - spread.p50);
  spread.mad = at(middle);
  return spread;
}

}  // namespace plumbline::real
