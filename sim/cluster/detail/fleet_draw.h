// Draws of what the GPUs of a cluster differ in: speed, slow machines, rows of experts. docs/cluster.md states the
// distributions.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "model/architecture/architecture.h"
#include "model/base/error.h"
#include "model/plan/plan.h"
#include "sim/predict/inputs.h"
#include "sim/step/fleet.h"
#include "sim/step/step_executor.h"

namespace plumbline::sim {

// What is drawn; each cause can be left out.
struct FleetCauses {
  bool slow_ranks = true, jitter = true, imbalance = true;
};

// Draws fleets of one plan. Equal seeds give equal fleets; causes that are left out do not change what the others draw.
class FleetDraw {
 public:
  explicit FleetDraw(const Inputs& inputs, bool by_kernels);

  // Returns the causes that this plan has at all.
  FleetCauses causes() const;
  // Returns the fleet of a seed, whose work lives as long as the draw returned.
  struct Drawn {
    Fleet fleet;
    std::unique_ptr<UnevenWork> work;
  };
  // `jitter` is that of one kernel, kernel_jitter(). Errors: those of make_layout().
  model::Result<Drawn> draw(std::uint64_t seed, const FleetCauses& causes, double jitter) const;
  // Returns the deviation of one kernel with which a forward or backward of a micro-batch of this program has the
  // plan's: kernels are independent, so that of a slot whose kernels take t seconds each is
  //   deviation * sqrt(sum of t^2) / sum of t.
  double kernel_jitter(const ExecutionInput& input) const;
  // Returns sentences about the priors of the causes, with their sources.
  std::vector<std::string> priors(const FleetCauses& causes) const;

 private:
  bool stragglers() const { return inputs_.plan.cluster.fleet == "stragglers"; }
  std::vector<double> slowness(std::uint64_t seed) const;

  const Inputs& inputs_;
  Fleet even_;
  double speed_deviation_ = 0, operation_deviation_ = 0;
};

// Returns the work of every replica of a pipeline rank, tabulated by micro-batch, or nullptr where the plan makes none
// differ. Rows are those of model::RankRows where the plan states the load of experts, else those of imbalance_of(),
// scaled so that the rows of an expert group add up to its tokens; layers that have no experts have no row but 1. A
// seed gives the draws. Errors: those of make_layout().
model::Result<std::unique_ptr<UnevenWork>> uneven_work(const model::Plan& plan, const model::Architecture& architecture,
                                                       std::uint64_t seed);

// Returns the input without the predicted waits for the slowest rank: where every GPU runs, waits come from the run.
ExecutionInput without_waits(ExecutionInput input);

// Returns the input with messages between stages that take no time.
ExecutionInput without_messages(ExecutionInput input);

// Returns the input with the times of every slot scaled so that, on a GPU alone, it takes the mean over all slots of
// its type. The pipeline ranks together compute as long as before.
ExecutionInput with_mean_stages(ExecutionInput input);

}  // namespace plumbline::sim
