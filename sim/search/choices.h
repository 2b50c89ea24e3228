// The values that a search tries for each key: the lists of the plan's [search], else those that make sense for the
// model and the cluster, and the plan's own. What divides what is not looked at here (sim/search/space.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/architecture/architecture.h"
#include "model/plan/plan.h"
#include "sim/predict/inputs.h"

namespace plumbline::sim {

// What is recomputed, by the words of search.recompute:
//   none       nothing
//   selective  operators that are cheap to run again: norms, the gate of the MLP, up-projections of latent attention,
//              and attention itself where its kernel stores the scores
//   mlp        those and the first products of dense MLPs
//   moe        those, dense MLPs and experts
//   half       whole layers, for half of each stage's
//   full       whole layers
//   given      what the plan says under [recompute]
struct Recomputation {
  std::string word;
  std::string policy;
  std::vector<std::string> operators;
  std::optional<std::int64_t> layers;
  bool half = false;  // `layers` follows from the stage

  void apply(model::Plan& plan, std::int64_t half_of_a_stage) const;
};

// How layers are divided over stages, by the words of search.split: `even` as model::even_layer_counts; first-1,
// last-1, last-2 and ends-1 give the first, the last or both so many fewer and spread those over the others; `given`
// is schedule.layers_per_stage, where it has as many entries as there are stages.
struct Split {
  std::string word;
  std::vector<std::int64_t> layers;  // empty: even
};

// How many values a key has that [search] does not name. quick: those that win where all are tried, for an answer in
// seconds; complete: all that make sense.
enum class Breadth { quick, complete };

// What a search tries for a degree, whatever the others are.
struct DegreeChoices {
  std::int64_t model::Plan::Parallelism::*degree;
  std::vector<std::int64_t> values;
};

struct Choices {
  std::vector<std::int64_t> tensor, zero_stage, micro_batch_size;
  std::vector<DegreeChoices> degrees;  // all but tensor and pipeline, on which other choices depend
  std::vector<Recomputation> recompute;
  std::vector<std::string> split;

  Choices(const Inputs& inputs, Breadth breadth);

  // Sequence parallelism: off for one tensor rank; with more, both ways where the model is dense.
  std::vector<bool> sequence(std::int64_t tensor) const;
  // Divisors of the GPUs that are left for pipeline and data ranks, as far as there are layers.
  std::vector<std::int64_t> pipeline(std::int64_t tensor, std::int64_t context) const;
  // One pipeline rank leaves nothing to schedule: one kind stands for all.
  std::vector<std::string> schedule(std::int64_t pipeline) const;
  std::vector<std::int64_t> virtual_stages(std::int64_t pipeline) const;
  // Communication SMs matter where experts lie on several ranks.
  std::vector<std::int64_t> communication_sms(std::int64_t expert) const;
  // Distinct ones.
  std::vector<Split> splits(std::int64_t stages) const;

 private:
  const Inputs& inputs_;
  Breadth breadth_;
};

}  // namespace plumbline::sim
