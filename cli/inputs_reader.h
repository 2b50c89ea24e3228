// Loads what a prediction is made of: plans, profiles, stacks, clusters, rates of failures.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "calibrate/reliability/reliability.h"
#include "calibrate/residuals/left_estimate.h"
#include "model/base/error.h"
#include "model/base/memo.h"
#include "model/plan/plan.h"
#include "model/profile/constant_rules.h"
#include "model/profile/profile.h"
#include "model/profile/stack.h"
#include "sim/predict/inputs.h"
#include "sim/predict/memos.h"
#include "topologies/topology.h"

namespace plumbline::cli {

struct ConstantChanges {  // changes of constants, by the file that has them
  std::vector<model::ConstantChange> profile, topology;
};

// Loads a profile by path (from the working directory, else from the folder of `plan_file`) or by the name of a shipped
// one. The profiles that it extends are in its folder or shipped.
model::Result<model::Profile> find_profile(const std::string& path_or_name, const std::string& plan_file = "");

// Loads a stack by path or by the name of a shipped one; `named_in` is the file that names it, `held_out` a set of
// steps on which no constant may rest.
model::Result<model::Stack> find_stack(const std::string& path_or_name, const std::string& named_in = "",
                                       const std::string& held_out = "");

// Loads rates of failures by path or by the name of shipped ones; `named_in` is the file that names them.
model::Result<calibrate::Reliability> find_reliability(const std::string& path_or_name,
                                                       const std::string& named_in = "");

// Loads a plan by path, by the name of a shipped one or its beginning, with overrides of its own keys.
model::Result<model::Plan> find_plan(const std::string& path_or_name, const std::vector<std::string>& overrides);

// Loads a topology by path, by the name of a shipped one or its beginning, with the devices of its folder or the
// shipped ones; `named_in` is the file that names it.
model::Result<topologies::Topology> find_topology(const std::string& path_or_name,
                                                  const topologies::Variation& variation,
                                                  const std::string& named_in = "");

// Moves the changes of constants out of the overrides; those of plan keys stay.
model::Result<ConstantChanges> take_constant_changes(std::vector<std::string>& overrides);

// Returns whether plans that differ in this KEY=VALUE can share a sim::Predictor.
bool is_of_plan_alone(std::string_view change);

// What a plan is read for; stated: to serve where it is a deployment (model::is_deployment), else to train.
enum class Purpose { training, serving, stated };

// Reads the inputs of several plans, each profile, stack and each variation of a topology once. It is safe for several
// threads.
class InputsReader {
 public:
  // For serving, the stack is that of inference.engine in place of the one with which the model was trained: one with
  // constants of serving, else an input error lists those. A plan without [inference] is served with its defaults.
  InputsReader() = default;
  explicit InputsReader(Purpose purpose) : purpose_(purpose) {}

  // Resolves and reads plan, model, cluster, profile and stack; a name of a plan or a cluster that is not given in full
  // is noted on stderr, once. `profile` overrides the plan's choice. The stack is the plan's, else the profile's, or
  // the one that stands there for models of this type: the plan has its settings, the profile its constants. An
  // override is KEY=VALUE with a key of the plan, or with a constant: profile.NAME=VALUE or topology.NAME=VALUE
  // (model/profile/constant_rules.h; names as `show profile` and `show topology` print them). The engines of a plan
  // with [rollout] are read with it; for serving a note on stderr states, once, that they are left out.
  model::Result<sim::Inputs> load(const std::string& plan, const std::vector<std::string>& overrides,
                                  const std::optional<std::string>& profile = std::nullopt);
  // Gives the inputs the campaign of their plan (sim/campaign/campaign.h), and returns the rates that it rests on:
  // those that campaign.reliability names, else those of the device. load() and of_plan() do so where run.goodput is
  // "campaign".
  model::Result<calibrate::Reliability> add_campaign(sim::Inputs& inputs);
  // Loads the inputs of a plan made in code; a relative model.config is searched among the shipped ones. No constant of
  // the stack rests on the steps of the set `held_out`, nor does what is left.
  model::Result<sim::Inputs> of_plan(const model::Plan& plan, const std::optional<std::string>& profile = std::nullopt,
                                     const ConstantChanges& changes = {}, const std::string& held_out = "");

 private:
  struct StackChoice {
    std::string key, name;  // of the plan
    bool given = false;     // by the plan, else by the profile
  };
  bool serves(const model::Plan& plan) const;
  StackChoice stack_of(const model::Plan& plan, const model::Profile& profile) const;
  // Returns the profile with the constants of the stack, and gives the plan the settings of the stack. A name
  // scaled:NAME gives those of NAME as an estimate on the device.
  model::Result<model::Profile> profile_of(model::Plan& plan, const std::string& name,
                                           const std::vector<model::ConstantChange>& changes,
                                           const std::string& held_out, const model::Device& device,
                                           const std::string& model_type);
  // Adds what is left of the times and the memory of steps of this kind, or of the rates of such deployments, by the
  // shipped residuals: those of other sets than the one held out, for deployments of other engines than that set's.
  model::Result<void> add_left(sim::Inputs& inputs, const std::string& held_out);
  // Replaces cluster.background_plan by the mean load of that plan.
  model::Result<void> add_background(model::Plan& plan);
  model::Result<topologies::Topology> topology_of(const model::Plan& plan,
                                                  const std::vector<model::ConstantChange>& changes);

  Purpose purpose_ = Purpose::training;
  std::once_flag noted_rollout_;
  model::Memo<std::string, model::Result<std::string>> names_;  // whole ones of plans and clusters, by what was given
  model::Memo<std::pair<std::string, std::string>, model::Result<model::Profile>> profiles_;  // by name and plan file
  model::Memo<std::array<std::string, 3>, model::Result<model::Stack>> stacks_;  // by name, plan file and held-out set
  model::Memo<std::pair<std::string, std::string>, model::Result<std::string>> stand_ins_;  // by stack and device
  model::Memo<std::string, model::Result<topologies::Topology>> topologies_;         // by name, plan file and variation
  model::Memo<std::string, model::Result<topologies::Background>> backgrounds_;      // by plan that states another
  model::Memo<std::string, model::Result<std::vector<calibrate::LeftCell>>> cells_;  // by file
  model::Memo<std::string, model::Result<calibrate::Reliability>> reliability_;  // by the plan's name, or the device
  std::shared_ptr<sim::ExpertGroupMemo> routing_ = std::make_shared<sim::ExpertGroupMemo>();  // of all inputs
  // Of what was measured, by kind, held-out set, and whether it is of deployments.
  model::Memo<std::tuple<calibrate::StepKind, std::string, bool>, std::map<calibrate::LeftOf, std::optional<sim::Left>>>
      left_;
};

// Returns the plan with the numbers that its rule of balanced stages gives, for programs that read plans without their
// cluster; an invalid plan as it is. Errors: those of InputsReader::of_plan().
model::Result<model::Plan> with_stage_layers(model::Plan plan);

// Loads the inputs of one plan.
inline model::Result<sim::Inputs> load_inputs(const std::string& plan, const std::vector<std::string>& overrides) {
  return InputsReader().load(plan, overrides);
}

}  // namespace plumbline::cli
