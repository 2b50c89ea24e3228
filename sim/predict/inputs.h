// The inputs of a prediction: the plan, the model, the cluster, and the constants of the profile.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>

#include "model/architecture/architecture.h"
#include "model/cost/constants.h"
#include "model/plan/plan.h"
#include "model/profile/cluster.h"
#include "model/profile/profile.h"
#include "sim/interval/left.h"
#include "topologies/fabric.h"

namespace plumbline::sim {

struct CampaignInput;
class ContentionTable;
class LinksMemo;
class PassGraphs;
class ExpertGroupMemo;
class ScheduleTables;

// Related plans share the memos; each memo may be null.
struct Inputs {
  model::Plan plan;
  model::Architecture architecture;
  model::ClusterShape cluster;
  model::Profile profile;
  std::shared_ptr<ExpertGroupMemo> routing = nullptr;
  std::optional<topologies::FabricShape> fabric = std::nullopt;  // wiring; without it, links have the cluster's rates
  // Slowdown of expert groups on shared links, for loops that share none. The SimGrid loop needs no table.
  std::shared_ptr<const ContentionTable> contention = nullptr;
  std::shared_ptr<LinksMemo> links = nullptr;           // all inputs that share it have the same fabric
  std::shared_ptr<ScheduleTables> tables = nullptr;     // of schedules
  std::shared_ptr<PassGraphs> passes = nullptr;         // of inference; all inputs that share it have the same model
  std::optional<double> power_exponent = std::nullopt;  // model::PowerModel::Limit::exponent
  std::optional<Left> left = std::nullopt;              // of steps, of deployments the TPOT; for intervals
  std::optional<Left> memory_left = std::nullopt;       // of the fullest rank's peak
  std::optional<Left> rate_left = std::nullopt;         // of deployments: of output tokens per second
  std::optional<Left> ttft_left = std::nullopt;         // of deployments: of the TTFT
  // Factors on the times of single kernel shapes, which must outlive the inputs; null: none.
  const model::ShapeFactors* shapes = nullptr;
  // Failures, checkpoints and stops of the whole training, its phases not included; null: run.goodput asks for none.
  std::shared_ptr<const CampaignInput> campaign = nullptr;
  std::map<std::int64_t, double> slow_gpus = {};  // of fidelity `cluster`: the speed of GPUs over that of the others
  bool every_link = false;  // all links of an expert group, not only those of the representative GPU
  // The small model that inference.draft names; null where it names none.
  std::shared_ptr<const model::Architecture> draft = nullptr;
  // Of a plan with [rollout]: the deployment that generates (model::engine_plan()), and the model that
  // rollout.reward_model names; else null.
  std::shared_ptr<const Inputs> engines = nullptr;
  std::shared_ptr<const model::Architecture> reward = nullptr;
};

}  // namespace plumbline::sim
