// Predicts a training step with the library, then plans the training of a model on two clusters and ranks them.
#include <cstdio>
#include <string>

#include "calibrate/residuals/left_estimate.h"
#include "model/architecture/load_architecture.h"
#include "model/plan/plan.h"
#include "model/profile/stack.h"
#include "sim/interval/interval.h"
#include "sim/predict/simulate.h"
#include "sim/search/plan_answer.h"
#include "topologies/topology.h"

namespace calibrate = plumbline::calibrate;
namespace model = plumbline::model;
namespace sim = plumbline::sim;
namespace topologies = plumbline::topologies;

const std::string data = DATA;

// Loads the inputs that the plan names from the shipped data.
model::Result<sim::Inputs> load_inputs(const model::Plan& plan) {
  const auto architecture = model::load_architecture_of(plan, data + "/examples/" + plan.model.config);
  if (!architecture) return tl::unexpected(architecture.error());
  const auto topology = topologies::load_topology(data + "/topologies/" + plan.cluster.topology + ".toml",
                                                  data + "/topologies/devices", topologies::variation_of(plan));
  if (!topology) return tl::unexpected(topology.error());
  const std::string name = plan.cluster.profile.value_or(topology->cluster.default_profile);
  const auto profile = model::load_profile(data + "/profiles/" + name + ".toml");
  if (!profile) return tl::unexpected(profile.error());
  const std::string software = plan.stack.name.value_or(profile->stack());
  const auto stack = model::load_stack(data + "/stacks/" + software + ".toml");
  if (!stack) return tl::unexpected(stack.error());
  model::Plan stacked = plan;
  if (const auto applied = model::apply_stack(*stack, *profile, stacked); !applied)
    return tl::unexpected(applied.error());
  sim::Inputs inputs{stacked, *architecture,   topology->cluster, with_stack(*profile, *stack),
                     nullptr, topology->fabric};
  const auto residuals = calibrate::load_left_cells(data + "/residuals.csv");
  if (!residuals) return tl::unexpected(residuals.error());
  const calibrate::StepKind kind = calibrate::step_kind(inputs);
  inputs.left = calibrate::left_of(*residuals, kind);
  inputs.memory_left = calibrate::left_of(*residuals, kind, {}, calibrate::LeftOf::memory);
  return inputs;
}

struct Step {
  double seconds = 0;
  model::Quantiles likely;
};

model::Result<Step> predict(const std::string& name) {
  const auto plan = model::load_plan(data + "/examples/" + name + ".toml", {});
  if (!plan) return tl::unexpected(plan.error());
  const auto inputs = load_inputs(*plan);
  if (!inputs) return tl::unexpected(inputs.error());
  const auto simulation = sim::simulate_on_network(*inputs, false);
  if (!simulation) return tl::unexpected(simulation.error());
  const auto interval = sim::interval_of(*inputs, simulation->result);
  if (!interval) return tl::unexpected(interval.error());
  return Step{simulation->result.step.time_s, interval->time_s};
}

// Finds the fastest plan on each cluster, and ranks the clusters by days of training.
model::Result<sim::PlanAnswer> ranking(const std::string& recipe_name, const std::vector<std::string>& clusters) {
  const auto recipe = sim::recipe_of_plan(data + "/examples/recipes/" + recipe_name + ".toml");
  if (!recipe) return tl::unexpected(recipe.error());
  sim::SearchOptions search;
  search.top = 1;
  search.breadth = sim::Breadth::quick;
  sim::PlanAnswer answer;
  for (const std::string& cluster : clusters) {
    auto option = sim::load_option(*recipe, {cluster, "", 64}, {"stack.name=megatron-core-2025"}, load_inputs);
    if (!option) return tl::unexpected(option.error());
    if (const auto searched = sim::search_option(*option, search); !searched) return tl::unexpected(searched.error());
    answer.options.push_back(std::move(*option));
  }
  sim::rank(answer);
  return answer;
}

int fail(const model::Error& error) {
  std::fprintf(stderr, "%s\n", to_string(error).c_str());
  return 1;
}

int main(int argc, char** argv) {
  const std::string name = argc > 1 ? argv[1] : "deepseek-v3-2048xh800";
  const auto step = predict(name);
  if (!step) return fail(step.error());
  std::printf("%s: %.2f s per step from components, %.2f to %.2f s in eight of ten cases\n", name.c_str(),
              step->seconds, step->likely.p10, step->likely.p90);
  const auto answer = ranking("llama-2-7b", {"h100-dgx", "h800-rail-fat-tree"});
  if (!answer) return fail(answer.error());
  for (std::size_t place = 0; place < answer->order.size(); ++place)
    std::printf("%zu. %s: %.1f days\n", place + 1, answer->options[answer->order[place]].cluster.c_str(),
                answer->best(place).cost.days.value_or(0));
  return 0;
}
