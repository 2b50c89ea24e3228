// What searches of trainings and of deployments share: the arguments of the verb `plan`, its cluster options, and the
// plan that it writes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/inputs.h"
#include "cli/outputs.h"
#include "cli/verb.h"
#include "model/base/error.h"
#include "sim/deployment/deployment_answer.h"
#include "sim/rollout/rollout.h"
#include "sim/search/cluster_option.h"
#include "sim/search/plan_answer.h"
#include "sim/tasks/tasks.h"

namespace plumbline::cli {

// The question that a search answers.
struct SearchRequest {
  PlanArguments plan;
  std::vector<std::int64_t> gpus;
  std::vector<std::string> clusters, offers;
  std::string objective = "time", deadline, budget, tokens;
  std::optional<double> confidence;  // of limits of a deployment's times
  static constexpr std::size_t most_top = 1000;
  std::size_t top = 5;
  unsigned threads = 0;
  bool complete = false, exhaustive = false, any_software = false;
};

struct SearchArguments : SearchRequest {
  std::string resume;
  Outputs outputs;
};

// Returns the recipe of the request's subject; where its name is not given in full, that is one of its statements.
model::Result<sim::Recipe> find_recipe(const SearchRequest& request);

// Returns the keys that the request gives: those of --set, and run.tokens by --tokens. A key that is given twice is an
// input error.
model::Result<std::vector<std::string>> overrides_of(const SearchRequest& request);

// Returns each cluster of each size, and each offer. A cluster that cannot be wired with that size stays an option with
// its error. A name that is not given in full is a note of the option. Errors: also those of overrides_of().
model::Result<std::vector<sim::ClusterOption>> load_options(const SearchRequest& request, const sim::Recipe& recipe,
                                                            Purpose purpose);

// Returns whether the question is that of a plan with [rollout].
bool trains_by_rollout(const std::vector<sim::ClusterOption>& options);

// Searches the plans of a recipe on each of its options, ranks them and finds what would change the answer; `stopped`
// ends a search early. Deployments are those of an objective for which sim::serves() holds, splits of GPUs those of a
// question for which trains_by_rollout() holds.
model::Result<sim::PlanAnswer> find_plans(const SearchRequest& request, const sim::Recipe& recipe,
                                          std::vector<sim::ClusterOption> options, sim::Tasks& tasks,
                                          const std::function<bool()>& stopped);
model::Result<sim::RolloutAnswer> find_rollouts(const SearchRequest& request, const sim::Recipe& recipe,
                                                std::vector<sim::ClusterOption> options,
                                                const std::function<bool()>& stopped);
model::Result<sim::DeploymentAnswer> find_deployments(const SearchRequest& request, const sim::Recipe& recipe,
                                                      const std::function<bool()>& stopped);

// Returns the text of a plan that can be read from any folder: the files that it names have their whole paths. A
// deployment has only the keys on which it depends.
model::Result<std::string> plan_file(model::Plan plan);

// Searches the deployments that serve best by an objective for which sim::serves() holds; returns the exit code.
model::Result<int> plan_deployments(const SearchArguments& arguments);

// Searches the splits of GPUs of a question for which trains_by_rollout() holds; returns the exit code.
model::Result<int> plan_rollouts(const SearchArguments& arguments, const sim::Recipe& recipe,
                                 std::vector<sim::ClusterOption> options);

}  // namespace plumbline::cli
