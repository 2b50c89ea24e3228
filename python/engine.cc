// The Python module plumbline._core: the verbs as functions that return their JSON. The package around it is in
// python/plumbline.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cli/answers.h"
#include "cli/data.h"
#include "cli/plan/plan_verb.h"
#include "model/base/version.h"
#include "python/plan_input.h"
#include "reports/json/json.h"
#include "reports/text/compare/comparison.h"
#include "reports/text/compare/validation_report.h"
#include "reports/text/plan/plan_report.h"
#include "reports/text/serving/serving_report.h"
#include "reports/text/whatif/whatif_report.h"

namespace plumbline::python {
namespace {

namespace py = pybind11;
using cli::InputsReader;
using model::Result;
using Names = std::vector<std::string>;

// Asks Python for signals while its lock is not held. After an interruption the exception is pending in Python.
class SignalWatch {
 public:
  // Returns whether the user has interrupted. Python handles signals on its main thread only.
  bool requested() {
    constexpr std::chrono::milliseconds pause(50);
    const auto now = std::chrono::steady_clock::now();
    if (std::this_thread::get_id() != thread_ || now < next_) return requested_;
    next_ = now + pause;
    const py::gil_scoped_acquire locked;
    if (PyErr_CheckSignals() != 0) {
      PyErr_Clear();
      requested_ = true;
    }
    return requested_;
  }
  void raise() const {
    if (!requested_) return;
    PyErr_SetNone(PyExc_KeyboardInterrupt);
    throw py::error_already_set();
  }

 private:
  std::thread::id thread_ = std::this_thread::get_id();
  std::chrono::steady_clock::time_point next_;
  std::atomic<bool> requested_ = false;
};

void check_confidence(double share) {
  if (!(share >= 0.05 && share <= 0.95)) throw py::value_error("confidence: a share of the cases from 0.05 to 0.95");
}

// The verbs. SimGrid has one engine per process, so that a process has one object, and one of its methods runs at a
// time, on all cores; Python's lock is released meanwhile.
class Engine {
 public:
  std::string simulate(const py::object& plan, const py::object& set, const std::string& fidelity, bool interval,
                       std::size_t draws, std::uint64_t seed, std::optional<std::int64_t> seeds,
                       const std::optional<std::string>& measured, const std::optional<std::string>& measured_memory) {
    const PlanInput input = plan_input(plan, set);
    return run([&](const sim::Watch& watch) -> Result<std::string> {
      cli::StepRequest request{.fidelity = TRY(sim::parse_fidelity(fidelity)), .seeds = seeds};
      request.with_interval = request.with_assumed = interval;
      request.interval = {.draws = draws, .seed = seed};
      request.watch = watch;
      InputsReader reader;
      const auto inputs = TRY(load_inputs(reader, input));
      if (measured) request.measured = TRY(cli::read_measured(*measured, measured_memory, inputs.plan));
      return reports::to_json(TRY(cli::predict_step(inputs, request)).result, inputs.plan);
    });
  }

  std::string memory(const py::object& plan, const py::object& set, std::optional<std::int64_t> rank) {
    const PlanInput input = plan_input(plan, set);
    return run([&](const sim::Watch&) -> Result<std::string> {
      InputsReader reader;
      const auto inputs = TRY(load_inputs(reader, input));
      return cli::memory_json(TRY(cli::predict_memory(inputs, rank)), inputs);
    });
  }

  std::string serve(const py::object& plan, const py::object& set, bool interval, std::size_t draws, std::uint64_t seed,
                    double confidence, const std::optional<std::string>& measured) {
    check_confidence(confidence);
    const PlanInput input = plan_input(plan, set);
    return run([&](const sim::Watch& watch) -> Result<std::string> {
      InputsReader reader(cli::Purpose::serving);
      const auto inputs = TRY(load_inputs(reader, input));
      std::optional<sim::MeasuredValue> figure;
      if (measured) figure = TRY(sim::parse_measured_deployment(*measured));
      std::optional<sim::IntervalOptions> options;
      if (interval) options = {.draws = draws, .seed = seed, .watch = watch};
      const auto result = TRY(cli::predict_deployment(inputs, options, confidence));
      reports::ServingReport report{inputs, result, TRY(cli::published_figures(inputs.plan, input.overrides))};
      if (figure) report.measured = TRY(sim::measured_deployment(result, *figure));
      return reports::serving_json(report);
    });
  }

  std::string sweep(const py::object& plan, const Names& over, const py::object& set, const std::string& fidelity,
                    bool intervals, unsigned threads) {
    const PlanInput input = plan_input(plan, set);
    return run([&](const sim::Watch& watch) -> Result<std::string> {
      sim::SweepOptions options;
      options.fidelity = TRY(cli::sweep_fidelity(fidelity));
      options.intervals = intervals;
      options.threads = threads;
      options.watch = watch;
      auto grid = TRY(cli::sweep_grid(over, input.overrides));
      InputsReader reader(cli::Purpose::stated);
      const auto inputs = [&](const Names& changes) { return load_inputs(reader, input, changes); };
      return reports::sweep_json(TRY(sim::sweep(std::move(grid), inputs, {}, options)));
    });
  }

