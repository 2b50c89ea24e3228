#include "sim/predict/simulate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>

#include "sim/engine/heap_loop.h"
#include "sim/predict/predictor.h"
#include "sim/predict/simulation.h"

namespace plumbline::sim {
namespace {

// A heap loop that adds up the seconds of flows on the links above the leaves.
class LoadMeter final : public Loop {
 public:
  explicit LoadMeter(const std::vector<topologies::Link>& links) : links_(links), loop_(links) {}
  Time now() const override { return loop_.now(); }
  void at(Time time, const Task& task) override { loop_.at(time, task); }
  FlowId flow(const Flow& flow, const Task& done) override {
    double leaf = 0, spine = 0;
    for (const Crossing& crossing : flow.footprint == nullptr ? Footprint{} : *flow.footprint) {
      const topologies::Link& link = links_[crossing.link];
      const double seconds = flow.bytes * crossing.times / link.bandwidth;
      if (link.kind == LinkKind::leaf_up || link.kind == LinkKind::leaf_down) leaf = std::max(leaf, seconds);
      if (link.kind == LinkKind::spine_up || link.kind == LinkKind::spine_down) spine = std::max(spine, seconds);
    }
    seconds_.leaf += leaf;
    seconds_.spine += spine;
    return loop_.flow(flow, done);
  }
  void set_rate_limit(FlowId flow, double rate_limit) override { loop_.set_rate_limit(flow, rate_limit); }
  std::uint64_t run() override { return loop_.run(); }
  const topologies::Background& seconds() const { return seconds_; }

 private:
  using LinkKind = topologies::LinkKind;
  const std::vector<topologies::Link>& links_;
  HeapLoop loop_;
  topologies::Background seconds_;
};

}  // namespace

model::Result<topologies::Background> mean_load(const Inputs& inputs) {
  assert(inputs.fabric && "links need wiring");
  Predictor predictor(inputs);
  const auto links = TRY(predictor.links(inputs.plan));
  LoadMeter meter(links->fabric().links());
  const auto estimate = TRY(predictor.events(inputs.plan, &meter));
  const double seconds = estimate.step.time_s * static_cast<double>(inputs.plan.parallelism.pipeline);
  return topologies::Background{.leaf = meter.seconds().leaf / seconds, .spine = meter.seconds().spine / seconds};
}

model::Result<Simulation> simulate(const Inputs& inputs, Fidelity fidelity, const Recording& record) {
  return Predictor(inputs).simulate(inputs.plan, {.fidelity = fidelity, .record = record});
}

std::string_view to_string(Fidelity fidelity) {
  if (fidelity == Fidelity::closed_form) return "closed-form";
  return fidelity == Fidelity::step ? "step" : "cluster";
}

model::Result<Fidelity> parse_fidelity(std::string_view text) {
  for (Fidelity fidelity : {Fidelity::closed_form, Fidelity::step, Fidelity::cluster})
    if (text == to_string(fidelity)) return fidelity;
  return model::wrong_input("--fidelity", fmt::format("unknown fidelity '{}'", text),
                            model::known_names(text, {"closed-form", "step", "cluster"}));
}

}  // namespace plumbline::sim
