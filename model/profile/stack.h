// A software stack: what the framework around the kernels adds to a step (docs/stacks.md). Its constants replace or
// complete those of a profile; its settings are plan keys that the software implies.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "model/base/error.h"
#include "model/base/provenance.h"
#include "model/plan/plan_setting.h"
#include "model/profile/profile.h"

namespace plumbline::model {

inline constexpr std::string_view no_stack = "none";  // the name that stands for no stack at all

struct Stack {
  std::string name, description;
  std::vector<Parameter> parameters;  // sorted by name; each names this stack
  std::vector<PlanSetting> settings;  // those of the file first, then those of the stacks that it extends
  std::vector<PlanSetting> has;       // likewise: the values of a key that the software has
  std::string extends;
  std::vector<std::string> devices;  // where it stands in for the stack that it extends; names with *
  // The model types whose own software it is, with *; as the stack of a profile it is a plan's default for these alone,
  // and other_models is that of others. Empty: of all.
  std::vector<std::string> models;
  std::string other_models;

  bool stands_in_on(std::string_view device) const;
  bool is_of(std::string_view model_type) const;
};

// Reads calibrate/stacks/<name>.toml: `name`, `description`, `extends`, `devices`, `models` with `other_models`,
// entries as those of a profile (model/profile/profile.h), tables `[[setting]]` with the key and value of a plan, kind,
// source and, where they hold only with a constant of the profile, its name as `needs`, and tables `[[has]]` with the
// values that a key may have. A key that no stack may set, a value that the plan would refuse and a key that is set or
// listed twice are input errors with file and line. Constants that rest on the steps of the set `held_out` are left
// out: those of the stack that is extended stand instead.
Result<Stack> load_stack(const std::string& path, const std::string& shipped = "", const std::string& held_out = "");

// Gives the plan the settings that it does not state and whose constant the profile has, what the software has, and the
// stack's name where it names none.
Result<void> apply_stack(const Stack& stack, const Profile& profile, Plan& plan);

// Returns the profile with the constants of the stack, which replace those of the same name.
Profile with_stack(const Profile& profile, const Stack& stack);

}  // namespace plumbline::model
