// The verbs as functions that return their JSON.
#pragma once

#include <pybind11/pybind11.h>

namespace plumbline::python {

// Adds the class Engine, whose methods are the verbs, to the module.
void bind_engine(pybind11::module_& module);
// Adds the classes Predictor and Estimate.
void bind_predictor(pybind11::module_& module);

}  // namespace plumbline::python
