// The output of `plumbline sweep`: a sweep, a tornado, and the solution for a target.
#pragma once

#include <string>

#include "sim/whatif/solve_plan.h"
#include "sim/whatif/sweep.h"
#include "sim/whatif/tornado.h"

namespace plumbline::reports {

// Returns the model's name, without those of its keys that are swept.
std::string model_title(const sim::SweepResult& result);

// Returns the sentence on what times and steps without an interval are.
std::string components_sentence(bool deployments);

std::string sweep_text(const sim::SweepResult& result, bool color);  // table and sentences
std::string sweep_csv(const sim::SweepResult& result);               // a row per point
std::string rollout_sweep_csv(const sim::SweepResult& result);       // the same of reinforcement learning
std::string sweep_json(const sim::SweepResult& result);
std::string sweep_svg(const sim::SweepResult& result);  // needs a numeric axis

std::string tornado_text(const sim::TornadoResult& result, bool color);
std::string tornado_json(const sim::TornadoResult& result);
std::string tornado_csv(const sim::TornadoResult& result);  // a row for each setting of an input
std::string tornado_svg(const sim::TornadoResult& result);

std::string solve_text(const sim::SolveResult& result, bool color);
std::string solve_json(const sim::SolveResult& result);
std::string solve_csv(const sim::SolveResult& result);  // a row for each value that was tried

}  // namespace plumbline::reports
