// What the sources of the Python module share: what Python hands over as a plan, and as changes to one.
#pragma once

#include <pybind11/pybind11.h>

#include <string>
#include <vector>

#include "cli/inputs.h"
#include "model/base/error.h"
#include "sim/predict/inputs.h"

namespace plumbline::python {

// An error that crosses into Python as plumbline.InputError or plumbline.InfeasibleError.
struct Raised {
  model::Error error;
};

// Returns the value of a result; throws Raised where it has none.
template <class T>
T value_or_raise(model::Result<T> result) {
  if (!result) throw Raised{std::move(result.error())};
  return std::move(*result);
}

// A plan as text, with changes to it.
struct PlanInput {
  std::string text;
  std::string file;       // whose folder is searched for files that the plan names; also the name in errors
  bool is_given = false;  // made of a dict, so that line numbers mean nothing
  std::vector<std::string> overrides;  // KEY=VALUE
};

// Reads a plan: a dict (with an attribute `file`, that of its text), TOML text (more than one line), or the path or
// shipped name of a plan. Changes are a mapping of dotted keys, or null. Throws Raised for a plan that is not found,
// and TypeError for a value that TOML lacks.
PlanInput plan_input(const pybind11::handle& plan, const pybind11::handle& changes);

// Returns KEY=VALUE for each dotted key; two underscores stand for a dot.
std::vector<std::string> overrides_of(const pybind11::handle& changes);

// Returns the inputs of the plan with further changes. Errors of a dict have no line.
model::Result<sim::Inputs> load_inputs(cli::InputsReader& reader, const PlanInput& input,
                                       const std::vector<std::string>& further = {});

// Adds the classes Predictor and Estimate to the module.
void bind_predictor(pybind11::module_& module);

}  // namespace plumbline::python
