// The loop of one lane on its own, between meetings with others: a lane has one thing coming on each of its streams,
// and what it schedules anew voids what it had scheduled before, so that a place per stream takes the heap's place.
#pragma once

#include <array>
#include <cstdint>

#include "sim/engine/gpu_model.h"
#include "sim/engine/loop.h"

namespace plumbline::sim {

class GpuLoop final : public Loop {
 public:
  Time now() const override { return now_; }
  // Of a lane or, with another code and one at a time, of its listener.
  void at(Time time, const Task& task) override;
  // Lanes start none without links.
  FlowId flow(const Flow& flow, const Task& done) override;
  void set_rate_limit(FlowId flow, double rate_limit) override;

  std::uint64_t run() override;

  static constexpr Time never = INT64_MAX;
  Time next() const { return places_[first()].time; }  // `never` where nothing comes
  void run_next();
  void move_to(Time time) { now_ = time; }  // no later than next()

 private:
  struct Place {
    Time time = never;
    std::uint64_t order = 0;
    Task task;
  };
  std::size_t first() const;

  std::array<Place, GpuModel::streams + 1> places_;  // the last one is the listener's
  std::uint64_t scheduled_ = 0;
  Time now_ = 0;
};

}  // namespace plumbline::sim
