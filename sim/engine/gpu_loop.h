// The event loop of one GPU alone, between barriers with others. Each stream has at most one event ahead, and a newly
// scheduled event voids the earlier one. One slot per stream therefore replaces the heap.
#pragma once

#include <array>
#include <cstdint>

#include "sim/engine/gpu_model.h"
#include "sim/engine/loop.h"

namespace plumbline::sim {

class GpuLoop final : public Loop {
 public:
  Time now() const override { return now_; }
  // Takes tasks of one GPU, and one task at a time of its listener, which uses another code.
  void at(Time time, const Task& task) override;
  // Is never called: a GPU starts flows only where it has links.
  FlowId flow(const Flow& flow, const Task& done) override;
  void set_rate_limit(FlowId flow, double rate_limit) override;

  std::uint64_t run() override;

  static constexpr Time never = INT64_MAX;
  Time next() const { return places_[first()].time; }  // `never` when no event is left
  void run_next();
  void move_to(Time time) { now_ = time; }  // requires time <= next()

 private:
  struct Place {
    Time time = never;
    std::uint64_t order = 0;
    Task task;
  };
  std::size_t first() const {
    if (!first_known_) find_first();
    return first_;
  }
  void find_first() const;

  std::array<Place, GpuModel::streams + 1> places_;  // the last one is the listener's
  mutable std::size_t first_ = 0;                    // the place of the next event
  mutable bool first_known_ = true;
  std::uint64_t scheduled_ = 0;
  Time now_ = 0;
};

}  // namespace plumbline::sim
