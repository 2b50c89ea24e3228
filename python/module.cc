// The Python module plumbline._core. The package around it is in python/plumbline.
#include <pybind11/pybind11.h>

#include "python/engine.h"
#include "python/plan_input.h"

namespace {

namespace py = pybind11;
namespace model = plumbline::model;

// Raises the exception of the package that the error is: its text is what the command prints.
void raise(const model::Error& error) {
  const char* name = error.kind == model::ErrorKind::infeasible ? "InfeasibleError" : "InputError";
  const py::object type = py::module_::import("plumbline._errors").attr(name);
  const auto or_none = [](const std::string& text) -> py::object {
    if (text.empty()) return py::none();
    return py::str(text);
  };
  const py::object line = error.line > 0 ? py::object(py::int_(error.line)) : py::none();
  const py::object raised =
      type(model::to_string(error), error.message, or_none(error.file), line, or_none(error.key), or_none(error.hint));
  PyErr_SetObject(type.ptr(), raised.ptr());
}

}  // namespace

PYBIND11_MODULE(_core, module) {
  py::register_exception_translator([](std::exception_ptr thrown) {
    try {
      if (thrown) std::rethrow_exception(thrown);
    } catch (const plumbline::python::Raised& raised) {
      raise(raised.error);
    }
  });
  plumbline::python::bind_engine(module);
  plumbline::python::bind_predictor(module);
}
