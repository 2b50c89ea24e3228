#include "python/plan_input.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "cli/data.h"
#include "model/base/text.h"
#include "model/base/text_file.h"
#include "model/plan/plan.h"

namespace plumbline::python {
namespace {

namespace py = pybind11;
using model::Result;

std::string toml_of(const py::handle& value);

std::string type_name(const py::handle& value) { return py::cast<std::string>(py::type::of(value).attr("__name__")); }

std::string key_text(const py::handle& key) {
  if (!py::isinstance<py::str>(key))
    throw py::type_error(fmt::format("a key of a plan is a string, not of type {}", type_name(key)));
  return py::cast<std::string>(key);
}

std::string toml_key(const py::handle& key) {
  const std::string text = key_text(key);
  constexpr const char* bare = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
  return !text.empty() && text.find_first_not_of(bare) == std::string::npos ? text : model::toml_string(text);
}

// Returns a table on one line. None stands for a key that is not given.
std::string toml_table(const py::dict& table) {
  std::string text;
  for (const auto& [key, value] : table)
    if (!value.is_none()) text += fmt::format("{}{} = {}", text.empty() ? "" : ", ", toml_key(key), toml_of(value));
  return "{" + text + "}";
}

std::string toml_number(double value) {
  if (!std::isfinite(value)) return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
  const std::string text = fmt::format("{}", value);
  return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
}

// A value that contains itself, or is nested as deep as the stack, is Python's RecursionError.
class Nested {
 public:
  Nested() {
    if (Py_EnterRecursiveCall(" in a value of a plan") != 0) throw py::error_already_set();
  }
  ~Nested() { Py_LeaveRecursiveCall(); }
  Nested(const Nested&) = delete;
  Nested& operator=(const Nested&) = delete;
};

std::string toml_of(const py::handle& value) {
  const Nested nested;
  if (py::isinstance<py::bool_>(value)) return py::cast<bool>(value) ? "true" : "false";
  if (py::isinstance<py::int_>(value)) return py::str(value);
  if (py::isinstance<py::float_>(value)) return toml_number(py::cast<double>(value));
  if (py::isinstance<py::str>(value)) return model::toml_string(py::cast<std::string>(value));
  if (py::isinstance<py::dict>(value)) return toml_table(py::reinterpret_borrow<py::dict>(value));
  if (py::hasattr(value, "item") && !py::hasattr(value, "__len__")) return toml_of(value.attr("item")());  // NumPy
  if (!py::isinstance<py::iterable>(value))
    throw py::type_error(fmt::format("a plan has no values of type {}", type_name(value)));
  std::string items;
  for (const py::handle& item : value) items += (items.empty() ? "" : ", ") + toml_of(item);
  return "[" + items + "]";
}

// Returns the text of a plan; what stands at its top with a dotted key becomes an override.
std::string text_of(const py::dict& plan, std::vector<std::string>& overrides) {
  std::string text;
  for (const auto& [key, value] : plan) {
    const std::string name = key_text(key);
    if (value.is_none()) continue;
    if (name.find('.') == std::string::npos)
      text += fmt::format("{} = {}\n", toml_key(key), toml_of(value));
    else
      overrides.push_back(name + "=" + toml_of(value));
  }
  return text;
}

template <class T>
Result<T> without_line(Result<T> result, const PlanInput& input) {
  if (!result && input.is_given && result.error().file == input.file) result.error().line = 0;
  return result;
}

}  // namespace

std::vector<std::string> overrides_of(const py::handle& changes) {
  std::vector<std::string> overrides;
  if (changes.is_none()) return overrides;
  for (const auto& [name, value] : py::cast<py::dict>(changes)) {
    std::string key = key_text(name);
    for (std::size_t at = key.find("__"); at != std::string::npos; at = key.find("__", at)) key.replace(at, 2, ".");
    overrides.push_back(std::move(key) + "=" + toml_of(value));
  }
  return overrides;
}

PlanInput plan_input(const py::handle& plan, const py::handle& changes) {
  PlanInput input;
  if (py::isinstance<py::dict>(plan)) {
    input.is_given = true;
    input.file = py::cast<std::string>(py::getattr(plan, "file", py::str("<plan>")));
    input.text = text_of(py::reinterpret_borrow<py::dict>(plan), input.overrides);
  } else {
    const std::string name = py::cast<std::string>(py::module_::import("os").attr("fsencode")(plan));
    const bool is_text = name.find('\n') != std::string::npos;
    input.file = is_text ? "<plan>" : value_or_raise(cli::resolve(cli::Shipped::plan, name));
    input.text = is_text ? name : value_or_raise(model::read_text_file(input.file));
  }
  for (std::string& change : overrides_of(changes)) input.overrides.push_back(std::move(change));
  return input;
}

Result<sim::Inputs> load_inputs(cli::InputsReader& reader, const PlanInput& input,
                                const std::vector<std::string>& further) {
  PlanInput changed = input;
  changed.overrides.insert(changed.overrides.end(), further.begin(), further.end());
  const auto constants = TRY(cli::take_constant_changes(changed.overrides));
  const auto plan = TRY(without_line(model::read_plan(changed.text, changed.file, changed.overrides), input));
  return without_line(reader.of_plan(plan, std::nullopt, constants), input);
}

}  // namespace plumbline::python
