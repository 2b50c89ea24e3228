// The verbs of the command line, one file each. add_<verb> registers the subcommand with its help and examples. When
// the user chooses it, its callback runs it and sets exit_code: 0 ok, 1 wrong input, 2 infeasible plan, 3 tolerance
// exceeded, 77 no device to measure.
#pragma once

#include <CLI/CLI.hpp>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/base/error.h"

namespace plumbline::sim {
struct Inputs;      // sim/predict/inputs.h
struct Simulation;  // sim/predict/simulate.h
}  // namespace plumbline::sim

namespace plumbline::cli {

class Outputs;  // cli/outputs.h
struct World;   // cli/world.h

// The exit code where no plan fits or a plan cannot be laid out.
inline constexpr int infeasible_exit = 2;

void add_plan(CLI::App& root, int& exit_code, const World& world);
void add_simulate(CLI::App& root, int& exit_code);
void add_campaign(CLI::App& root, int& exit_code, const World& world);
void add_memory(CLI::App& root, int& exit_code);
void add_serve(CLI::App& root, int& exit_code);
void add_schedule(CLI::App& root, int& exit_code);
void add_sweep(CLI::App& root, int& exit_code, const World& world);
void add_validate(CLI::App& root, int& exit_code);
void add_compare(CLI::App& root, int& exit_code);
void add_measure(CLI::App& root, int& exit_code, const World& world);
void add_calibrate(CLI::App& root, int& exit_code);
void add_run(CLI::App& root, int& exit_code, const World& world);
void add_show(CLI::App& root, int& exit_code);
void add_import(CLI::App& root, int& exit_code);
void add_export(CLI::App& root, int& exit_code);
void add_report(CLI::App& root, int& exit_code);
void add_playground(CLI::App& root, int& exit_code);
// Verbs about the command itself (cli/manual): completion, man, help, version.
void add_manual(CLI::App& root, int& exit_code);

// Writes the outputs of a simulated step and prints it, as `simulate` does, and returns its exit code. A plan without
// overrides is shown with what is published of it.
model::Result<int> show_step(const Outputs& outputs, const std::vector<std::string>& overrides,
                             const sim::Inputs& inputs, const sim::Simulation& simulation);

// The arguments of every verb that takes a plan: the plan itself and changes to it.
struct PlanArguments {
  std::string plan;
  std::vector<std::string> overrides;
  bool print = false;
};
void add_plan_arguments(CLI::App& verb, PlanArguments& arguments);

// Adds an option that may be repeated, with one value each time.
void add_repeatable(CLI::App& verb, const std::string& option, std::vector<std::string>& values,
                    const std::string& help);

// Returns an input error about the first of these options that is given.
model::Result<void> refuse_given(std::initializer_list<std::pair<const char*, bool>> options, std::string_view message,
                                 std::string_view hint = "leave it out");

// Whether stdout is a terminal that may be coloured (NO_COLOR is honoured).
bool color();

}  // namespace plumbline::cli