  std::string plan(const py::object& subject, const std::vector<std::int64_t>& gpus, const Names& clusters,
                   const Names& offers, const std::string& objective, const std::string& deadline,
                   const std::string& budget, const std::string& tokens, std::size_t top, bool complete,
                   unsigned threads, const std::optional<double>& confidence, const py::object& set) {
    if (confidence) check_confidence(*confidence);
    cli::SearchRequest request;
    request.gpus = gpus;
    request.clusters = clusters;
    request.offers = offers;
    request.objective = objective;
    request.deadline = deadline;
    request.budget = budget;
    request.tokens = tokens;
    request.top = top;
    request.complete = complete;
    request.threads = threads;
    request.confidence = confidence;
    request.plan.overrides = overrides_of(set);
    const sim::Recipe recipe = recipe_of(subject, request);
    return run([&](const sim::Watch& watch) -> Result<std::string> {
      if (sim::serves(TRY(sim::parse_objective(objective))))
        return reports::deployment_json(TRY(cli::find_deployments(request, recipe, watch.stopped)));
      auto options = TRY(cli::load_options(request, recipe, cli::Purpose::training));
      if (cli::trains_by_rollout(options))
        return reports::rollout_plans_json(TRY(cli::find_rollouts(request, recipe, std::move(options), watch.stopped)));
      return reports::plan_json(
          TRY(cli::find_plans(request, recipe, std::move(options), sim::local_tasks(), watch.stopped)));
    });
  }

  std::string compare(const Names& names, const std::map<std::string, std::string>& results,
                      const std::map<std::string, py::object>& plans, const py::object& set, const Names& clusters,
                      const std::vector<std::int64_t>& gpus, const std::string& fidelity, const std::string& against,
                      bool by_class, bool intervals) {
    cli::SubjectRequest request{names, clusters, gpus, overrides_of(set), std::nullopt};
    request.texts = results;
    for (const auto& [name, plan] : plans) {
      PlanInput input = plan_input(plan, py::none());
      if (!input.overrides.empty()) throw py::key_error("a plan to compare has its keys in tables");
      request.texts[name] = std::move(input.text);
    }
    request.intervals = intervals;
    if (against != "first" && against != "previous") throw py::value_error("against: first or previous");
    return run([&](const sim::Watch&) -> Result<std::string> {
      request.fidelity = TRY(sim::parse_fidelity(fidelity));
      auto subjects = TRY(cli::comparison_subjects(request));
      return reports::result_comparison_json(model::compare_results(
          std::move(subjects), against == "first" ? model::Against::first : model::Against::previous,
          by_class ? model::WaterfallDetail::classes : model::WaterfallDetail::categories));
    });
  }

  std::string compare_trace(const py::object& plan, const std::string& name, const py::object& set,
                            const std::string& trace, std::optional<std::int32_t> rank) {
    const PlanInput input = plan_input(plan, set);
    return run([&](const sim::Watch&) -> Result<std::string> {
      InputsReader reader;
      return cli::compare_kernel_trace(TRY(load_inputs(reader, input)), name, trace, rank);
    });
  }

  std::string validate(const Names& cases) {
    return run([&](const sim::Watch& watch) -> Result<std::string> {
      return reports::validation_json(TRY(cli::validate_cases(cases, watch)));
    });
  }

 private:
  template <class Work>
  std::string run(const Work& work) {
    SignalWatch signals;
    auto answer = [&] {
      const py::gil_scoped_release released;
      const std::scoped_lock lock(mutex_);
      return work(sim::Watch{[&signals] { return signals.requested(); }});
    }();
    signals.raise();
    return value_or_raise(std::move(answer));
  }

  static sim::Recipe recipe_of(const py::object& subject, cli::SearchRequest request) {
    const bool is_text =
        py::isinstance<py::str>(subject) && py::cast<std::string>(subject).find('\n') != std::string::npos;
    if (!is_text && !py::isinstance<py::dict>(subject)) {
      request.plan.plan = py::cast<std::string>(py::module_::import("os").attr("fspath")(subject));
      return value_or_raise(cli::find_recipe(request));
    }
    PlanInput input = plan_input(subject, py::none());
    if (!input.overrides.empty()) throw py::key_error("a plan to search around has its keys in tables");
    return {"plan", std::move(input.text), std::move(input.file), {}, {}};
  }

  std::mutex mutex_;
};

// Returns the effective plan as TOML, with every default written out.
std::string effective_plan(const py::object& plan, const py::object& set) {
  const PlanInput input = plan_input(plan, set);
  const py::gil_scoped_release released;
  InputsReader reader;
  return model::to_toml(value_or_raise(load_inputs(reader, input)).plan);
}

// Returns the text of a plan, the file it is from, and what stands in it as overrides.
py::tuple plan_text(const py::object& plan) {
  const PlanInput input = plan_input(plan, py::none());
  return py::make_tuple(input.text, input.file, input.overrides);
}

// Adds the class Engine, whose methods are the verbs, to the module.
void bind_engine(py::module_& module) {
  py::class_<Engine>(module, "Engine")
      .def(py::init<>())
      .def("simulate", &Engine::simulate)
      .def("memory", &Engine::memory)
      .def("serve", &Engine::serve)
      .def("sweep", &Engine::sweep)
      .def("plan", &Engine::plan)
      .def("compare", &Engine::compare)
      .def("compare_trace", &Engine::compare_trace)
      .def("validate", &Engine::validate);
  module.def("is_trace", &cli::is_kernel_trace);
  module.def("effective_plan", &effective_plan);
  module.def("overrides", [](const py::object& set) { return overrides_of(set); });
  module.def("plan_text", &plan_text);
  module.def("toml_value",
             [](const py::object& value) { return overrides_of(py::dict(py::arg("v") = value)).front().substr(2); });
  module.def("version", [] { return std::string(model::version); });
  module.def("data_folder", [] { return value_or_raise(cli::data_folder()); });
}

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
}  // namespace plumbline::python

PYBIND11_MODULE(_core, module) {
  pybind11::register_exception_translator([](std::exception_ptr thrown) {
    try {
      if (thrown) std::rethrow_exception(thrown);
    } catch (const plumbline::python::Raised& raised) {
      plumbline::python::raise(raised.error);
    }
  });
  plumbline::python::bind_engine(module);
  plumbline::python::bind_predictor(module);
}
