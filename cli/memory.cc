#include "model/memory/memory.h"

#include <fmt/format.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "cli/answers.h"
#include "cli/inputs.h"
#include "cli/outputs.h"
#include "cli/verb.h"
#include "model/plan/layout.h"
#include "model/program/compile.h"
#include "reports/charts/charts.h"
#include "reports/json/json.h"
#include "reports/text/step/describe.h"
#include "reports/text/step/summary.h"
#include "sim/analysis/memory_advice.h"
#include "sim/interval/interval.h"
#include "sim/predict/memos.h"
#include "sim/predict/simulate.h"
#include "sim/rollout/rollout.h"

namespace plumbline::cli {
namespace {

struct MemoryArguments {
  PlanArguments plan;
  Outputs outputs;
  std::optional<std::int64_t> rank;
};

std::vector<model::Parameter> reserve_constants(const sim::Inputs& inputs) {
  std::vector<model::Parameter> constants;
  for (const model::Parameter& parameter : inputs.cluster.parameters)
    if (parameter.name.starts_with("device.reserve.") || parameter.name.starts_with("host."))
      constants.push_back(parameter);
  for (const model::Parameter& parameter : inputs.profile.parameters())
    if (parameter.name.starts_with("allocator.")) constants.push_back(parameter);
  return constants;
}

model::Result<void> write_files(const MemoryArguments& arguments, const sim::Inputs& inputs,
                                const MemoryAnswer& account) {
  const auto svg = [&] {
    return reports::line_chart_svg(
        reports::memory_chart(account.levels, account.memory.capacity_bytes, reports::model_name(inputs.plan)));
  };
  return arguments.outputs.write({{"--json", [&] { return memory_json(account, inputs); }},
                                  {"--csv", [&] { return reports::memory_csv(account.memory); }},
                                  {"--svg", svg}});
}

model::Result<int> run(const MemoryArguments& arguments) {
  const auto inputs = TRY(load_inputs(arguments.plan.plan, arguments.plan.overrides));
  if (arguments.plan.print) return printed(model::to_toml(inputs.plan));
  const auto account = TRY(predict_memory(inputs, arguments.rank));
  if (const auto layout = model::make_layout(inputs.plan, inputs.architecture))
    for (const std::string& sentence : model::layout_warnings(inputs.plan, *layout))
      fmt::print(stderr, "warning: {}\n", sentence);
  TRY(write_files(arguments, inputs, account));
  const model::Memory& memory = account.memory;
  const reports::Style style = {.color = color()};
  TRY(arguments.outputs.print(
      reports::plan_title(inputs.plan, inputs.cluster.device.name, style) + reports::memory_summary(memory, style) +
      reports::memory_plot(account.levels, memory.capacity_bytes, style) +
      (account.advice ? reports::memory_advice(*account.advice, memory.capacity_bytes, style) : "") +
      (account.rollout ? "\n" + reports::rollout_memory_text(*account.rollout) : "")));
  if (account.rollout_error) return tl::unexpected(*account.rollout_error);
  std::string reason = model::infeasible_reason(memory);
  if (reason.empty() && account.rollout) reason = model::infeasible_reason(*account.rollout);
  if (reason.empty()) return 0;
  fmt::print(stderr, "{}\n", reason);
  return infeasible_exit;
}

}  // namespace

model::Result<MemoryAnswer> predict_memory(const sim::Inputs& inputs, std::optional<std::int64_t> rank) {
  const auto layout = TRY(model::make_layout(inputs.plan, inputs.architecture));
  const auto program = TRY(model::compile(inputs.plan, inputs.architecture, layout, sim::spread_of(inputs)));
  const auto ranks = static_cast<std::int64_t>(program.schedule.ranks.size());
  if (rank && (*rank < 0 || *rank >= ranks))
    return model::wrong_input("--rank", fmt::format("there is no pipeline rank {}", *rank),
                              fmt::format("ranks are 0 to {}", ranks - 1));
  const std::vector<model::SlotMemory> slots = model::slot_memories(program);
  MemoryAnswer account;
  account.memory =
      model::memory(inputs.plan, layout, program, model::with_allocator(inputs.cluster.device, inputs.profile), slots);
  const std::int64_t shown = rank.value_or(model::fullest_rank(account.memory)->rank);
  account.levels = model::rank_levels(account.memory, program, slots, static_cast<std::size_t>(shown));
  sim::add_fit(inputs, account.memory);
  if (model::fit_of(account.memory) != model::Fit::fits) account.advice = sim::memory_advice(inputs);
  if (!inputs.engines) return account;
  auto update = TRY(sim::simulate(inputs, sim::Fidelity::closed_form, false)).result;
  TRY(sim::add_rollout(inputs, update, std::nullopt, {}));
  if (update.rollout) account.rollout = update.rollout->memory;
  account.rollout_error = std::move(update.rollout_error);
  return account;
}

std::string memory_json(const MemoryAnswer& answer, const sim::Inputs& inputs) {
  return reports::memory_to_json(answer.memory, inputs.plan,
                                 {&answer.levels, answer.advice ? &*answer.advice : nullptr, reserve_constants(inputs),
                                  answer.rollout, answer.rollout_error ? model::reason_of(*answer.rollout_error) : ""});
}

void add_memory(CLI::App& root, int& exit_code) {
  CLI::App* verb = root.add_subcommand(
      "memory", "Predict memory per pipeline rank over a step: does it fit, what is largest, what would make it fit");
  const auto arguments = std::make_shared<MemoryArguments>();
  add_plan_arguments(*verb, arguments->plan);
  verb->add_option("--rank", arguments->rank,
                   "Pipeline rank to show over the step; default: the one with the highest peak");
  arguments->outputs.add(*verb, "--json", "Write the result as JSON to a file, or - for stdout");
  arguments->outputs.add(*verb, "--csv", "Write a row for each pipeline rank as CSV to a file, or - for stdout");
  arguments->outputs.add(*verb, "--svg", "Draw the rank over the step to a file, or - for stdout");
  arguments->outputs.add_page(*verb);
  verb->footer(
      "Examples:\n"
      "  plumbline memory examples/deepseek-v3-2048xh800.toml\n"
      "  plumbline memory deepseek-v3-2048xh800 --rank 0 --svg rank0.svg\n"
      "  plumbline memory deepseek-v3-2048xh800 --set recompute.policy=none --json -");
  verb->callback([arguments, &exit_code] { exit_code = exit_of(run(*arguments)); });
}

}  // namespace plumbline::cli
