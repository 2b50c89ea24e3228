// A plan in the making: values that the keys of another program's file give, each with its origin, and what was
// assumed.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/base/error.h"
#include "model/base/integers.h"
#include "model/base/text.h"
#include "model/configurations/configuration.h"

namespace plumbline::model {
struct Plan;
}  // namespace plumbline::model

namespace plumbline::model::configurations {

struct Note {
  enum class Kind { assumed, not_modeled, unknown };
  Kind kind = Kind::assumed;
  int line = 0;  // of the file; 0: none
  std::string text;
};

inline std::string toml_of(std::int64_t value) { return std::to_string(value); }
inline std::string toml_of(bool value) { return value ? "true" : "false"; }
inline std::string toml_of(double value) { return fmt::format("{}", value); }
inline std::string toml_of(std::string_view value) { return toml_string(value); }
inline std::string toml_of(const char* value) { return toml_string(value); }
template <class T>
std::string toml_of(const std::vector<T>& values) {
  std::string text;
  for (const T& value : values) text += (text.empty() ? "" : ", ") + toml_of(value);
  return "[" + text + "]";
}

// Values that the user sets (`overrides`, KEY=VALUE) win over those of the file, and what follows from a value follows
// from the user's. The first error about a key is kept, so that a format reads all its keys and checks once.
class Draft {
 public:
  Draft(const Configuration& configuration, std::string_view program, const std::vector<std::string>& overrides);

  // Return the value of a key of the file; nothing where it is missing, null or "auto".
  std::optional<std::string> text(std::string_view key) const;
  std::optional<std::int64_t> integer(std::string_view key);  // also written 5e8
  std::optional<double> number(std::string_view key);
  std::optional<bool> flag(std::string_view key);
  std::vector<std::string> list(std::string_view key) const;  // a text is split at commas

  // Sets a key of the plan from a key of the file, or as a rule of its own ("" or a sentence in `origin`).
  template <class T>
  void set(std::string_view plan_key, const T& value, std::string_view origin) {
    put(plan_key, toml_of(value), origin);
  }
  // Does the same with a value as TOML.
  void put(std::string_view plan_key, std::string value, std::string_view origin);
  // Sets a key of the plan that no key of the file decides, and notes it with the reason. `other` is the value that it
  // may well have instead; empty: none.
  template <class T>
  void assume(std::string_view plan_key, const T& value, std::string_view reason, std::string_view other = {}) {
    if (given(plan_key)) return;
    if (!other.empty()) open_choices_.push_back(fmt::format("{}={}", plan_key, other));
    put(plan_key, toml_of(value), "assumed");
    note(Note::Kind::assumed, "", fmt::format("assumed: {} = {}: {}", plan_key, toml_of(value), reason));
  }

  bool given(std::string_view plan_key) const { return settings_.contains(plan_key); }
  // Return a value of the plan as it is set so far.
  std::optional<std::string> word(std::string_view plan_key) const;
  std::optional<std::int64_t> value(std::string_view plan_key) const;
  // Returns a degree, at least 1: the plan is refused with one that is not.
  std::int64_t degree(std::string_view leaf) const { return count(fmt::format("parallelism.{}", leaf)); }
  // Return the GPUs of one copy of the layers, and the stages of the pipeline.
  std::int64_t model_parallel() const {
    return bounded_product({degree("tensor"), degree("context"), degree("pipeline")});
  }
  std::int64_t stages() const { return bounded_product({degree("pipeline"), count("schedule.virtual_stages")}); }
  // Returns the data-parallel degree; nothing where the GPUs are not stated or do not divide.
  std::optional<std::int64_t> data_parallel() const;

  void note(Note::Kind kind, std::string_view key, std::string text);
  // Notes an entry whose key is unknown; `text` follows the key.
  void note_unknown(const Entry& entry, const std::string& text);
  void not_modeled(std::string_view key, std::string_view what);
  // Notes in one line the values that are the program's defaults, because the file lacks their key.
  void note_defaults();
  // Keeps an error about a key of the file.
  void fail(std::string_view key, std::string message, std::string hint = "");
  void fail(Error error) {
    if (!error_) error_ = std::move(error);
  }

  const Configuration& configuration() const { return configuration_; }
  const std::optional<Error>& error() const { return error_; }
  std::vector<Note>& notes() { return notes_; }
  // Returns the other values of what was assumed, as KEY=VALUE.
  const std::vector<std::string>& open_choices() const { return open_choices_; }
  std::string_view program() const { return program_; }

  // Returns the plan. Required keys that nothing gives are one error that names them all; values that no plan may have
  // are errors at their line of the file.
  Result<Plan> plan() const;
  // Returns the plan as TOML with the keys that were given, each with its origin.
  std::string toml(const Plan& plan) const;

 private:
  std::int64_t count(std::string_view plan_key) const { return std::max<std::int64_t>(1, value(plan_key).value_or(1)); }

  struct Setting {
    std::string value, origin;
    int line = 0;
    bool of_user = false;
  };

  const Configuration& configuration_;
  std::string_view program_;
  const std::vector<std::string>& overrides_;
  std::map<std::string, Setting, std::less<>> settings_;
  std::vector<Note> notes_;
  std::vector<std::string> open_choices_;
  std::optional<Error> error_;
};

}  // namespace plumbline::model::configurations
