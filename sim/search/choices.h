// The values that a search tries for each key: the list in the plan's [search], or else values that suit the model and
// the cluster, and the plan's own. sim/search/space.h checks which combinations are valid.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "model/architecture/architecture.h"
#include "model/plan/plan.h"
#include "model/plan/stage_split.h"
#include "sim/predict/inputs.h"

namespace plumbline::sim {

// A choice of recomputation, named as in search.recompute:
//   none       nothing
//   selective  operators that are cheap to run again: norms, the gate of the MLP, up-projections of latent attention,
//              and attention itself where its kernel stores the scores; or those of the software, where it has a
//              selection of its own
//   mlp        those and the first GEMMs of dense MLPs
//   moe        those, dense MLPs and experts
//   half       whole layers, for half of each stage's
//   full       whole layers
//   given      the plan's own [recompute]
struct Recomputation {
  std::string word;
  std::string policy;
  std::vector<std::string> operators;
  std::optional<std::int64_t> layers;
  bool half = false;  // `layers` depends on the stage

  void apply(model::Plan& plan, std::int64_t half_of_a_stage) const;
};

// A division of layers over stages, named as in search.split. `even` is model::even_layer_counts(). first-1, last-1,
// last-2 and ends-1 give the first, the last or both stages that many fewer layers and spread those over the others.
// `balanced` is model::balanced_layer_counts() at the shapes of the first plan of the space with that pipeline. `given`
// is schedule.layers_per_stage, where it has an entry for each stage.
struct Split {
  std::string word;
  std::vector<std::int64_t> layers;  // empty: even
};

// The number of values tried for a key that [search] does not name. quick has those that usually win, for an answer in
// seconds; complete has all that make sense.
enum class Breadth { quick, complete };

// The values that a search tries for a degree, independent of the others.
struct DegreeChoices {
  std::int64_t model::Parallelism::*degree;
  std::vector<std::int64_t> values;
};

struct Choices {
  std::vector<std::int64_t> tensor, zero_stage, micro_batch_size;
  std::vector<DegreeChoices> degrees;  // all but tensor and pipeline, on which other choices depend
  std::vector<Recomputation> recompute;
  std::vector<std::string> split;

  Choices(const Inputs& inputs, Breadth breadth);

  // Returns only false for one tensor rank, and both values for more where the model is dense.
  std::vector<bool> sequence(std::int64_t tensor) const;
  // Returns the divisors of the GPUs left for pipeline and data ranks, up to the number of layers.
  std::vector<std::int64_t> pipeline(std::int64_t tensor, std::int64_t context) const;
  // Returns one kind for one pipeline rank, where all schedules are the same, and none that overlaps the all-to-all of
  // experts where a rank has them all.
  std::vector<std::string> schedule(std::int64_t pipeline, std::int64_t expert) const;
  std::vector<std::int64_t> virtual_stages(std::int64_t pipeline) const;
  // Returns one value unless experts lie on several ranks and kernels with SMs of their own move the tokens.
  std::vector<std::int64_t> communication_sms(std::int64_t expert) const;
  // Returns distinct splits. `costs` are asked for where stages are balanced.
  using Costs = std::function<model::Result<model::SplitCosts>()>;
  std::vector<Split> splits(std::int64_t stages, const Costs& costs) const;

 private:
  const Inputs& inputs_;
  Breadth breadth_;
};

}  // namespace plumbline::sim
